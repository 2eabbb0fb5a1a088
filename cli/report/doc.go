// Package report packs what a ticket needs of a node, or of all nodes of a ring, into one
// archive, and keeps secrets out of it.
package report
