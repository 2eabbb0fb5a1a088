// Package verdict has the verdicts on a ring that failed, and makes them of what its ranks
// have seen of each other: pure functions.
package verdict

import (
	"cmp"
	"fmt"
	"slices"
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

// Told says what a rank was in; "" if it was idle.
func (d Doing) Told(rank int) string {
	if d.IsZero() {
		return ""
	}
	text := fmt.Sprintf("rank %d was in operation %d, %s", rank, d.Operation, d.Words)
	if d.Awaited != "" {
		text += ", and awaited " + d.Awaited
	}
	return text
}

// Verdict is why the ring failed, as every rank is told.
type Verdict struct {
	Kind       Kind          `json:"kind"`
	Code       codes.Code    `json:"code,omitempty"` // where more is known than the kind
	Rank       int           `json:"rank"`           // the culprit, or -1
	Host       string        `json:"host,omitempty"` // of the culprit
	PID        int           `json:"pid,omitempty"`  // of the culprit
	Edge       Direction     `json:"edge,omitzero"`  // what does not carry, or whose ends were told different things; not with a rank
	Confidence Confidence    `json:"confidence"`
	Doing      Doing         `json:"doing,omitzero"`     // what whoever found it was in
	Since      time.Duration `json:"since_ns,omitempty"` // how long before the verdict it began
	By         int           `json:"by"`                 // who found it
	Text       string        `json:"text"`               // one line: what happened, and to whom
	Fix        string        `json:"fix,omitempty"`      // what to do
	Evidence   []string      `json:"evidence,omitempty"` // what was observed
	Culprit    Culprit       `json:"culprit,omitempty"`  // as what the rank is at fault, where its edges were tested
	Tests      []Test        `json:"tests,omitempty"`    // of edges, that the verdict rests on
	// Calls is who calls what, where ranks call different operations.
	Calls []calls.Called `json:"calls,omitempty"`
	// Group, of KindRegrouped, is who is in the ring now, where that is known: of a leader that
	// has decided anew.
	Group *Group `json:"-"`
	// Told is set on the ranks that got the verdict from another, and Slept on the one that
	// it names: for so long that stood still.
	Told  bool          `json:"-"`
	Slept time.Duration `json:"-"`
}

// Error is the parts in one line.
func (v *Verdict) Error() string { return v.Parts().String() }

// Parts names who found it, too, if that was another rank: first where the words are that
// rank's own.
func (v *Verdict) Parts() codes.Parts {
	p := codes.Parts{Result: v.Text, Fix: v.Fix, Evidence: slices.Clone(v.Evidence)}
	switch {
	case !v.Told, v.Kind == KindCanceled: // whose text names the rank
	case len(v.Evidence) > 0 || v.FromEvidence() || v.Kind == KindLost:
		p.Evidence = append(p.Evidence, fmt.Sprintf("found by rank %d", v.By))
	default:
		p.Result = fmt.Sprintf("rank %d reports: %s", v.By, p.Result)
	}
	if v.Slept > 0 {
		p.Result = fmt.Sprintf("this rank %s: %s", Stood(v.Slept), p.Result)
	}
	return p
}

// FromEvidence tells whether the ranks, or both ends of an edge, were asked before the verdict:
// there is nothing to add.
func (v *Verdict) FromEvidence() bool {
	return slices.Contains([]Kind{KindStopped, KindIsolated, KindEdge, KindSilent}, v.Kind)
}

// FailureCode is what scripts match: the kind, unless more is known.
func (v *Verdict) FailureCode() codes.Code { return cmp.Or(v.Code, codes.Code(v.Kind)) }

// Coded says more than the kind.
func (v *Verdict) Coded(code codes.Code) *Verdict {
	v.Code = code
	return v
}

// Is makes a mismatch an usage.Err.
func (v *Verdict) Is(target error) bool {
	return target == usage.Err && (v.Kind == KindMismatch || v.Kind == KindRegrouped)
}
