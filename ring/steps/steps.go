// Package steps has the states of a ring, the steps that lead to them, and what a step out of
// order is.
package steps

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
	New State = iota
	Opened
	Initialised
	Exchanged
	RTR
	RTS
	Ready
	Error // a queue pair is in ERR or SQE
	Failed
	Closed
)

// Of is the state that a queue pair says. exchanged and pinged are whether the exchange was
// done, and a ping has come back.
func Of(qp verbs.QPState, exchanged, pinged bool) State {
	switch qp {
	case verbs.StateReset:
		return Opened
	case verbs.StateInit:
		if exchanged {
			return Exchanged
		}
		return Initialised
	case verbs.StateRTR, verbs.StateSQD: // neither sends
		return RTR
	case verbs.StateRTS:
		if pinged {
			return Ready
		}
		return RTS
	}
	return Error
}

var stateNames = [...]string{"new", "open", "init", "exchanged", "RTR", "RTS", "ready", "error", "failed", "closed"}

func (s State) String() string {
	if int(s) < len(stateNames) && s >= 0 {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", int32(s))
}

// Names names the step that leads to each state.
var Names = [...]string{Opened: "open", Initialised: "init", Exchanged: "exchange", RTR: "rtr", RTS: "rts", Ready: "ping"}

// OrderError is a step out of order; the ring is as it was.
type OrderError struct {
	Step    string // what was asked for
	State   State  // what the ring is in
	Missing string // the step that comes first, if one is missing
	Detail  string // the queue pair that holds the step up, if one does
}

// FailureCode is that of a step out of order.
func (e *OrderError) FailureCode() codes.Code { return codes.Order }

func (e *OrderError) Error() string {
	detail := ""
	if e.Detail != "" {
		detail = " (" + e.Detail + ")"
	}
	switch {
	case e.Missing != "":
		return fmt.Sprintf("%s: the ring is %s%s: %s comes first", e.Step, e.State, detail, e.Missing)
	case e.State == Closed:
		return e.Step + ": the ring is closed: connect again"
	case e.State == Opened:
		return fmt.Sprintf("%s: the ring is %s: this step is done", e.Step, e.State)
	default:
		return fmt.Sprintf("%s: the ring is %s%s: this step is done: reset first to take it again", e.Step, e.State, detail)
	}
}

// Remedies say what a queue pair does not do in a state, and which step comes next.
var Remedies = map[verbs.QPState]string{
	verbs.StateReset: "it drops what arrives; run init",
	verbs.StateInit:  "it drops what arrives; run rtr",
	verbs.StateRTR:   "it receives, but does not send; run rts",
	verbs.StateRTS:   "it works; ask again",
	verbs.StateSQD:   "it receives, but does not send; run reset",
	verbs.StateSQE:   "it does not send; run reset",
	verbs.StateErr:   "it drops what arrives; run reset",
}
