package ring

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/message"
	"ringcli/verbs"
)

func pingSide(ctx context.Context, r *Ring, side Side, count int) error {
	got, err := r.PingSide(ctx, side, count)
	if err == nil && (got.Peer != r.Edge(side.Edge()).Peer || got.Count != count || got.Min <= 0 || got.Max < got.Min || got.P50 == 0) {
		err = fmt.Errorf("%+v", got)
	}
	return err
}

// One rank pings; the others do nothing.
func TestPingSide(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			world := byHand(t, n)
			upTo(t, world, StateRTS)
			r := world[n-1]
			for _, side := range []Side{Left, Right, Left} {
				if err := pingSide(t.Context(), r, side, 20); err != nil {
					t.Error(err)
				}
			}
			if s := r.State(); s != StateReady {
				t.Errorf("both neighbours have answered: the ring is %s", s)
			}
			// Nothing is left that an operation would meet.
			noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 20); return err }))
		})
	}
}

// A round trip allocates nothing, at either end.
func TestPingSideAllocates(t *testing.T) {
	world := byHand(t, 2)
	upTo(t, world, StateRTS)
	ping := func(count int) float64 {
		return testing.AllocsPerRun(5, func() {
			if err := pingSide(t.Context(), world[0], Right, count); err != nil {
				t.Fatal(err)
			}
		})
	}
	// TCP's signs of life allocate, the more the longer it takes: what round trips
	// allocate by themselves they allocate each time.
	const more = 1000
	least := math.Inf(1)
	for range 5 {
		few := ping(1)
		if least = min(least, ping(1+more)-few); least <= more/2 {
			return
		}
	}
	t.Errorf("%d round trips more allocate at least %v times more", more, least)
}

// All ranks ping both neighbours at once, and each other.
func TestPingSideSimultaneous(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			world := byHand(t, n)
			upTo(t, world, StateRTS)
			for range 5 {
				noErrors(t, each(world, func(r *Ring) error {
					var errs [2]error
					var wg sync.WaitGroup
					for side := range errs {
						wg.Go(func() { errs[side] = pingSide(t.Context(), r, Side(side), 30) })
					}
					wg.Wait()
					return errors.Join(errs[:]...)
				}))
				noErrors(t, each(world, func(r *Ring) error { return pingSide(t.Context(), r, Right, 10) }))
				noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 10); return err }))
			}
		})
	}
}

