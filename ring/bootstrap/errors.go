package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/calls"
)

// Kind says why a ring failed. Scripts match it.
type Kind string

// The kinds of verdicts.
const (
	KindLost     Kind = "lost"     // a process ended without a goodbye
	KindSilent   Kind = "silent"   // nothing heard, nothing moving and no answer: a host or a network is down
	KindStopped  Kind = "stopped"  // a process stands still
	KindIsolated Kind = "isolated" // a rank hears none of its neighbours
	KindEdge     Kind = "edge"     // two ranks live and what one sends does not reach the other
	KindLeft     Kind = "left"     // a goodbye while others still need the ring
	KindCorrupt  Kind = "corrupt"  // data changed between two ranks
	KindMismatch Kind = "mismatch" // two nodes were told different things
	KindTimeout  Kind = "timeout"  // a wait's deadline passed
	KindFailed   Kind = "failed"   // a rank's own error
	KindCanceled Kind = "canceled" // a rank's user ended what ran

	KindRegrouped Kind = "regrouped" // the ring goes on without some ranks
)

// Confidence says how sure a verdict is of whom it names.
type Confidence string

// The degrees of confidence.
const (
	Certain Confidence = "certain" // it was seen, by the rank itself, by its host or by both its neighbours
	Suspect Confidence = "suspect" // it explains what one rank has seen; others may, too
)

// Direction is from one rank to another over the edge between them; From and To are the
// same if no edge is meant.
type Direction struct {
	From int  `json:"from"`
	To   int  `json:"to"`
	Both bool `json:"both,omitempty"` // nor does the other way
}

// IsZero tells whether no edge is meant.
func (d Direction) IsZero() bool { return d.From == d.To }

// Doing is the operation that a rank was in.
type Doing struct {
	Operation uint64 `json:"operation"`         // its number
	Words     string `json:"words"`             // the call, for people
	Phase     string `json:"phase,omitempty"`   // of the operation
	Segment   int    `json:"segment,omitempty"` // of the phase
	Awaited   string `json:"awaited,omitempty"` // what had not come, and from whom
}

// IsZero tells whether the rank was idle.
func (d Doing) IsZero() bool { return d == Doing{} }

// told says what a rank was in, behind what happened to it; "" if it was idle.
func (d Doing) told(rank int) string {
	if d.IsZero() {
		return ""
	}
	text := fmt.Sprintf(" (rank %d was in operation %d, %s", rank, d.Operation, d.Words)
	if d.Awaited != "" {
		text += ", and awaited " + d.Awaited
	}
	return text + ")"
}

// Verdict is why the ring failed, as every rank is told.
type Verdict struct {
	Kind       Kind          `json:"kind"`
	Code       codes.Code    `json:"code,omitempty"` // where more is known than the kind
	Rank       int           `json:"rank"`           // the culprit, or -1
	Host       string        `json:"host,omitempty"` // of the culprit
	PID        int           `json:"pid,omitempty"`  // of the culprit
	Edge       Direction     `json:"edge,omitzero"`  // what does not carry, where it is an edge and not a rank
	Confidence Confidence    `json:"confidence"`
	Doing      Doing         `json:"doing,omitzero"`     // what whoever found it was in
	Since      time.Duration `json:"since_ns,omitempty"` // how long before the verdict it began
	By         int           `json:"by"`                 // who found it
	Text       string        `json:"text"`               // one line: what happened, to whom, the evidence, what to do
	// Calls is who calls what, where ranks call different operations.
	Calls []calls.Called `json:"calls,omitempty"`
	// group, of KindRegrouped, is who is in the ring now, where that is known.
	group *Group
	// told is set on the ranks that got the verdict from another, and slept on the one that
	// it names: for so long that stood still.
	told  bool
	slept time.Duration
}

// Error returns the text, and who found it if that was another rank.
func (v *Verdict) Error() string {
	text := v.Text
	if v.told {
		text = fmt.Sprintf("rank %d reports: %s", v.By, text)
	}
	if v.slept > 0 {
		text = fmt.Sprintf("this rank was stopped for %s: %s", Ago(v.slept), text)
	}
	return text
}

// Group is who is in the ring now, of a verdict that the leader has decided anew, or nil.
func (v *Verdict) Group() *Group { return v.group }

// FromEvidence tells whether the ranks, or both ends of an edge, were asked before the verdict:
// there is nothing to add.
func (v *Verdict) FromEvidence() bool {
	return slices.Contains([]Kind{KindStopped, KindIsolated, KindEdge, KindSilent}, v.Kind)
}

