// Package command is the command table: its rows, the cobra commands that are made
// from them for the process and for a line, their flags, help and completion.
package command
