package collective

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/collective/reduce"
	"ringcli/collective/reduce/reference"
	"ringcli/ring"
	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/verbstest"
)

// TestDisagreement: one rank calls something else than the others. Every rank
// gets an error, and it names what both sides called.
func TestDisagreement(t *testing.T) {
	verbstest.Long(t)
	common := Call{Op: OpAllReduce, Count: 1000, Type: reduce.Float32, Reduction: reduce.Sum}
	for _, test := range []struct {
		name   string
		change func(*Call)
		words  []string
	}{
		{"count", func(r *Call) { r.Count = 999 }, []string{"all-reduce of 1000 float32, sum, eager", "all-reduce of 999 float32, sum, eager"}},
		{"no elements", func(r *Call) { r.Count = 0 }, []string{"of 1000 float32", "of 0 float32"}},
		{"type", func(r *Call) { r.Type = reduce.Int32 }, []string{"1000 float32", "1000 int32"}},
		{"reduction", func(r *Call) { r.Reduction = reduce.Max }, []string{"float32, sum", "float32, max"}},
		{"operation", func(r *Call) { r.Op = OpReduceScatter }, []string{"all-reduce of", "reduce-scatter of"}},
		{"write for eager", func(r *Call) { r.Protocol = RendezvousWrite }, []string{"eager", "rendezvous-write"}},
		{"read for eager", func(r *Call) { r.Protocol = RendezvousRead }, []string{"eager", "rendezvous-read"}},
		{"into place for eager", func(r *Call) { r.Protocol = ReceiverInitiated }, []string{"sum, eager", "sum, receiver-initiated"}},
		{"segment", func(r *Call) { r.Segment = 400 }, []string{"segments of 1000 bytes", "segments of 400 bytes"}},
		{"depth", func(r *Call) { r.Depth = 2 }, []string{"depth 4", "depth 2"}},
		{"sync", func(r *Call) { r.Sync = true }, []string{"depth 4, synchronized", "depth 4"}},
	} {
		for _, base := range []Protocol{Eager, RendezvousWrite, RendezvousRead, ReceiverInitiated} {
			if base != Eager && strings.HasSuffix(test.name, "eager") || base == ReceiverInitiated && (test.name == "operation" || test.name == "sync") {
				continue
			}
			t.Run(test.name+", "+base.String(), func(t *testing.T) {
				t.Parallel()
				const n, odd = 4, 2
				w := newWorld(t, n, ring.Options{}, nil)
				errs := w.each(func(rank int, c *Comm) error {
					send, err := c.Alloc(4000)
					if err != nil {
						return err
					}
					recv, err := c.Alloc(4000)
					if err != nil {
						return err
					}
					r := common
					r.Protocol = base
					if rank == odd {
						test.change(&r)
					}
					r.Send, r.Recv = send.Addr(), recv.Addr()
					return c.Run(context.Background(), r)
				})
				wantTable(t, errs, odd)
				for rank, err := range errs {
					if !errors.Is(err, ErrUsage) {
						t.Errorf("rank %d: %v: expected a disagreement", rank, err)
						continue
					}
					for _, word := range test.words {
						if word = strings.ReplaceAll(word, "sum, eager", "sum, "+base.String()); !strings.Contains(err.Error(), word) {
							t.Errorf("rank %d: %q does not say %q", rank, err, word)
						}
					}
				}
			})
		}
	}
}

// TestCancel: one rank gives up in the middle; all ranks get an error in good
// time, the one that gave up the context's.
func TestCancel(t *testing.T) {
	for _, way := range allWays() {
		t.Run(wayName(way), func(t *testing.T) {
			const n, count = 3, 1 << 20
			w := newWorld(t, n, ring.Options{}, nil)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			k := newKit(w, count, reduce.Int32, reduce.Sum)
			errs := w.each(func(rank int, c *Comm) error {
				own := context.Background()
				if rank == 1 {
					own = ctx
				}
				for range 10000 {
					err := c.AllReduce(own, k.send[rank].Addr(), k.recv[rank].Addr(), count, k.typ, k.red, way)
					if err != nil {
						return err
					}
					if rank == 0 {
						time.AfterFunc(time.Millisecond, cancel)
					}
				}
				return nil
			})
			for rank, err := range errs {
				if err == nil {
					t.Errorf("rank %d went on", rank)
				}
			}
			if !errors.Is(errs[1], context.Canceled) {
				t.Errorf("rank 1: %v: expected context.Canceled", errs[1])
			}
			// The keys are dead and the Comm stays failed.
			for rank, c := range w.comms {
				if c.Err() == nil {
					t.Errorf("rank %d: the Comm has no error", rank)
				}
				if b := c.pool.At(0, math.MaxUint64); b != nil {
					t.Errorf("rank %d: %d bytes are still registered", rank, b.Len())
				}
				if err := c.Barrier(context.Background()); err == nil {
					t.Errorf("rank %d: a barrier on a ring that failed", rank)
				}
			}
		})
	}
}

