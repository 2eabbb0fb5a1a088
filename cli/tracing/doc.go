// Package tracing is the command trace: levels of prints, and the flight recorder
// shown, dumped and merged.
package tracing
