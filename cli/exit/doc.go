// Package exit says how a process ends: its exit codes, the errors that have one of
// their own, and the signals that end it.
package exit