// FailureCode is what scripts match: the kind, unless more is known.
func (v *Verdict) FailureCode() codes.Code { return cmp.Or(v.Code, codes.Code(v.Kind)) }

// coded says more than the kind.
func (v *Verdict) coded(code codes.Code) *Verdict {
	v.Code = code
	return v
}

// Is makes a mismatch an usage.Err.
func (v *Verdict) Is(target error) bool {
	return target == usage.Err && (v.Kind == KindMismatch || v.Kind == KindRegrouped)
}

// ErrClosed is returned by operations on a closed Control.
var ErrClosed = errors.New("the control ring is closed")

// PeerReport is what a probe learned of one rank.
type PeerReport struct {
	Rank  int    `json:"rank"`
	Node  string `json:"node"`
	Up    bool   `json:"up"`
	Mute  bool   `json:"mute"`  // nothing came back, not even a refusal: the host, the network or the process stands still
	Took  bool   `json:"took"`  // so, but that its host took the call
	State string `json:"state"` // what it does, or why it was not reached
	// unasked is that this rank could not call it: that says nothing of it.
	unasked bool
	// counted is what it knows of attempts to connect, waiting the ranks that it waits for.
	counted []attempts
	waiting []int
}

// TimeoutError is a deadline that passed, with the state of every rank.
type TimeoutError struct {
	What    string        // what they were to do
	From    []int         // the ranks that were awaited
	After   time.Duration // how long this rank was to wait
	Cuts    []string      // whose connections do not arrive, and why
	Peers   []PeerReport  // but for those that Cuts explain
	Remarks []string      // strangers on the port and the like
	// untrusted is that who answers for the right neighbour has not this rank's token.
	untrusted bool
}

// afterDigits hides what a rank did before the wait began.
const afterDigits = 50 * time.Millisecond

// Error is one line: the wait, then every rank that is not this one.
func (e *TimeoutError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "timed out after %s waiting for %s to %s", e.After.Round(afterDigits), calls.Ranks(e.From), e.What)
	for i, text := range e.reasons() {
		b.WriteString(map[bool]string{true: ": ", false: "; "}[i == 0] + text)
	}
	return b.String()
}

// reasons are of few ranks: of many, who is up and waits for another says least.
func (e *TimeoutError) reasons() []string {
	why, peers := slices.Clone(e.Cuts), e.Peers
	if len(peers) > calls.MostNamed {
		waits := func(p PeerReport) int { return min(len(p.waiting), 1) }
		peers = slices.SortedStableFunc(slices.Values(peers), func(a, b PeerReport) int { return waits(a) - waits(b) })
	}
	for _, p := range peers[:min(len(peers), calls.MostNamed)] {
		why = append(why, fmt.Sprintf("rank %d (%s): %s", p.Rank, p.Node, p.State))
	}
	if rest := peers[min(len(peers), calls.MostNamed):]; len(rest) > 0 {
		up := 0
		for _, p := range rest {
			up += map[bool]int{true: 1}[p.Up]
		}
		why = append(why, fmt.Sprintf("%d more ranks, of which %d are up", len(rest), up))
	}
	return append(why, e.Remarks...)
}

// blame names the connections that do not arrive, where the ring has not come up: that
// the ranks at their ends wait for each other says less. It needs the lock.
func (e *TimeoutError) blame(c *Control) {
	if c.sealed {
		return
	}
	counted := c.known()
	for _, p := range e.Peers {
		counted = append(counted, p.counted...)
	}
	for _, cut := range c.cuts(counted) {
		e.Cuts = append(e.Cuts, cut.text)
		e.Peers = slices.DeleteFunc(e.Peers, func(p PeerReport) bool { return p.Rank == cut.from || p.Rank == cut.to })
	}
}

// FailureCode tells why a ring has not come up, as far as that is known of the ranks that
// were awaited.
func (e *TimeoutError) FailureCode() codes.Code {
	if e.What == exchanging && e.untrusted {
		return codes.Token
	}
	mute := len(e.Cuts) > 0
	for _, p := range e.Peers {
		if e.What == exchanging && !p.Up && (!p.Mute || p.Took) && !p.unasked {
			return codes.Absent
		}
		mute = mute || p.Mute
	}
	if e.What == exchanging && mute {
		return codes.Unreachable
	}
	return codes.Timeout
}

// Is makes it an usage.Err where the ranks have not the same token.
func (e *TimeoutError) Is(target error) bool {
	return target == usage.Err && e.FailureCode() == codes.Token
}

// Unwrap makes it a deadline that passed for errors.Is.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }
