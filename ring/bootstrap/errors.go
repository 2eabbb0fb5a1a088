package bootstrap

import (
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
	Lost    []Direction   // what does not arrive, of each of them
	Peers   []PeerReport  // but for those that Cuts explain
	Remarks []string      // strangers on the port and the like
	// untrusted is that who answers for the right neighbour has not this rank's token.
	untrusted bool
}

// afterDigits hides what a rank did before the wait began.
const afterDigits = 50 * time.Millisecond

// Error is the parts in one line.
func (e *TimeoutError) Error() string { return e.Parts().String() }

// Parts names first what keeps the ranks waiting: connections that do not arrive, alone where
// both ends have told of them, ranks that are not up, else those that wait for no other.
func (e *TimeoutError) Parts() codes.Parts {
	waited := fmt.Sprintf("timed out after %s waiting for %s to %s", e.After.Round(afterDigits), calls.Ranks(e.From), e.What)
	p := codes.Parts{Result: strings.Join(e.Cuts, "; "), Evidence: append([]string{waited}, e.Remarks...)}
	if len(e.Cuts) > 0 {
		return p
	}
	var at, waiting []int
	var why []string
	for _, peer := range e.Peers {
		switch {
		case peer.unasked: // which says nothing of that rank
			p.Evidence = append(p.Evidence, peer.told())
		case len(peer.waiting) > 0:
			waiting = append(waiting, peer.Rank)
		case len(why) < calls.MostNamed:
			if peer.Up {
				why = append(why, fmt.Sprintf("rank %d (%s) is awaited to %s, and is %s", peer.Rank, peer.Node, e.What, peer.State))
			} else {
				why = append(why, peer.told())
			}
			fallthrough
		default:
			at = append(at, peer.Rank)
		}
	}
	if len(at) == 0 { // each waits for another
		p.Result, p.Evidence = waited, append(e.reasons(), e.Remarks...)
		return p
	}
	if more := len(at) - len(why); more > 0 {
		why = append(why, fmt.Sprintf("so are %d more", more))
	}
	p.Result = strings.Join(why, "; ")
	if len(waiting) > 0 {
		are := map[bool]string{true: "is up and waits", false: "are up and wait"}[len(waiting) == 1]
		p.Result += fmt.Sprintf("; %s %s for %s", calls.Ranks(waiting), are, map[bool]string{true: "it", false: "them"}[len(at) == 1])
	}
	if e.FailureCode() == codes.Absent {
		p.Fix = "start it with the same --list and its own --index, or see there why it ended"
	}
	return p
}

// told is a rank with its state.
func (p *PeerReport) told() string {
	text := fmt.Sprintf("rank %d (%s)", p.Rank, p.Node)
	if strings.HasPrefix(p.State, notRunning) {
		return text + " is " + p.State
	}
	return text + ": " + p.State
}

// reasons are of few ranks: of many, who is up and waits for another says least.
func (e *TimeoutError) reasons() []string {
	why, peers := slices.Clone(e.Cuts), e.Peers
	if len(peers) > calls.MostNamed {
		waits := func(p PeerReport) int { return min(len(p.waiting), 1) }
		peers = slices.SortedStableFunc(slices.Values(peers), func(a, b PeerReport) int { return waits(a) - waits(b) })
	}
	for _, p := range peers[:min(len(peers), calls.MostNamed)] {
		why = append(why, p.told())
	}
	if rest := peers[min(len(peers), calls.MostNamed):]; len(rest) > 0 {
		up := 0
		for _, p := range rest {
			up += map[bool]int{true: 1}[p.Up]
		}
		why = append(why, fmt.Sprintf("%d more ranks, of which %d are up", len(rest), up))
	}
	return why
}

// verdict fails the ring for what was awaited in vain.
func (e *TimeoutError) verdict(own *node) *Verdict {
	kind := KindTimeout
	if usage.Is(e) {
		kind = KindMismatch
	}
	said := e.Parts()
	v := own.verdict(kind, -1, "%s", said.Result).Coded(e.FailureCode())
	v.Fix, v.Evidence = said.Fix, said.Evidence
	v.Rank, v.Edge, v.Confidence = e.blamed()
	return v
}

// blamed returns the one edge over which connections do not arrive, or the one rank that is not
// up: certain where its host says so. -1: neither, or several.
func (e *TimeoutError) blamed() (rank int, edge Direction, sure Confidence) {
	rank, sure = -1, Suspect
	switch {
	case len(e.Lost) > 1:
		return rank, edge, sure
	case len(e.Lost) == 1 && e.Lost[0].Both: // the host may be down
		return rank, e.Lost[0], sure
	case len(e.Lost) == 1:
		return rank, e.Lost[0], Certain
	}
	for _, p := range e.Peers {
		switch {
		case p.Up:
		case rank >= 0:
			return -1, edge, Suspect
		case p.Mute || p.unasked:
			rank = p.Rank
		default:
			rank, sure = p.Rank, Certain
		}
	}
	return rank, edge, sure
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
