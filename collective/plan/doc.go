// Package plan says what one call of a collective is, and how the ranks run it.
//
//	Call       operation, type, reduction, count, root: as its caller wants it
//	Table      which algorithm and protocol a call gets that leaves them open
//	Agreement  what the ranks of a ring know of it alike
//	Plan       of these three makes the call as it runs, with segment and depth
//
// It is a pure function, so that all ranks come to the same without asking. What the ranks
// must agree on of a planned call is its [Call.Signature], which travels in headers.
package plan
