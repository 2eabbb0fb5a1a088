package edges

import (
	"fmt"

	"ringcli/configs/codes"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// CompletionError is a failed completion with the edge that it was on. It wraps
// *verbs.StatusError.
type CompletionError struct {
	Edge      ID
	Peer      int
	Node      string
	QPN       uint32
	Status    verbs.Status
	Device    string // the edge's
	HostLocal bool   // so is that device
	Event     string // what the device reported before, "" if nothing
}

// What is the failure without an explanation.
func (e *CompletionError) What() string {
	return fmt.Sprintf("%s edge to rank %d (%s)%s, queue pair 0x%06x: %v", e.Edge.Side(), e.Peer, e.Node, e.Edge.Over(), e.QPN, e.Status.Err())
}

func (e *CompletionError) Error() string {
	s := e.What()
	hint := hints[e.Status]
	if e.Status == verbs.RetryExceeded && e.HostLocal {
		hint = "the peer's process is gone, or its queue pair has failed"
	}
	if hint != "" {
		s += ": " + hint
	}
	if e.Event != "" {
		s += "; " + e.Event
	}
	return s
}

// FailureCode is that of its status.
func (e *CompletionError) FailureCode() codes.Code { return diagnose.StatusCode(e.Status) }

func (e *CompletionError) Unwrap() error { return e.Status.Err() }

// What the statuses mean in practice, and what to look at.
var hints = map[verbs.Status]string{
	verbs.RetryExceeded:        "no acknowledgement came for any of the retries",
	verbs.RNRRetryExceeded:     "the peer had no receive posted for any of the retries",
	verbs.RemoteAccessError:    "the peer refused the rkey, the address or the range",
	verbs.RemoteInvalidRequest: "the peer refused the request: `qp` compares the two ends",
	verbs.LocalProtectionError: "a local key or address is wrong",
	verbs.LocalLengthError:     "a message was longer than the receive buffer",
	verbs.FlushError:           "the queue pair failed before; the first error is elsewhere",
}

// QueuePairError is that a queue pair has failed and no request of an operation tells why.
type QueuePairError struct {
	Rank  int
	Edge  ID
	Peer  int
	Node  string // the peer's
	QPN   uint32
	State verbs.QPState
	First *diagnose.Failure // nil if no request of its own failed by itself
	Idle  bool              // it failed while nothing ran
	Event string            // what the device reported before, "" if nothing
}

// FailureCode is that of its first error: that of a peer's, if it had none.
func (e *QueuePairError) FailureCode() codes.Code {
	if e.First == nil {
		return codes.Flushed
	}
	return diagnose.StatusCode(verbs.Status(e.First.Status))
}

func (e *QueuePairError) Error() string {
	idle := ""
	if e.Idle {
		idle = " while nothing ran"
	}
	text := fmt.Sprintf("the %s queue pair 0x%06x of rank %d to rank %d (%s)%s failed%s, and is %s: ", e.Edge.Side(), e.QPN, e.Rank, e.Peer, e.Node, e.Edge.Over(), idle, e.State)
	if e.First == nil {
		text += "no request of its own failed, so it refused one of its peer's, or was taken there by force"
	} else {
		text += "its first error was " + e.First.String()
	}
	if e.Event != "" {
		text += "; " + e.Event
	}
	return text + ": connect again; if it fails again, look at rank " + fmt.Sprint(e.Peer)
}

// DeviceError is an event after which a rank's device or queue pair is of no use.
type DeviceError struct {
	Rank   int
	Node   string
	Device string
	Event  verbs.AsyncEvent
}

// FailureCode is that of a device that is of no use.
func (e *DeviceError) FailureCode() codes.Code { return codes.Device }

func (e *DeviceError) Error() string {
	cure := "connect again"
	if e.Event.Type == verbs.EventDeviceFatal {
		cure = "the device must be reset, or its driver loaded anew (dmesg says more); then connect again"
	}
	return fmt.Sprintf("rank %d (%s): %s reports %s: %s", e.Rank, e.Node, e.Device, e.Event, cure)
}
