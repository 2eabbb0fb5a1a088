package ring

import (
	"fmt"

	"ringcli/configs/codes"
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

// FailureCode is that of a step out of order.
func (e *StepError) FailureCode() codes.Code { return codes.Order }

func (e *StepError) Error() string {
	detail := ""
	if e.Detail != "" {
		detail = " (" + e.Detail + ")"
	}
	switch {
	case e.Missing != "":
		return fmt.Sprintf("%s: the ring is %s%s: %s comes first", e.Step, e.State, detail, e.Missing)
	case e.State == StateClosed:
		return e.Step + ": the ring is closed: connect again"
	case e.State == StateOpened:
		return fmt.Sprintf("%s: the ring is %s: this step is done", e.Step, e.State)
	default:
		return fmt.Sprintf("%s: the ring is %s%s: this step is done: reset first to take it again", e.Step, e.State, detail)
	}
}

// State returns how far the ring has come. It asks the queue pairs.
func (r *Ring) State() State { return r.standing(bothSides).State }

var bothSides = []Side{Left, Right}

// standing is how far some edges have come.
type standing struct {
	State
	// behind is the edge that is behind the other, or in error; nil if none is.
	behind *Edge
	qp     verbs.QPState // of behind
	err    error         // why behind could not be asked, or why the ring has failed
}

// detail names the queue pair that holds the others up, if one does.
func (s standing) detail() string {
	switch {
	case s.behind == nil:
		return ""
	case s.err != nil:
		return fmt.Sprintf("the %s queue pair cannot be queried: %v", s.behind.Side, s.err)
	default:
		return fmt.Sprintf("the %s queue pair is %s", s.behind.Side, s.qp)
	}
}

// standing asks the queue pairs of some edges; the one that is behind counts.
func (r *Ring) standing(sides []Side) standing {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != StateOpened {
		return standing{State: r.state, err: r.err}
	}
	var least standing
	differ := false
	for i, side := range sides {
		if r.edges[side] == nil {
			return standing{State: StateOpened}
		}
		s := r.standingOf(r.edges[side])
		if s.State == StateError {
			return s
		}
		differ = differ || i > 0 && s.State != least.State
		if i == 0 || s.State < least.State {
			least = s
		}
	}
	if !differ {
		least.behind = nil
	}
	return least
}

// Reached is how far the queue pair to a neighbour has come, and the state that it is
// in: StateError if that is ERR or SQE.
func (r *Ring) Reached(side Side) (State, verbs.QPState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.edges[side] == nil {
		return StateOpened, verbs.StateReset, nil
	}
	s := r.standingOf(r.edges[side])
	return s.State, s.qp, s.err
}

// standingOf asks one queue pair. It needs mu.
func (r *Ring) standingOf(e *Edge) standing {
	attr, _, err := e.QP.Query()
	s := standing{State: StateError, behind: e, qp: attr.State, err: err}
	if err != nil {
		return s
	}
	switch attr.State {
	case verbs.StateReset:
		s.State = StateOpened
	case verbs.StateInit:
		s.State = StateInitialised
		if r.exchanged {
			s.State = StateExchanged
		}
	case verbs.StateRTR, verbs.StateSQD: // neither sends
		s.State = StateRTR
	case verbs.StateRTS:
		s.State = StateRTS
		if e.pinged {
			s.State = StateReady
		}
	}
	return s
}

// Usable returns nil if the queue pairs are in RTS and the ring has not failed,
// else why operations cannot run. It asks the queue pairs, which costs two calls
// of the device; Failed, for poll loops, costs nothing.
func (r *Ring) Usable() error {
	s := r.standing(bothSides)
	r.mu.Lock()
	failure, unclean := r.err, r.unclean
	r.mu.Unlock()
	switch {
	case failure != nil:
		return failure
	case s.State != StateRTS && s.State != StateReady:
		if failed := r.failedQueuePair(true); failed != nil {
			return failed
		}
		return stepError("operation", s, StateReady)
	default:
		return unclean
	}
}

// mayStep tells whether a step may be taken on some edges.
func (r *Ring) mayStep(to State, sides []Side) error {
	s := r.standing(sides)
	if s.State == to-1 || s.State == to && (to == StateReady || to == StateExchanged) {
		return nil
	}
	return stepError(steps[to], s, to)
}

// stepError says why the step to a state cannot be taken: what comes first, that it
// is done, or what has failed the ring.
func stepError(step string, s standing, to State) error {
	if s.State == StateFailed {
		return fmt.Errorf("%s: the ring has failed: %w: close it and connect again", step, s.err)
	}
	e := &StepError{Step: step, State: s.State, Detail: s.detail()}
	switch {
	case s.State == StateError:
		e.Missing = "reset"
	case s.State < to-1:
		e.Missing = steps[s.State+1]
	}
	return e
}
