// Package tables keeps the tables that tune has measured, by which auto chooses
// algorithm and protocol: the file that they are in, and which of them a ring takes.
package tables
