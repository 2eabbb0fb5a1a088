// Package overlap has the command that starts operations, computes meanwhile, and tells
// how much of the communication that hides.
package overlap
