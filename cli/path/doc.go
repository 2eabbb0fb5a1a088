// Package path is the command that says what the paths between neighbours carry: sizes, DSCP
// and ECN, several source ports, and whether the bytes go where they are thought to go.
package path
