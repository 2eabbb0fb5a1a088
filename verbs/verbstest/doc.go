// Package verbstest is the conformance suite of the verbs: what every provider
// must do, failures included. A provider's test calls Run with a Harness that
// opens two of its contexts.
//
// The suite knows nothing of a provider's insides. It speaks to the interfaces of
// package verbs, lets both ends live in one process, and holds that
//
//   - a successful completion means that the data is in place at its target,
//   - what a device refuses is refused with an error that callers can test for,
//   - a failed request ends with the status that InfiniBand Architecture
//     Specification 1.4 gives it (volume 1, chapter 9.9 and table 59), as rdma_rxe
//     and NICs do.
//
// Where a provider is known to differ, its Harness says so with a Quirk, so that
// the difference is written down in one place; the tests then expect that very
// difference, or are skipped with its name.
//
// Nothing waits for ever: each wait has a deadline, and its failure says what was
// awaited and what had arrived.
package verbstest

import (
	"testing"
	"time"

	"ringcli/verbs"
)

// Harness is how the suite reaches a provider.
type Harness struct {
	// Open opens two contexts that can reach each other: on one device or on
	// two, with the same address or another. It is called once or twice in each
	// test; the suite closes what it returns.
	Open func(t testing.TB) (a, b Endpoint)
	// Quirks is what the provider lacks or does otherwise. OnlyA and OnlyB are what
	// one end does alone, where the two are of different providers.
	Quirks, OnlyA, OnlyB Quirk
	// Impaired says that packets get lost or mixed up on the way. Then only those
	// tests run that must pass all the same: a lost NAK, for one, turns any
	// failure into RetryExceeded.
	Impaired bool
	// Timeout is the ACK timeout code of queue pairs whose test doesn't choose
	// one. Zero takes 14 (67 ms), or 13 (34 ms) if Impaired.
	Timeout uint8
	// Deadline is how long a test waits for anything. Zero takes 10 s.
	Deadline time.Duration
	// StressOps is the number of operations of the stress test. Zero takes 2000.
	StressOps int
	// Seed of the stress test. Zero takes one from the clock; a failure prints it.
	Seed uint64
}

// Endpoint is one end: an open context and the GID to use on it.
type Endpoint struct {
	Context  verbs.Context
	Port     int // zero takes 1
	GIDIndex int
}

// Quirk is a set of things that a provider lacks or does otherwise.
type Quirk uint32

const (
	// NoSQD: no send-queue-drained state.
	NoSQD Quirk = 1 << iota
	// NoOverrun: Poll does not report that a completion queue overflowed.
	NoOverrun
	// Allocates: posting and polling allocate memory.
	Allocates
	// ShortReceiveInvalid: a receive buffer that is too short completes with
	// RemoteInvalidRequest instead of LocalLengthError (rdma_rxe).
	ShortReceiveInvalid
	// LocalFaultQPOp: memory that the device may not touch completes with
	// LocalQPOpError instead of LocalProtectionError, but for READs and for what
	// crosses the end of a region (rdma_rxe).
	LocalFaultQPOp
	// SendMTUUnchecked: a responder takes SENDs cut to another path MTU than its
	// own (rdma_rxe before Linux 6.2).
	SendMTUUnchecked
	// NoUseAfterClose: a closed object must not be touched; others report ErrClosed.
	NoUseAfterClose
	// KeysRepeat: a new region may get the very keys of one just closed, so that a
	// peer's stale rkey opens it.
	KeysRepeat
	// RoundsDepths: Query gives max_rd_atomic and max_dest_rd_atomic rounded up to
	// powers of two (rdma_rxe).
	RoundsDepths
	// LateReceivesStay: receives posted in ERR are taken and never flushed
	// (rdma_rxe, whose library writes them to memory and tells nobody).
	LateReceivesStay
	// DuplicatesUnacked: before a responder has executed a SEND, WRITE or atomic it
	// answers duplicates with a PSN that has nothing to do with them, so that a requester
	// that is behind from the start may give up (rdma_rxe).
	DuplicatesUnacked
	// ShortReceiveOpError: a message longer than its receive fails with
	// RemoteOpError instead of RemoteInvalidRequest, and the receive with
	// LocalQPOpError instead of LocalLengthError (rdma_rxe).
	ShortReceiveOpError
	// FenceStalls: a fenced request may wait for ever if requests before it were
	// sent again after an RNR NAK (rdma_rxe).
	FenceStalls
	// ReplayedKeyChecked: a READ of nothing that arrives twice fails with
	// RemoteAccessError if its rkey is no region's (rdma_rxe).
	ReplayedKeyChecked
)

func (q Quirk) String() string {
	for i, name := range []string{
		"NoSQD", "NoOverrun", "Allocates", "ShortReceiveInvalid", "LocalFaultQPOp", "SendMTUUnchecked", "NoUseAfterClose",
		"KeysRepeat", "RoundsDepths", "LateReceivesStay", "DuplicatesUnacked", "ShortReceiveOpError", "FenceStalls",
		"ReplayedKeyChecked",
	} {
		if q == 1<<i {
			return name
		}
	}
	return "several quirks"
}

type group struct {
	name  string
	run   func(t *testing.T, h Harness)
	lossy bool // must pass on an impaired path, too
}

var groups = []group{
	{"Query", testQuery, false},
	{"Objects", testObjects, false},
	{"States", testStates, false},
	{"Transfer", testTransfer, true},
	{"SGL", testSGL, true},
	{"Inline", testInline, true},
	{"Order", testOrder, true},
	{"Queues", testQueues, true},
	{"Completions", testCompletions, true},
	{"Events", testEvents, false},
	{"Atomics", testAtomics, true},
	{"PSN", testPSNWrap, true},
	{"PSNMismatch", testPSNMismatch, false},
	{"ReceiverNotReady", testReceiverNotReady, false},
	{"Flush", testFlush, false},
	{"RemoteFaults", testRemoteFaults, false},
	{"LocalFaults", testLocalFaults, false},
	{"PeerGone", testPeerGone, false},
	{"Many", testMany, true},
	{"Allocations", testAllocations, false},
	{"Stress", testStress, true},
}

// Run runs the suite: each case is a subtest.
func Run(t *testing.T, h Harness) {
	if h.Deadline == 0 {
		h.Deadline = 10 * time.Second
	}
	if h.Timeout == 0 {
		h.Timeout = 14
		if h.Impaired {
			h.Timeout = 13
		}
	}
	if h.StressOps == 0 {
		h.StressOps = 2000
	}
	for _, g := range groups {
		if h.Impaired && !g.lossy {
			continue
		}
		t.Run(g.name, func(t *testing.T) { g.run(t, h) })
	}
}

// skip leaves out a test for a quirk of either end, by name.
func (h Harness) skip(t *testing.T, q Quirk) {
	t.Helper()
	if (h.Quirks|h.OnlyA|h.OnlyB)&q != 0 {
		t.Skipf("the provider has the quirk %s", q)
	}
}

// hasA and hasB tell whether an end has a quirk.
func (h Harness) hasA(q Quirk) bool { return (h.Quirks|h.OnlyA)&q != 0 }
func (h Harness) hasB(q Quirk) bool { return (h.Quirks|h.OnlyB)&q != 0 }

// localFault is the status of a request whose own memory may not be touched.
func localFault(quirk bool, fault string, op verbs.Opcode) verbs.Status {
	if quirk && op != verbs.OpRead && fault != acrossTheEnd {
		return verbs.LocalQPOpError
	}
	return verbs.LocalProtectionError
}
