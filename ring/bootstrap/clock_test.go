package bootstrap

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/oob"
	"ringcli/trace"
)

// samples collects what a rank records.
type samples struct {
	mu   sync.Mutex
	list []trace.ClockSample
}

func (s *samples) add(peer int, at, offset, rtt int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, trace.ClockSample{Peer: peer, At: at, Offset: offset, RTT: rtt})
}

func (s *samples) copy() []trace.ClockSample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]trace.ClockSample(nil), s.list...)
}

// Clocks that differ are measured to within half a round trip, which is as good
// as it gets, in a burst after the exchange, once a second, and on demand.
func TestClockSamples(t *testing.T) {
	t.Parallel()
	skew := []time.Duration{50 * time.Millisecond, -50 * time.Millisecond, 0}
	for _, n := range []int{2, 3} {
		var seen [3]samples
		world := ring(t, n, func(cfg *Config) {
			off := int64(skew[cfg.Rank])
			cfg.Clock = func() int64 { return trace.Clock() + off }
			cfg.Sample = seen[cfg.Rank].add
		})
		noErrors(t, each(world, func(c *Control) error { return c.SampleClock(within(t)) }))
		least := 2 * clockBurst
		if n == 3 {
			least++ // a second later
		}
		for r := range n {
			until(t, "the samples", func() bool { return len(seen[r].copy()) >= least })
		}
		for r := range n {
			right := (r + 1) % n
			got := seen[r].copy()
			for _, s := range got {
				wrong := s.Offset - int64(skew[right]-skew[r])
				if s.Peer != right || s.RTT < 0 || max(wrong, -wrong) > s.RTT/2+1 || s.At > world[r].own.cfg.Clock() || s.At < world[r].own.cfg.Clock()-int64(time.Minute) {
					t.Errorf("rank %d of %d: %+v is wrong by %d ns: expected rank %d to within half of the round trip", r, n, s, wrong, right)
				}
			}
		}
	}
}

func TestClockOfARingOfOne(t *testing.T) {
	t.Parallel()
	var seen samples
	world := ring(t, 1, func(cfg *Config) { cfg.Sample = seen.add })
	if err := world[0].SampleClock(within(t)); err != nil || len(seen.copy()) != 0 {
		t.Errorf("%v, %v: expected nothing to compare", seen.copy(), err)
	}
}

func TestSampleClockBeforeExchange(t *testing.T) {
	t.Parallel()
	c := openRank(t, configFor(t, freshNodes(t, 2), 0))
	if err := c.SampleClock(t.Context()); !strings.Contains(textOf(err), "exchange first") {
		t.Errorf("%v: expected to be told to exchange first", err)
	}
}

// Time that a frame waits in the queue, behind others that are slow to write, is
// no part of the way.
func TestStampsAreTakenWhenWriting(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe() // nothing is written before it is read
	defer func() { _, _ = near.Close(), far.Close() }()
	var now atomic.Int64
	now.Store(1000)
	c := newControl(Config{List: make([]hosts.Node, 2), Clock: now.Load})
	l := &connection{own: c.own, epoch: c.Epoch, side: right, peer: 1, conn: near, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	l.send(TypeHeartbeat, nil)
	q := question{ID: 1, Kind: "clock", Clock: new(reading)}
	l.sendStamped(TypeAsk, func(now int64) any { q.Clock.T1 = now; return q })
	frames := l.out
	done := make(chan error, 1)
	go func() { done <- l.flush(frames) }()
	reader := &connection{own: c.own, conn: far}
	if _, err := reader.Read(make([]byte, 1)); err != nil || reader.arrived != 1000 {
		t.Fatalf("arrived at %d, %v", reader.arrived, err)
	}
	now.Store(2000) // the question waits until the heartbeat is read
	rest := make([]byte, len(frames[0].frame)-1)
	for n := 0; n < len(rest); {
		got, err := far.Read(rest[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += got
	}
	f, err := oob.ReadFrame(far)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got, err := oob.Decode[question](f); err != nil || got.Clock == nil || got.Clock.T1 != 2000 {
		t.Errorf("%+v, %v: expected to be stamped 2000, when it was written", got.Clock, err)
	}
}