// TestCancelWhileQueued: a call that is given up before its turn is given up by
// all ranks too, since they wait for it.
func TestCancelWhileQueued(t *testing.T) {
	w := newWorld(t, 2, ring.Options{}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	errs := w.each(func(rank int, c *Comm) error {
		if rank == 1 {
			return c.Barrier(context.Background())
		}
		if err := c.enter(context.Background(), nil); err != nil { // another operation
			return err
		}
		defer c.leave()
		time.AfterFunc(10*time.Millisecond, cancel)
		return c.Barrier(ctx)
	})
	if !errors.Is(errs[0], context.Canceled) || errs[1] == nil {
		t.Errorf("%v", errs)
	}
}

// TestMissingRank: one rank never calls. The error says what was awaited, from
// whom, and what had come.
func TestMissingRank(t *testing.T) {
	const n = 3
	for _, way := range allWays() {
		t.Run(wayName(way), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, n, ring.Options{}, nil)
			k := newKit(w, 900, reduce.Int32, reduce.Sum)
			k.runs(1, 900, way)
			w.timeout(300 * time.Millisecond)
			start := time.Now()
			errs := w.each(func(rank int, c *Comm) error {
				if rank == 2 {
					return nil
				}
				return c.AllReduce(context.Background(), k.send[rank].Addr(), k.recv[rank].Addr(), 900, k.typ, k.red, way)
			})
			if took := time.Since(start); took > 15*time.Second { // of the 20 that ranks have to come up
				t.Errorf("it took %v to give up after 0.3 s", took)
			}
			var first string
			for _, err := range errs[:2] {
				if err == nil {
					t.Fatal("an operation without rank 2 succeeded")
				}
				if errors.Is(err, ErrTimeout) && errors.Is(err, context.DeadlineExceeded) {
					first = err.Error()
				}
			}
			for _, words := range []string{"all-reduce of 900 int32, sum, ", "no progress for 300ms", "rank 2", "awaited from rank"} {
				if words == "rank 2" && (way.Algorithm == AlgorithmRecursiveDoubling || way.Algorithm == AlgorithmTree) {
					continue // one rank waits for rank 2, and the other for that one
				}
				if !strings.Contains(first, words) {
					t.Errorf("%q does not say %q", first, words)
				}
			}
		})
	}
}

// TestCorruption: what a fault injector does to a segment on its way is found,
// at the right place, by the check that the command line uses.
func TestCorruption(t *testing.T) {
	const n, count = 4, 4000
	lo, hi := reduce.Chunk(count, n, 1) // the first segment that rank 2 gathers
	for _, test := range []struct {
		name         string
		corrupt      func(payload []byte)
		wrong, first int
	}{
		{"flipped byte", func(p []byte) { p[41] ^= 0x10 }, 1, lo + 10},
		{"swapped halves", func(p []byte) {
			for i := range len(p) / 2 {
				p[i], p[i+len(p)/2] = p[i+len(p)/2], p[i]
			}
		}, hi - lo, lo},
	} {
		for _, protocol := range []Protocol{Eager, RendezvousWrite, RendezvousRead, ReceiverInitiated} {
			t.Run(test.name+", "+protocol.String(), func(t *testing.T) {
				w := newWorld(t, n, ring.Options{}, func(rank int) Options {
					if rank != 2 {
						return Options{}
					}
					return Options{Corrupt: func(op Operation, segment int, payload []byte) {
						if op == OpAllReduce && segment == n-1 { // after the n-1 that it reduces
							test.corrupt(payload)
						}
					}}
				})
				w.must(func(rank int, c *Comm) error {
					check := reference.NewChecker(reference.RingOrder, reduce.Int32, reduce.Sum, n, count, matrixSeed)
					b, err := c.Alloc(4 * count)
					if err != nil {
						return err
					}
					check.Fill(rank, b.Bytes())
					if err := c.AllReduce(context.Background(), b.Addr(), b.Addr(), count, reduce.Int32, reduce.Sum, CallOptions{Protocol: protocol}); err != nil {
						return err
					}
					wrong, first := check.Verify(0, count, b.Bytes())
					want := test.wrong
					if rank == 1 {
						want = 0 // the owner of chunk 1; to the others it came through rank 2
					}
					if wrong != want || want > 0 && first.Offset != test.first {
						t.Errorf("rank %d: %d wrong, the first at %d: want %d, at %d", rank, wrong, first.Offset, want, test.first)
					}
					return nil
				})
			})
		}
	}
}

