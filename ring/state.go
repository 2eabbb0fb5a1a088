package ring

import (
	"fmt"

	"ringcli/verbs"
)

// State is how far a ring has come.
//
//	New ─Open▶ Opened ─Init▶ Initialised ─Exchange▶ Exchanged ─RTR▶ RTR ─RTS▶ RTS ─Ping▶ Ready
//	             ▲  └──────────── a queue pair fails ─▶ Error                              │
//	             └─────────────── Reset ──────────────────┴────────────────────────────────┘
//	 any ── the ring fails ─▶ Failed ── Close ─▶ Closed
type State int32

// The states of a ring. From Opened to Error they are what the queue pairs say,
// the one that is behind counting; that the exchange was done and that a ping
// came back is the ring's own knowledge.
const (
	StateNew State = iota
	StateOpened
	StateInitialised
	StateExchanged
	StateRTR
	StateRTS
	StateReady
	StateError // a queue pair is in ERR or SQE
	StateFailed
	StateClosed
)

var stateNames = [...]string{"new", "open", "init", "exchanged", "RTR", "RTS", "ready", "error", "failed", "closed"}

func (s State) String() string {
	if int(s) < len(stateNames) && s >= 0 {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", int32(s))
}

// steps names the step that leads to each state.
var steps = [...]string{StateOpened: "open", StateInitialised: "init", StateExchanged: "exchange", StateRTR: "rtr", StateRTS: "rts", StateReady: "ping"}

// StepError is a step out of order; the ring is as it was.
type StepError struct {
	Step    string // what was asked for
	State   State  // what the ring is in
	Missing string // the step that comes first, if one is missing
	Detail  string // the queue pair that holds the step up, if one does
}

func (e *StepError) Error() string {
	detail := ""
	if e.Detail != "" {
		detail = " (" + e.Detail + ")"
	}
	switch {
	case e.Missing != "":
		return fmt.Sprintf("%s: the ring is %s%s: %s comes first", e.Step, e.State, detail, e.Missing)
	case e.State == StateFailed:
		return e.Step + ": the ring has failed: close it and connect again"
	case e.State == StateClosed:
		return e.Step + ": the ring is closed: connect again"
	case e.State == StateOpened:
		return fmt.Sprintf("%s: the ring is %s: this step is done", e.Step, e.State)
	default:
		return fmt.Sprintf("%s: the ring is %s%s: this step is done: reset first to take it again", e.Step, e.State, detail)
	}
}

// checkStep tells whether the step to a state may be taken in state s.
func checkStep(s, to State) error {
	e := &StepError{Step: steps[to], State: s}
	switch {
	case s == to-1, s == StateReady && to == StateReady, s == StateExchanged && to == StateExchanged:
		return nil
	case s == StateError:
		e.Missing = "reset"
	case s < to-1:
		e.Missing = steps[s+1]
	}
	return e
}

// State returns how far the ring has come. It asks the queue pairs.
func (r *Ring) State() State {
	s, _ := r.stateOf(Left, Right)
	return s
}

// stateOf returns how far some edges have come, and which queue pair is behind,
// or in error.
func (r *Ring) stateOf(sides ...Side) (State, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != StateOpened {
		return r.state, ""
	}
	least, detail, differ := StateReady, "", false
	for i, side := range sides {
		e := r.edges[side]
		if e == nil {
			return StateOpened, ""
		}
		s, text := r.edgeState(e)
		if s == StateError {
			return s, text
		}
		differ = differ || i > 0 && s != least
		if i == 0 || s < least {
			least, detail = s, text
		}
	}
	if !differ {
		detail = ""
	}
	return least, detail
}

// edgeState asks one queue pair. It needs mu.
func (r *Ring) edgeState(e *Edge) (State, string) {
	attr, _, err := e.QP.Query()
	if err != nil {
		return StateError, fmt.Sprintf("the %s queue pair cannot be queried: %v", e.Side, err)
	}
	text := fmt.Sprintf("the %s queue pair is %s", e.Side, attr.State)
	switch attr.State {
	case verbs.StateReset:
		return StateOpened, text
	case verbs.StateInit:
		if r.exchanged {
			return StateExchanged, text
		}
		return StateInitialised, text
	case verbs.StateRTR, verbs.StateSQD: // neither sends
		return StateRTR, text
	case verbs.StateRTS:
		if e.pinged {
			return StateReady, text
		}
		return StateRTS, text
	default:
		return StateError, text
	}
}

// Usable returns nil if the queue pairs are in RTS and the ring has not failed,
// else why operations cannot run. It asks the queue pairs.
func (r *Ring) Usable() error {
	s, detail := r.stateOf(Left, Right)
	r.mu.Lock()
	failure, spoilt := r.err, r.spoilt
	r.mu.Unlock()
	e := &StepError{Step: "operation", State: s, Detail: detail}
	switch {
	case failure != nil:
		return failure
	case spoilt != nil && s < StateError:
		return spoilt
	case s == StateRTS || s == StateReady:
		return nil
	case s < StateRTS:
		e.Missing = steps[s+1]
	case s == StateError:
		e.Missing = "reset"
	}
	return e
}

// spoil keeps operations from running: a ping failed, and its messages may
// still come in.
func (r *Ring) spoil(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spoilt == nil {
		r.spoilt = fmt.Errorf("messages of a ping that failed may still be on their way: reset on all ranks first; the ping: %w", err)
	}
}
