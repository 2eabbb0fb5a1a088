package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/ring/bootstrap/kernel"
	"ringcli/ring/bootstrap/verdict"
)

// A rank that is cut off says so, and suspects neither neighbour, in whatever order and how
// far apart it hears the last of them.
func TestWhoIsCutOffSaysSo(t *testing.T) {
	t.Parallel()
	const tick = 125 * time.Millisecond // as of the bounds below
	for _, later := range []int{left, right} {
		for apart := time.Duration(0); apart <= time.Second; apart += 200 * time.Millisecond {
			for _, told := range []bool{false, true} { // by the other neighbour of who is heard no more, that it has been asked
				c, base := lone(t)
				v, at := (*Verdict)(nil), time.Duration(0)
				for ; v == nil && at < 10*time.Second; at += tick {
					now := base.Add(at)
					w := c.liveness
					w.mu.Lock()
					w.looked = now
					for side, l := range c.neighbours.all() {
						last := min(at, map[bool]time.Duration{true: apart}[side == later])
						l.now.heard, l.now.spoke = base.Add(last), base.Add(last)
						p := w.of(l.peer)
						p.movedAt, p.marked = base, false // no packets are counted
						if p.call = ""; at-last >= c.own.pace.suspect+c.own.pace.call {
							p.call = verdict.CallMute
						}
						if told && side != later && at >= apart {
							w.told[[2]int{3, l.peer}] = verdict.Sighting{By: 3, About: l.peer, Seq: 1, At: base.Add(apart)}
						}
					}
					w.look(now)
					w.mu.Unlock()
					v = c.outcome.proposal
				}
				if v == nil || v.Kind != KindIsolated || v.Rank != c.own.rank || v.Confidence != Suspect {
					t.Errorf("neighbour %d is heard %s longer, told %t: after %s %+v: expected that rank %d is isolated", later, apart, told, at, v, c.own.rank)
				}
			}
		}
	}
}

// A rank whose neighbours are processes of its own host and network is never cut off, however
// long it hears neither: they are slow, for longer than the bound of silence.
func TestWhoIsSlowIsNotIsolated(t *testing.T) {
	t.Parallel()
	for _, call := range []verdict.Outcome{"", verdict.CallMute} {
		for _, failed := range []bool{false, true} { // what it was in with them
			c, base := lone(t)
			c.own.self = identity{PID: os.Getpid(), Process: kernel.This()}
			if c.own.self.Process == nil {
				t.Skip("needs /proc")
			}
			w := c.liveness
			for _, p := range w.peers {
				p.process, p.called = verdict.ProcessRunning, true
				c.members.set(p.rank, identity{PID: -1 - p.rank, Process: c.own.self.Process})
			}
			v, at := (*Verdict)(nil), time.Duration(0)
			for ; v == nil && at < time.Minute; at += c.own.pace.tick {
				w.mu.Lock()
				w.looked = base.Add(at)
				for _, l := range c.neighbours.all() {
					l.now.heard, l.now.spoke = base, base
					p := w.of(l.peer)
					p.movedAt, p.marked, p.call = base, false, call
					if failed && at >= 3*time.Second {
						p.fault, p.faultAt = &Verdict{Kind: KindFailed, Rank: p.rank, Text: "retries ran out"}, base.Add(3*time.Second)
					}
				}
				w.look(base.Add(at))
				w.mu.Unlock()
				v = c.outcome.proposal
			}
			want, least := KindStopped, slowness*c.own.pace.silence
			if failed {
				want, least = KindFailed, 3*time.Second
			}
			if v == nil || v.Kind != want || v.Rank == c.own.rank || v.Confidence != Suspect || at < least {
				t.Errorf("call %q, failed %t: after %s %+v: expected %s after %s at least", call, failed, at, v, want, least)
			}
		}
	}
}

// lone is rank 1 of 4, connected to nobody, whose neighbours were heard at the time that it
// returns. Nothing looks at a clock but the test, and nobody is called.
func lone(t *testing.T) (*Control, time.Time) {
	t.Helper()
	nodes := freshNodes(t, 4)
	cfg := configFor(t, nodes, 1)
	c := newControl(cfg)
	c.outcome.seal()
	t.Cleanup(func() {
		c.life.end()
		c.life.running.Wait()
	})
	for side := range [2]int{} {
		near, far := net.Pipe()
		t.Cleanup(func() { _, _ = near.Close(), far.Close() })
		c.neighbours.sides[side].Store(&connection{own: c.own, epoch: c.Epoch, side: side, peer: c.own.neighbour(side), conn: near, now: state{used: true}, wake: make(chan struct{}, 1)})
	}
	for _, p := range c.liveness.peers {
		p.calling = true
	}
	return c, time.Now()
}

// A rank that has come and is killed while the ring forms is named with its host and process,
// by those that have met it, and through them by the others.
func TestKilledWhileTheRingForms(t *testing.T) {
	t.Parallel()
	const victim = 2
	nodes := freshNodes(t, 4)
	var k cutter
	world := make([]*Control, len(nodes))
	for rank := 1; rank < len(nodes); rank++ {
		cfg := configFor(t, nodes, rank)
		if rank == victim {
			k.install(&cfg)
			dial := cfg.Dial
			cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if k.dead.Load() {
					return nil, syscall.ECONNABORTED
				}
				return dial(ctx, network, address)
			}
		}
		world[rank] = openRank(t, cfg)
		c := world[rank]
		c.dialler.start()
	}
	met := func(c *Control, side int) bool {
		return c.neighbours.at(side) != nil
	}
	until(t, "rank 2's connections", func() bool { return met(world[1], right) && met(world[3], left) })
	k.cut()
	until(t, "their end", func() bool { return !met(world[1], right) && !met(world[3], left) })
	world[0] = openRank(t, configFor(t, nodes, 0))
	who := fmt.Sprintf("host %s, pid %d", world[victim].own.self.Host, os.Getpid())
	for rank, err := range each(world, func(c *Control) error {
		after := time.Second
		switch c.own.rank {
		case victim:
			return nil
		case 0:
			after = 10 * time.Second // it hears of it
		}
		ctx, cancel := context.WithTimeout(t.Context(), after)
		defer cancel()
		return exchange(ctx, c)
	}) {
		if rank == victim {
			continue
		}
		if v := world[rank].Failure(); v == nil || v.Rank != victim || v.PID != os.Getpid() || v.Host != world[victim].own.self.Host {
			t.Errorf("rank %d: %+v: expected rank 2 with its host and process", rank, v)
		}
		if !strings.Contains(textOf(err), "it had come ("+who+")") && !errors.As(err, new(*Verdict)) {
			t.Errorf("rank %d: %v: expected %q", rank, err, who)
		}
	}
}
