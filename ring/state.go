package ring

import "fmt"

// State is how far a ring has come.
//
//	New ─Open▶ Opened ─Init▶ Initialised ─Exchange▶ Exchanged ─RTR▶ AtRTR ─RTS▶ AtRTS ─Ping▶ Ready
//	 └───────────────────────────── an error ─▶ Failed ─Close▶ Closed ◀─Close─────────────────┘
type State int32

// The states of a ring. Its queue pairs are in INIT from Initialised on, and in
// RTR and RTS in the states of these names.
const (
	StateNew State = iota
	StateOpened
	StateInitialised
	StateExchanged
	StateRTR
	StateRTS
	StateReady
	StateFailed
	StateClosed
)

var stateNames = [...]string{"new", "open", "init", "exchanged", "RTR", "RTS", "ready", "failed", "closed"}

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
}

func (e *StepError) Error() string {
	switch {
	case e.Missing != "":
		return fmt.Sprintf("%s: the ring is %s: %s comes first", e.Step, e.State, e.Missing)
	case e.State == StateFailed:
		return e.Step + ": the ring has failed: close it and connect again"
	case e.State == StateClosed:
		return e.Step + ": the ring is closed: connect again"
	default:
		return fmt.Sprintf("%s: the ring is %s: this step is done", e.Step, e.State)
	}
}

// checkStep tells whether the step to a state may be taken in state s.
func checkStep(s, to State) error {
	e := &StepError{Step: steps[to], State: s}
	switch {
	case s == to-1 || s == StateReady && to == StateReady:
		return nil
	case s < to-1:
		e.Missing = steps[s+1]
	}
	return e
}
