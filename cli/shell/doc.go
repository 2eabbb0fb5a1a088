// Package shell is the interactive shell: it gives each line a session of its own and
// the ring to one of them at a time, and has the commands that only make sense where
// lines are typed or read from a file.
package shell
