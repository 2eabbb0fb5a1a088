// Package lines runs the lines of a script or of the shell: it takes them apart, finds
// their commands in the table and runs each here, or on all ranks where this one leads.
package lines
