package ring

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/diagnose"
	"ringcli/ring/message"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// A rank whose sockets end without a goodbye is named by all survivors, whose
// queue pairs go to ERR.
func TestDeathOfANeighbour(t *testing.T) {
	const victim = 2
	var w wire
	world := connect(t, 4, func(rank int, o *Options) {
		if rank == victim {
			w.install(o)
		}
	})
	time.AfterFunc(50*time.Millisecond, w.cut)
	start := time.Now()
	for i, err := range each(world, func(r *Ring) error {
		if r.Rank() == victim {
			return nil
		}
		_, err := r.Ping(t.Context(), 1<<20)
		return err
	}) {
		var v *Verdict
		if i != victim && (!errors.As(err, &v) || v.Kind != bootstrap.KindLost || v.Rank != victim) {
			t.Errorf("rank %d: %v: expected the loss of rank %d", i, err, victim)
		}
	}
	if took := time.Since(start); took > 8*time.Second { // of the timeout's 10
		t.Errorf("it took %s", took)
	}
	for i, r := range world {
		if i == victim {
			continue
		}
		attr, _, err := r.Left().QP.Query()
		if err != nil || attr.State != verbs.StateErr || !r.Failed() || r.State() != StateFailed || r.Usable() == nil {
			t.Errorf("rank %d: queue pair %s, %v, ring %s", i, attr.State, err, r.State())
		}
	}
}

func TestFailTellsAll(t *testing.T) {
	world := connect(t, 3, nil)
	world[1].Fail(errors.New("segment 7 is wrong"))
	for i, err := range each(world, func(r *Ring) error { return r.Barrier(t.Context()) }) {
		if !strings.Contains(textOf(err), "segment 7 is wrong") || !strings.Contains(textOf(world[i].Err()), "segment 7 is wrong") {
			t.Errorf("rank %d: %v, %v", i, err, world[i].Err())
		}
	}
}

// An operation over the queue pairs does not need TCP to move.
func TestPingWithTCPStalled(t *testing.T) {
	t.Parallel() // it waits
	var w wire
	world := connect(t, 3, func(_ int, o *Options) { o.Death, o.Silence = 600*time.Millisecond, time.Second; w.install(o) })
	w.gate.Lock()
	const stall = 2 * time.Second
	time.AfterFunc(stall, w.gate.Unlock)
	start := time.Now()
	for time.Since(start) < stall-200*time.Millisecond {
		noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 50); return err }))
	}
	time.Sleep(300 * time.Millisecond)
	noErrors(t, each(world, func(r *Ring) error { return r.Barrier(t.Context()) }))
}

// Signs of life come by themselves, however short a wait may be.
func TestIdleIsNotSilence(t *testing.T) {
	t.Parallel() // it waits
	world := connect(t, 2, nil)
	setTimeout(world, time.Second)
	time.Sleep(1800 * time.Millisecond)
	noErrors(t, each(world, func(r *Ring) error { return r.Barrier(t.Context()) }))
}

func TestPingCountsDiffer(t *testing.T) {
	world := connect(t, 2, nil)
	for i, err := range each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 3+r.Rank()); return err }) {
		if text := textOf(err); !strings.Contains(text, "pings") || !usage.Is(err) {
			t.Errorf("rank %d: %s", i, text)
		}
	}
	if _, err := world[0].Ping(t.Context(), 0); !usage.Is(err) {
		t.Errorf("a count of 0: %v", err)
	}
}

func TestPingMeetsAnotherOperation(t *testing.T) {
	world := connect(t, 2, nil)
	h := message.Header{Kind: message.User + 1, Epoch: world[0].Epoch()}
	var b [message.HeaderSize]byte
	h.Encode(b[:])
	if err := world[0].Right().SendMessage(b[:]); err != nil {
		t.Fatal(err)
	}
	_, err := world[1].Ping(t.Context(), 1)
	if text := textOf(err); !strings.Contains(text, "ping met a message kind 17 from rank 0") {
		t.Errorf("%s", text)
	}
}

func TestPingNeighbourThatDoesNotPing(t *testing.T) {
	t.Parallel() // it waits
	world := connect(t, 2, nil)
	setTimeout(world, 1500*time.Millisecond)
	_, err := world[0].Ping(t.Context(), 5)
	if text := textOf(err); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(text, "answered 0 of 6") || !strings.Contains(text, "rank 1 (127.") {
		t.Errorf("%s", text)
	}
}

// Only a pause is too long, not the whole.
func TestPingLongerThanTheTimeout(t *testing.T) {
	const timeout = time.Second
	world := connect(t, 2, nil)
	setTimeout(world, timeout)
	for count := 2000; ; count *= 4 {
		start := time.Now()
		noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), count); return err }))
		if time.Since(start) > timeout {
			return
		}
	}
}

