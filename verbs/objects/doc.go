// Package objects holds what providers that work in software keep alike: the
// Context with its count of what is open, the completion queue with its channel, the
// protection domain, what a queue pair holds of these, and the table of memory regions
// with its keys.
//
// The provider is the Owner. It moves the data, pushes the completions, and is
// asked for progress when a queue is polled.
//
// Locks: a completion queue's is the innermost but for a channel's. A Table is
// read without a lock: closing a region first removes it and then asks the owner
// to wait for the callers that had looked it up.
package objects

import "ringcli/verbs"

// Owner is the Context of a provider, to its objects.
type Owner interface {
	verbs.Context
	// Progress makes a round of progress. last is set if the caller will not poll
	// for a while.
	Progress(last bool)
	// TakeOver says that the caller is about to block rather than poll.
	TakeOver()
	// CreateQP makes a queue pair of a domain (verbs.PD).
	CreateQP(*Domain, verbs.QPInitAttr) (verbs.QP, error)
	// Locate returns the arena that memory lies in, if its kind is verbs.MemoryArena, and
	// where in it; else 0.
	Locate(addr, length uint64) (arena, offset uint64)
	// Registered is told of a region that can be reached from now on.
	Registered(*Region)
	// Withdrawn is told of a region whose keys are dead. When it returns, no
	// caller that looked the region up before touches its memory any more.
	Withdrawn(*Region)
}
