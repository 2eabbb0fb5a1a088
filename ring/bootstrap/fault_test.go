package bootstrap

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ringcli/ring/bootstrap/seal"
)

// A rank that cannot call anybody, since it has no descriptor left, tells of an operation
// that failed all the same, and both ends agree.
func TestAFaultIsToldWithoutACall(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	world := ring(t, 2, func(cfg *Config) {
		cfg.Death = 15 * time.Second // on a busy machine this process may stand still for less
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if full.Load() {
				return nil, &net.OpError{Op: "dial", Err: syscall.EMFILE}
			}
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		}
	})
	full.Store(true)
	world[0].Fail(&Verdict{Kind: KindFailed, Rank: 1, By: 0, Text: "retries ran out"})
	w := world[0].liveness
	w.mu.Lock()
	p := w.of(1)
	p.faultAt = p.faultAt.Add(-world[0].own.cfg.Death)
	w.mu.Unlock()
	ctx := within(t)
	for rank, err := range each(world, func(c *Control) error { return c.Barrier(ctx) }) {
		var v *Verdict
		if !errors.As(err, &v) || v.Rank != 1 || v.Confidence != Suspect || !strings.Contains(v.Text, "retries ran out") {
			t.Errorf("rank %d: %v: expected that rank 1 is suspected of it", rank, err)
		}
	}
}

// While the ring comes up, a neighbour whose host has ended its connection is lost for
// certain; what anything else did to the connection makes nobody the culprit for certain.
func TestLostWhileComingUp(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]Confidence{io.EOF: Certain, io.ErrUnexpectedEOF: Certain, syscall.ECONNRESET: Certain, seal.ErrForged: Suspect, syscall.ENETDOWN: Suspect} {
		c := ring(t, 2, nil)[0]
		c.outcome.mu.Lock()
		c.outcome.sealed = false
		c.outcome.mu.Unlock()
		l := c.neighbours.at(right)
		c.lost(l, err)
		if v := c.Failure(); v == nil || v.Kind != KindLost || v.Rank != 1 || v.Confidence != want {
			t.Errorf("%v: %+v: expected the loss of rank 1, %s", err, v, want)
		}
	}
}

// A rank that is not up is missing for certain if its host says so, and not if this rank
// could not ask.
func TestMissing(t *testing.T) {
	t.Parallel()
	nodes := freshNodes(t, 2)
	for err, want := range map[error]Confidence{nil: Certain, syscall.EMFILE: Suspect} {
		cfg := configFor(t, nodes, 0)
		if err != nil {
			cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: err}
			}
		}
		c := openRank(t, cfg)
		rank, _, sure := (&TimeoutError{Peers: c.prober.probeAll(t.Context())}).blamed()
		if rank != 1 || sure != want {
			t.Errorf("dial: %v: rank %d is missing, %s: expected rank 1, %s", err, rank, sure, want)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Once a rank has heard a verdict it adds none that says the same, nor any that is late: the
// others may have settled.
func TestVerdictsOfSurvivorsDoNotDiffer(t *testing.T) {
	t.Parallel()
	heard := Verdict{Kind: KindLost, Rank: 2, Confidence: Certain, By: 1, Text: "no new one is answered"}
	same, graver := heard, heard
	same.By, same.Text = 0, "its process is dead"
	graver.By, graver.Kind = 0, KindStopped
	for _, test := range []struct {
		own  Verdict
		late bool
		by   int // who found the verdict that counts
	}{{same, false, 1}, {graver, false, 0}, {graver, true, 1}} {
		c := ring(t, 3, nil)[0]
		o := c.outcome
		o.mu.Lock()
		told, own := heard, test.own
		told.Told = true
		o.proposeLocked(&told, c.neighbours.at(right))
		if test.late {
			o.proposedAt = o.proposedAt.Add(-c.own.pace.settle * 3 / 4)
		}
		o.proposeLocked(&own, nil)
		if o.proposal.By != test.by {
			t.Errorf("own %q, late %t: the verdict is rank %d's, %q: expected rank %d's", own.Text, test.late, o.proposal.By, o.proposal.Text, test.by)
		}
		o.mu.Unlock()
	}
}

// A rank that hears that it is dead says that it lives, and all end with that.
func TestTheLivingAreNotLost(t *testing.T) {
	t.Parallel()
	world := ring(t, 4, nil)
	world[1].Fail(&Verdict{Kind: KindLost, Rank: 2, Confidence: Certain, By: 1, Text: "rank 2 is dead"})
	ctx := within(t)
	for rank, err := range each(world, func(c *Control) error { return c.Barrier(ctx) }) {
		var v *Verdict
		if !errors.As(err, &v) || v.Kind != KindEdge || v.Rank >= 0 || v.Edge != (Direction{From: 1, To: 2, Both: true}) || !strings.Contains(v.Text, "which lives") {
			t.Errorf("rank %d: %v: expected that the edge from 1 to 2 is cut", rank, err)
		}
	}
}
