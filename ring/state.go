package ring

import (
	"fmt"

	"ringcli/ring/steps"
	"ringcli/verbs"
)

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