// gate stalls connections: while it is shut nothing passes, either way.
type gate struct {
	mu   sync.Mutex
	cond *sync.Cond
	shut bool
}

func newGate() *gate {
	g := &gate{}
	g.cond = sync.NewCond(&g.mu)
	return g
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	g.shut = shut
	g.mu.Unlock()
	g.cond.Broadcast()
}

func (g *gate) wait() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut {
		g.cond.Wait()
	}
}

type gatedConn struct {
	net.Conn
	gate *gate
}

func (c gatedConn) Read(b []byte) (int, error) {
	c.gate.wait()
	n, err := c.Conn.Read(b)
	c.gate.wait() // a Read that was under way when the gate was shut
	return n, err
}

func (c gatedConn) Write(b []byte) (int, error) {
	c.gate.wait()
	return c.Conn.Write(b)
}

type gatedListener struct {
	net.Listener
	gate *gate
}

func (l gatedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return gatedConn{c, l.gate}, nil
}

// TestStalledTCP: RTS, CTS, FIN and credits travel over the queue pairs, so that
// operations run while every TCP connection stands still.
func TestStalledTCP(t *testing.T) {
	const n, count = 3, 1 << 18
	g := newGate()
	w := newWorld(t, n, ring.Options{
		Listen: func(ctx context.Context, network, address string) (net.Listener, error) {
			l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return gatedListener{l, g}, nil
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return gatedConn{c, g}, nil
		},
	}, nil)
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	k.expect(count)
	for _, way := range meshWays {
		k.runs(1, 1, way) // whose edges are made over TCP
	}
	g.set(true)
	defer g.set(false) // or a failure ends in a wait for the connections
	for _, way := range allWays() {
		way.Sync = true
		way = w.comms[0].elseEager(OpAllReduce, way)
		k.check(OpAllReduce, count, way, false)
	}
}

func TestUsage(t *testing.T) {
	const n, count = 2, 100
	w := newWorld(t, n, ring.Options{}, nil)
	c := w.comms[0]
	b, err := c.Alloc(2 * 4 * count)
	if err != nil {
		t.Fatal(err)
	}
	a, ctx := b.Addr(), context.Background()
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"count", c.AllReduce(ctx, a, a, -5, reduce.Int32, reduce.Sum, CallOptions{}), "all-reduce: count -5: expected 0 or more"},
		{"unregistered", c.AllReduce(ctx, 4096, a, count, reduce.Int32, reduce.Sum, CallOptions{}), "send buffer: 400 bytes at 0x1000 are not registered"},
		{"beyond the end", c.AllReduce(ctx, a, a+4*count+4, count, reduce.Int32, reduce.Sum, CallOptions{}), "receive buffer: 400 bytes"},
		{"overlap", c.AllReduce(ctx, a, a+4, count, reduce.Int32, reduce.Sum, CallOptions{}), "overlap"},
		{"overlap", c.AllGather(ctx, a+4, a, count, reduce.Int32, CallOptions{}), "overlap"},
		{"not Direct", c.Run(ctx, Call{Op: OpAllReduce, Send: a, Recv: a, Count: count, Type: reduce.Int32, Unregistered: true}), ErrUnregistered.Error()},
	} {
		if !errors.Is(test.err, ErrUsage) || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%s: %v: expected an error of usage that says %q", test.name, test.err, test.want)
		}
	}
	if _, err := c.Register(a, 0); !errors.Is(err, ErrUsage) {
		t.Errorf("register nothing: %v", err)
	}
	// Nothing of this has harmed the ring.
	w.must(func(_ int, c *Comm) error { return c.Barrier(ctx) })
}