// A peer whose queue pair is not ready says so soon, in what state it is and what
// to do there.
func TestPingSidePeerNotReady(t *testing.T) {
	t.Parallel() // it waits
	world := byHand(t, 2)
	upTo(t, world, StateExchanged)
	r := world[0]
	for _, step := range []func(context.Context, Values) error{r.RTR, r.RTS} {
		if err := step(t.Context(), Values{}); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(want ...string) {
		t.Helper()
		start := time.Now()
		_, err := r.PingSide(t.Context(), Right, 1)
		text := textOf(err)
		for _, want := range append(want, "left queue pair of rank 1 (127.") {
			if !strings.Contains(text, want) {
				t.Errorf("%s: expected %q", text, want)
			}
		}
		if took := time.Since(start); took > r.Timeout() {
			t.Errorf("it took %s", took)
		}
		if s := r.State(); s != StateRTS || r.Usable() != nil {
			t.Errorf("the ring is %s, usable %v: expected it as it was", s, r.Usable())
		}
	}
	refused("is INIT", "run rtr there")
	if err := world[1].RTR(t.Context(), Values{}); err != nil {
		t.Fatal(err)
	}
	refused("is RTR", "run rts there")
	if err := world[1].Left().QP.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	refused("is ERR", "run reset there")
	if err := world[1].Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused("is RESET", "run init there")
}

// Ranks that are walked at the same time need not be equally fast.
func TestPingSideOfASlowerRank(t *testing.T) {
	world := byHand(t, 2)
	upTo(t, world, StateRTR)
	noErrors(t, each(world, func(r *Ring) error {
		if r.Rank() == 1 {
			time.Sleep(100 * time.Millisecond)
		}
		if err := r.RTS(t.Context(), Values{}); err != nil {
			return err
		}
		return pingSide(t.Context(), r, Right, 3)
	}))
}

// A peer that runs something else says so; nothing of its operation is touched.
func TestPingSidePeerBusy(t *testing.T) {
	t.Parallel() // it waits
	world := byHand(t, 2)
	upTo(t, world, StateRTS)
	token := begin(t, world[1])
	_, err := world[0].PingSide(t.Context(), Right, 1)
	if text := textOf(err); !strings.Contains(text, "rank 1 (127.") || !strings.Contains(text, "is busy: an operation runs here") {
		t.Errorf("%s: expected that rank 1 is busy", text)
	}
	if err := token.End(); err != nil {
		t.Error(err)
	}
	if err := pingSide(t.Context(), world[0], Right, 3); err != nil {
		t.Error(err)
	}
}

// What a neighbour begins while this rank answers a ping waits for the next
// operation here.
func TestPingSideDefersTheNextOperation(t *testing.T) {
	world := byHand(t, 2)
	upTo(t, world, StateRTS)
	h := message.Header{Kind: message.User + 1, Epoch: world[0].Epoch(), Seq: 9}
	var b [message.HeaderSize]byte
	h.Encode(b[:])
	if err := world[1].Left().SendMessage(b[:]); err != nil {
		t.Fatal(err)
	}
	if err := pingSide(t.Context(), world[0], Right, 10); err != nil {
		t.Fatal(err)
	}
	r := world[0]
	token := begin(t, r)
	var wc [4]verbs.Completion
	var n int
	for deadline := time.Now().Add(5 * time.Second); n == 0 && time.Now().Before(deadline); {
		var err error
		if n, err = token.Poll(wc[:]); err != nil {
			t.Fatal(err)
		}
	}
	id, kind, index := ParseWRID(wc[0].ID)
	if n != 1 || id != Right.Edge() || kind != WRRecv || message.KindOf(r.Right().Message(index, wc[0].ByteLen)) != message.User+1 {
		t.Errorf("%d completions, the first %+v: expected the neighbour's message", n, wc[0])
	}
	if err := token.End(); err != nil {
		t.Error(err)
	}
}

// The ring of a peer that dies takes its place in the error.
func TestPingSidePeerDies(t *testing.T) {
	var w wire
	world := newRings(t, 3, func(rank int, o *Options) {
		o.ByHand, o.Timeout = true, 5*time.Second
		if rank == 1 {
			w.install(o)
		}
	})
	upTo(t, world, StateRTS)
	time.AfterFunc(100*time.Millisecond, w.cut)
	_, err := world[0].PingSide(t.Context(), Right, 1<<24)
	var v *Verdict
	if !errors.As(err, &v) || v.Rank != 1 || world[0].State() != StateFailed {
		t.Errorf("%v, the ring is %s: expected the loss of rank 1", err, world[0].State())
	}
}

// Who gives up a ping frees its neighbour, too.
func TestPingSideCancelled(t *testing.T) {
	world := byHand(t, 2)
	upTo(t, world, StateRTS)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := world[0].PingSide(ctx, Right, 1<<24); !errors.Is(err, context.Canceled) || !strings.Contains(textOf(err), "reset on both ends") {
		t.Errorf("%v: expected it to be cancelled", err)
	}
	start := time.Now()
	noErrors(t, each(world, func(r *Ring) error { return r.Reset(t.Context()) }))
	if took := time.Since(start); took > world[1].Timeout()+time.Second {
		t.Errorf("the neighbour was held for %s", took)
	}
	upTo(t, world, StateRTS)
	noErrors(t, each(world, func(r *Ring) error { return pingSide(t.Context(), r, Right, 3) }))
}

// A rank that goes on to the next operation waits until it has answered its
// neighbour's ping, and a ping waits for the end of an operation.
func TestPingSideAgainstSteps(t *testing.T) {
	world := connect(t, 3, nil)
	for range 20 {
		noErrors(t, each(world, func(r *Ring) error {
			if r.Rank() == 0 {
				return errors.Join(pingSide(t.Context(), r, Left, 50), pingSide(t.Context(), r, Right, 50))
			}
			return begin(t, r).End()
		}))
		noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 3); return err }))
	}
}

func TestPingSideRefusesNonsense(t *testing.T) {
	r := byHand(t, 1)[0]
	if _, err := r.PingSide(t.Context(), 5, 1); !usage.Is(err) {
		t.Error(err)
	}
	if _, err := r.PingSide(t.Context(), Left, 0); !usage.Is(err) {
		t.Error(err)
	}
}

// An answer to another ping than the one that runs, and one that is damaged.
func TestPongCheck(t *testing.T) {
	world := connect(t, 2, nil)
	r := world[0]
	x := &ping{edge: r.Left(), asks: true, total: 2}
	for name, change := range map[string]func(h *message.Header, msg []byte){
		"none":   func(*message.Header, []byte) {},
		"epoch":  func(h *message.Header, _ []byte) { h.Epoch++ },
		"sender": func(h *message.Header, _ []byte) { h.Sender = 0 },
		"round":  func(h *message.Header, _ []byte) { h.Segment++ },
		"count":  func(h *message.Header, _ []byte) { h.Arg++ },
		"length": func(h *message.Header, _ []byte) { h.Length-- },
		"data":   func(_ *message.Header, msg []byte) { msg[MessageSize-1] ^= 1 },
		"sum":    func(h *message.Header, _ []byte) { h.Digest++ },
	} {
		h := message.Header{Kind: message.Pong, Epoch: r.Epoch(), Sender: 1, Length: MessageSize - message.HeaderSize, Arg: 2}
		msg := make([]byte, MessageSize)
		h.Digest = uint64(message.FillPattern(msg[message.HeaderSize:], 0, 0))
		change(&h, msg)
		if err := r.pings.check(x, &h, msg); (err == nil) != (name == "none") {
			t.Errorf("damage: %s: %v", name, err)
		}
	}
}