// The ping's check sees every kind of damage.
func TestPingCheck(t *testing.T) {
	world := connect(t, 2, nil)
	r := world[0]
	x := &ping{edge: r.Left(), seq: seqOfAll | 3, total: 2}
	good := message.Header{Kind: message.Ping, Epoch: r.Epoch(), Seq: x.seq, Sender: 1, Length: MessageSize - message.HeaderSize, Arg: 2}
	made := func(h message.Header, damage int) (message.Header, []byte) {
		msg := make([]byte, MessageSize)
		for i := range msg[message.HeaderSize:] {
			msg[message.HeaderSize+i] = message.Pattern(1, h.Segment, i)
		}
		h.Digest = uint64(message.Checksum(msg[message.HeaderSize:]))
		if damage >= 0 {
			msg[message.HeaderSize+damage] ^= 0x10
		}
		return h, msg
	}
	h, msg := made(good, -1)
	if err := r.pings.check(x, &h, msg); err != nil {
		t.Fatal(err)
	}
	for i := range MessageSize - message.HeaderSize {
		h, msg := made(good, i)
		if err := r.pings.check(x, &h, msg); !strings.Contains(textOf(err), "wrong data") {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
	}
	for name, change := range map[string]func(*message.Header){
		"kind": func(h *message.Header) { h.Kind = message.Pong }, "epoch": func(h *message.Header) { h.Epoch++ }, "sequence": func(h *message.Header) { h.Seq++ },
		"sender": func(h *message.Header) { h.Sender = 0 }, "round": func(h *message.Header) { h.Segment++ }, "count": func(h *message.Header) { h.Arg++ },
		"length": func(h *message.Header) { h.Length-- },
	} {
		bad := good
		change(&bad)
		h, msg := made(bad, -1)
		if err := r.pings.check(x, &h, msg); err == nil {
			t.Errorf("another %s was taken", name)
		}
	}
}

// Connecting and closing again leaves nothing behind.
func TestConnectCloseCycles(t *testing.T) {
	cycles := 1000
	if testing.Short() {
		cycles = 50
	}
	servers := freshServers(t, 2)
	cycle := func() {
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				r, err := Connect(t.Context(), servers, i, testOptions())
				if err == nil {
					err = errors.Join(r.Barrier(t.Context()), r.Close(), r.Close())
				}
				errs[i] = err
			})
		}
		wg.Wait()
		noErrors(t, errs)
	}
	for range 3 { // whatever is made once
		cycle()
	}
	before := holdings(t)
	for range cycles {
		cycle()
	}
	steady(t, before, cycles)
}

// steady checks that nothing was left behind since before.
func steady(t *testing.T, before [4]int64, cycles int) {
	t.Helper()
	var after [4]int64
	for range 50 { // goroutines end a moment after they are done
		if after = holdings(t); after == before {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	// Go's runtime maps for its own heap, and more with -race; a leak would be
	// one or more a cycle.
	const heapMappings = 32
	if after[0] > before[0] || after[1] > before[1] || after[2] > before[2] || after[3] > before[3]+heapMappings {
		t.Errorf("after %d cycles: descriptors, goroutines, bytes mapped, mappings %v: before %v", cycles, after, before)
	}
}

// holdings counts descriptors, goroutines, bytes of device memory and mappings.
func holdings(t *testing.T) [4]int64 {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc:", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip("needs /proc:", err)
	}
	return [4]int64{int64(len(fds)), int64(runtime.NumGoroutine()), memory.Live.Load(), int64(strings.Count(string(maps), "\n"))}
}

// A neighbour whose host is gone answers neither the queue pair nor a call; one that
// has ended refuses the call, and is not said to be silent.
func TestLostHostIsSilentOverTCP(t *testing.T) {
	t.Parallel()
	var cut atomic.Bool
	w := admit(t, func(rank int, o *Options) {
		if rank != 0 {
			return
		}
		o.Inject = "soft: loss 100%"
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if cut.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	})
	w.walk(dose{}, StateRTS)
	err := w.send(64)
	w.status(err, verbs.RetryExceeded)
	zero := w.world[0]
	zero.Fail(err)
	if settled := zero.Failure().Settled(err); !errors.Is(settled, err) {
		t.Errorf("%v: expected the own error", settled)
	}
	for _, f := range zero.Ends().Diagnose(t.Context(), Right.Edge(), err) {
		if strings.Contains(f.Text, "silent over TCP") {
			t.Errorf("rank 1 answers, and yet: %s", f.Text)
		}
	}
	cut.Store(true)
	found := zero.Ends().Diagnose(t.Context(), Right.Edge(), err)
	if f := found[0]; f.Attribute != "tcp" || f.Rank != 1 || f.Severity != diagnose.Fault || !strings.Contains(f.Text, "rank 1 ("+zero.nodes[1].String()+") is silent over TCP, too: no answer in") {
		t.Errorf("%+v", found)
	}
}
