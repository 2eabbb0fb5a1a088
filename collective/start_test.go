package collective

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"ringcli/collective/reduce"
	"ringcli/collective/reduce/reference"
	"ringcli/ring"
)

// flights are calls of every operation with buffers of their own, on one rank.
type flights struct {
	calls []Call
	recv  []*Buffer
	want  [][]byte // what Run has left in them
}

// operations are all there are.
const operations = int(OpReduce) + 1

// newFlights makes so many calls and runs each. It is collective.
func newFlights(c *Comm, calls, count int) (f *flights, err error) {
	f = &flights{}
	for i := range calls {
		k := Call{Op: Operation(i % operations), Type: reduce.Float32, Reduction: reduce.Sum, Count: count + i}
		bytes := uint64(k.Count * k.Type.Size())
		send, err := c.Alloc(bytes)
		if err != nil {
			return nil, err
		}
		recv, err := c.Alloc(bytes)
		if err != nil {
			return nil, err
		}
		if k.Op.OnVectors() {
			reference.Fill(send.Bytes(), k.Type, k.Reduction, c.Rank(), 0, uint64(i))
			k.Send, k.Recv = send.Addr(), recv.Addr()
		} else {
			k = Call{Op: k.Op}
		}
		if err := c.Run(context.Background(), k); err != nil {
			return nil, err
		}
		f.calls, f.recv, f.want = append(f.calls, k), append(f.recv, recv), append(f.want, append([]byte(nil), recv.Bytes()...))
		clear(recv.Bytes())
	}
	return f, nil
}

// start begins all of them.
func (f *flights) start(ctx context.Context, c *Comm) (handles []*Handle, err error) {
	for _, k := range f.calls {
		h, err := c.Start(ctx, k)
		if err != nil {
			return nil, err
		}
		handles = append(handles, h)
	}
	return handles, nil
}

// right tells whether the results are those of Run.
func (f *flights) right() error {
	for i, b := range f.recv {
		if !bytes.Equal(b.Bytes(), f.want[i]) {
			return fmt.Errorf("call %d, %s: the result is not that of Run", i, f.calls[i].Op)
		}
	}
	return nil
}

// resolved waits for a handle, for as long as a test has patience.
func resolved(h *Handle) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := h.Wait(ctx)
	select {
	case <-h.Done():
		return err
	default:
		panic("a handle does not resolve: " + err.Error())
	}
}

// Eight calls or more of all operations are in flight at once. They give the bits that Run
// gives, end in the order in which they were started, on every rank, and calls of Run that
// are made meanwhile take their turn.
func TestStart(t *testing.T) {
	for _, device := range []string{"soft:lo", shared0} {
		for _, n := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%s,ranks=%d", device, n), func(t *testing.T) {
				w := newWorld(t, n, ring.Options{Device: device}, nil)
				w.must(func(rank int, c *Comm) error {
					f, err := newFlights(c, 2*operations+3, 3000)
					if err != nil {
						return err
					}
					for range 5 {
						handles, err := f.start(context.Background(), c)
						if err != nil {
							return err
						}
						if err := c.Barrier(context.Background()); err != nil {
							return err
						}
						for i := len(handles) - 1; i >= 0; i-- { // when the last has ended, all have
							if err := resolved(handles[i]); err != nil {
								return fmt.Errorf("call %d: %w", i, err)
							}
							for earlier := range i {
								select {
								case <-handles[earlier].Done():
								default:
									return fmt.Errorf("call %d has ended before call %d", i, earlier)
								}
							}
						}
						if err := f.right(); err != nil {
							return err
						}
						for _, b := range f.recv {
							clear(b.Bytes())
						}
					}
					return nil
				})
			})
		}
	}
}