// TestClose: nothing is left mapped or registered, and closing twice is harmless.
func TestClose(t *testing.T) {
	before := memory.Live.Load()
	for range 3 {
		w := newWorld(t, 3, ring.Options{}, nil)
		k := newKit(w, 1000, reduce.Int8, reduce.Sum)
		k.runs(1, 1000, CallOptions{Protocol: RendezvousWrite})
		if err := errors.Join(k.send[0].Free(), k.send[0].Free()); err != nil {
			t.Error(err)
		}
		w.close()
		if err := w.comms[1].Close(); err != nil {
			t.Error(err)
		}
		if err := w.comms[1].Barrier(context.Background()); !errors.Is(err, ErrClosed) {
			t.Errorf("a barrier on a closed Comm: %v", err)
		}
		if err := k.send[1].Free(); err != nil {
			t.Error(err)
		}
	}
	if left := memory.Live.Load() - before; left != 0 {
		t.Errorf("%d bytes are left mapped", left)
	}
}

// TestAllocWhileClosing: what is registered while the Comm closes is refused or
// closed with it, never left behind.
func TestAllocWhileClosing(t *testing.T) {
	before := memory.Live.Load()
	for range 20 {
		w := newWorld(t, 1, ring.Options{}, nil)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for {
					if _, err := w.comms[0].Alloc(64); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Errorf("got %v, want %v", err, ErrClosed)
						}
						return
					}
				}
			})
		}
		w.close() // the ring's protection domain does not close with a region open
		wg.Wait()
	}
	if left := memory.Live.Load() - before; left != 0 {
		t.Errorf("%d bytes are left mapped", left)
	}
}

// TestPingBetween: ranks run ahead of each other from operation to ping and back,
// and what comes early waits.
func TestPingBetween(t *testing.T) {
	const count = 3000
	for _, slots := range []int{1, 3, 16} {
		w := newWorld(t, 3, ring.Options{Slots: slots}, nil)
		k := newKit(w, count, reduce.Int32, reduce.Sum)
		w.must(func(rank int, c *Comm) error {
			ways := append(allWays(), CallOptions{})
			for call := range 4 * len(ways) {
				o := c.elseEager(OpAllReduce, ways[call%len(ways)])
				o.Segment = 100 << (call % 6)
				err := c.AllReduce(context.Background(), k.send[rank].Addr(), k.recv[rank].Addr(), count, k.typ, k.red, o)
				if err != nil {
					return err
				}
				if _, err := w.rings[rank].Ping(context.Background(), 2); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// TestLostWithNothingInFlight: a neighbour's queue pair is gone while nothing is on
// its way to it. Who waits for it finds out, and names it, before the timeout.
func TestLostWithNothingInFlight(t *testing.T) {
	t.Parallel()
	const n, victim = 3, 1
	w := newWorld(t, n, ring.Options{QPTimeout: new(16), RetryCnt: new(1)}, nil)
	w.timeout(8 * time.Second)
	// Towards rank 0 the victim's device still takes what comes, and acknowledges it.
	if err := w.rings[victim].Right().QP.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	errs := w.each(func(rank int, c *Comm) error {
		if rank == victim {
			return nil // it stands still
		}
		buffer, err := c.Alloc(400)
		if err != nil {
			return err
		}
		return c.AllReduce(context.Background(), buffer.Addr(), buffer.Addr(), 100, reduce.Float32, reduce.Sum, CallOptions{Protocol: Eager})
	})
	var completion *ring.CompletionError
	if err := errs[2]; !errors.As(err, &completion) || completion.Edge != ring.Left.Edge() || completion.Peer != victim || !strings.Contains(err.Error(), verbs.RetryExceeded.String()) {
		t.Errorf("rank 2: %v: expected %v at its left queue pair", err, verbs.RetryExceeded)
	}
	if err := errs[0]; err == nil || !strings.Contains(err.Error(), "found by rank 2") {
		t.Errorf("rank 0: %v: expected what rank 2 has found", err)
	}
}
