// Package local runs all ranks of a ring on this machine, as processes, each with an
// address of its own.
package local