// What is wrong with a call is found by Start, as far as this rank can, and harms nothing.
func TestStartRefuses(t *testing.T) {
	w := newWorld(t, 2, ring.Options{}, nil)
	begun := make(chan struct{})
	w.must(func(rank int, c *Comm) error {
		ctx := context.Background()
		gone, err := c.Alloc(4000) // whose memory b may have
		if err != nil {
			return err
		}
		if err := gone.Free(); err != nil {
			return err
		}
		b, err := c.Alloc(4000)
		if err != nil {
			return err
		}
		if rank == 1 {
			<-begun
		}
		k := Call{Op: OpAllReduce, Send: b.Addr(), Recv: b.Addr(), Count: 100, Type: reduce.Int32}
		h, err := c.Start(ctx, k)
		if err != nil {
			return err
		}
		if rank == 0 { // which waits for rank 1
			bad := map[string]Call{"negative": k, "not registered": k, "in flight": k}
			for what, k := range bad {
				switch what {
				case "negative":
					k.Count = -1
				case "not registered":
					k.Send, k.Recv = b.Addr()+3996, b.Addr()+3996
				}
				if _, err := c.Start(ctx, k); !errors.Is(err, ErrUsage) {
					t.Errorf("%s: %v: expected an error of usage", what, err)
				}
			}
			if err := b.Free(); !errors.Is(err, ErrUsage) {
				t.Errorf("a buffer in flight is freed: %v", err)
			}
			if err := gone.Free(); err != nil {
				t.Errorf("a buffer at %#x is freed again, while another is in flight at %#x: %v", gone.Addr(), b.Addr(), err)
			}
			close(begun)
		}
		k.Send, k.Recv = b.Addr()+400, b.Addr()+400 // beside it
		other, err := c.Start(ctx, k)
		if err != nil {
			return err
		}
		if err := errors.Join(resolved(h), resolved(other), b.Free()); err != nil {
			return err
		}
		return c.Barrier(ctx)
	})
}

// One of eight calls in flight is cancelled on one rank: the one that runs, or one that
// waits. All resolve on all ranks, and say who gave up.
func TestCancelOneInFlight(t *testing.T) {
	for _, which := range []int{0, 5} {
		for _, device := range []string{"soft:lo", shared0} {
			t.Run(fmt.Sprintf("%s,call=%d", device, which), func(t *testing.T) {
				const n, canceller, absent = 3, 1, 2
				w := newWorld(t, n, ring.Options{Device: device}, nil)
				all := make([][]error, n)
				var made sync.WaitGroup
				made.Add(n)
				w.must(func(rank int, c *Comm) error {
					f, err := newFlights(c, 8, 5000)
					made.Done()
					if err != nil {
						return err
					}
					made.Wait()
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					for deadline := time.Now().Add(20 * time.Second); rank == absent && !w.rings[rank].Failed(); { // so that no call ends
						if time.Now().After(deadline) {
							return errors.New("the ring has not failed")
						}
						time.Sleep(time.Millisecond)
					}
					var handles []*Handle
					for i, k := range f.calls {
						own := context.Background()
						if rank == canceller && i == which {
							own = ctx
						}
						h, err := c.Start(own, k)
						if err != nil && rank != canceller { // it has failed before
							all[rank] = append(all[rank], err)
							continue
						}
						if err != nil {
							return err
						}
						handles = append(handles, h)
					}
					if rank == canceller {
						time.Sleep(5 * time.Millisecond) // the first one runs, or does not yet
						cancel()
					}
					for _, h := range handles {
						all[rank] = append(all[rank], resolved(h))
					}
					return nil
				})
				for rank, errs := range all {
					for i, err := range errs {
						var v *ring.Verdict
						switch {
						case err == nil:
							t.Errorf("rank %d: call %d has succeeded", rank, i)
						case rank == canceller && !errors.Is(err, context.Canceled):
							t.Errorf("rank %d, call %d: %v: expected context.Canceled", rank, i, err)
						case rank != canceller && (!errors.As(err, &v) || v.By != canceller):
							t.Errorf("rank %d, call %d: %v: expected what rank %d has said", rank, i, err, canceller)
						}
					}
				}
				t.Logf("rank %d: %v; rank 0: %v", canceller, all[canceller][7], all[0][7])
			})
		}
	}
}

// Close waits for what is in flight, and all that is started later resolves, too.
func TestCloseInFlight(t *testing.T) {
	w := newWorld(t, 2, ring.Options{}, nil)
	w.must(func(rank int, c *Comm) error {
		f, err := newFlights(c, 8, 2000)
		if err != nil {
			return err
		}
		handles, err := f.start(context.Background(), c)
		if err != nil {
			return err
		}
		if err := c.Close(); err != nil {
			return err
		}
		for i, h := range handles {
			select {
			case <-h.Done():
			default:
				return fmt.Errorf("call %d is in flight after Close", i)
			}
			if err := h.Err(); err != nil {
				return fmt.Errorf("call %d: %w", i, err)
			}
		}
		if _, err := c.Start(context.Background(), Call{Op: OpBarrier}); !errors.Is(err, ErrClosed) {
			return fmt.Errorf("a call after Close: %w: expected that it is closed", err)
		}
		return nil
	})
}
