package ring

import (
	"fmt"

	"ringcli/ring/steps"
	"ringcli/verbs"
)

// State is how far a ring has come.
type State = steps.State

// The states of a ring. From Opened to Error they are what the queue pairs say,
// the one that is behind counting; that the exchange was done and that a ping
// came back is the ring's own knowledge.
const (
	StateNew         = steps.New
	StateOpened      = steps.Opened
	StateInitialised = steps.Initialised
	StateExchanged   = steps.Exchanged
	StateRTR         = steps.RTR
	StateRTS         = steps.RTS
	StateReady       = steps.Ready
	StateError       = steps.Error // a queue pair is in ERR or SQE
	StateFailed      = steps.Failed
	StateClosed      = steps.Closed
)

// StepError is a step out of order; the ring is as it was.
type StepError = steps.OrderError

// State returns how far the ring has come. It asks the queue pairs.
func (r *Ring) State() State { return r.table.standing(bothSides).State }

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
		return fmt.Sprintf("the %s queue pair cannot be queried: %v", s.behind.ID.Name(), s.err)
	default:
		return fmt.Sprintf("the %s queue pair is %s", s.behind.ID.Name(), s.qp)
	}
}

// standing asks the queue pairs of some edges; the one that is behind counts.
func (t *edgeTable) standing(sides []Side) standing {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != StateOpened {
		return standing{State: t.state, err: t.err}
	}
	var least standing
	differ := false
	for _, side := range sides {
		if t.edges[side] == nil {
			return standing{State: StateOpened}
		}
		s, mixed := t.standingOf(t.edges[side])
		if s.State == StateError {
			return s
		}
		differ = differ || mixed || least.behind != nil && s.State != least.State
		if least.behind == nil || s.State < least.State {
			least = s
		}
	}
	if !differ {
		least.behind = nil
	}
	return least
}

// Reached is how far the queue pairs to a neighbour have come, and the state of the one that
// is behind: StateError if that is ERR or SQE.
func (x *Ends) Reached(side Side) (State, verbs.QPState, error) {
	x.table.mu.Lock()
	defer x.table.mu.Unlock()
	if x.table.edges[side] == nil {
		return StateOpened, verbs.StateReset, nil
	}
	s, _ := x.table.standingOf(x.table.edges[side])
	return s.State, s.qp, s.err
}

// standingOf asks the queue pairs of an edge, and returns the one that is behind or in error,
// and whether they differ. It needs mu.
func (t *edgeTable) standingOf(e *Edge) (least standing, differ bool) {
	for i, channel := range e.Channels() {
		s := t.standingOfOne(channel)
		if s.State == StateError {
			return s, true
		}
		differ = differ || i > 0 && s.State != least.State
		if i == 0 || s.State < least.State {
			least = s
		}
	}
	return least, differ
}

// standingOfOne asks one queue pair. It needs mu.
func (t *edgeTable) standingOfOne(e *Edge) standing {
	attr, _, err := e.QP.Query()
	s := standing{State: StateError, behind: e, qp: attr.State, err: err}
	if err == nil {
		s.State = steps.Of(attr.State, t.exchanged, e.pinged)
	}
	return s
}

// Usable returns nil if the queue pairs are in RTS and the ring has not failed,
// else why operations cannot run. It asks the queue pairs, which costs two calls
// of the device; Failed, for poll loops, costs nothing.
func (r *Ring) Usable() error {
	s := r.table.standing(bothSides)
	r.table.mu.Lock()
	failure, unclean := r.table.err, r.table.unclean
	r.table.mu.Unlock()
	switch {
	case failure != nil:
		return failure
	case s.State != StateRTS && s.State != StateReady:
		if failed := r.table.failedQueuePair(true); failed != nil {
			return failed
		}
		return stepError("operation", s, StateReady)
	default:
		return unclean
	}
}

// mayStep tells whether a step may be taken on some edges.
func (t *edgeTable) mayStep(to State, sides []Side) error {
	s := t.standing(sides)
	if s.State == to-1 || s.State == to && (to == StateReady || to == StateExchanged) {
		return nil
	}
	return stepError(steps.Names[to], s, to)
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
		e.Missing = steps.Names[s.State+1]
	}
	return e
}
