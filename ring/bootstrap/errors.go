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
