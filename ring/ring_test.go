package ring

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"ringcli/configs/usage"
	"ringcli/verbs"
)

func TestConnect(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			world := connect(t, n, nil)
			for i, r := range world {
				if r.State() != StateReady || r.Usable() != nil || r.Rank() != i || r.Size() != n {
					t.Errorf("rank %d: state %s, usable %v", i, r.State(), r.Usable())
				}
				if r.Left().Peer != (i+n-1)%n || r.Right().Peer != (i+1)%n {
					t.Errorf("rank %d: neighbours %d and %d", i, r.Left().Peer, r.Right().Peer)
				}
				right := world[(i+1)%n]
				if r.Right().Remote.QPN != right.Left().QP.Num() || right.Left().Remote.QPN != r.Right().QP.Num() {
					t.Errorf("rank %d: the queue pairs of its right edge do not name each other", i)
				}
				if n == 1 && r.Left().QP.Num() == r.Right().QP.Num() {
					t.Error("a ring of one has one queue pair: expected two")
				}
				peers, err := r.Ends().Status()
				if err != nil || len(peers) != 2 || peers[0].Attr.State != verbs.StateRTS || peers[0].Attr.PathMTU.Bytes() != r.Left().MTU {
					t.Errorf("rank %d: %+v, %v", i, peers, err)
				}
			}
			noErrors(t, each(world, func(r *Ring) error {
				result, err := r.Ping(t.Context(), 20)
				if err == nil && (result.Count != 20 || result.Min <= 0 || result.Min > result.P50*101/100 || result.Max < result.P50*99/100) {
					err = fmt.Errorf("%+v", result)
				}
				return err
			}))
		})
	}
}

// Six ranks on one address, with ports of their own.
func TestConnectOnOneAddress(t *testing.T) {
	host := freshServers(t, 1)[0]
	var servers []string
	for range 6 {
		servers = append(servers, host)
	}
	errs := make(chan error, len(servers))
	for i := range servers {
		go func() {
			r, err := Connect(t.Context(), servers, i, testOptions())
			if err == nil {
				err = r.Close()
			}
			errs <- err
		}()
	}
	for range servers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestConnectInAnyOrder(t *testing.T) {
	t.Parallel() // it waits
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		servers := freshServers(t, len(order))
		errs := make(chan error, len(order))
		for _, rank := range order {
			go func() {
				r, err := Connect(t.Context(), servers, rank, testOptions())
				if err == nil {
					err = errors.Join(r.Barrier(t.Context()), r.Close())
				}
				errs <- err
			}()
			time.Sleep(150 * time.Millisecond)
		}
		for range order {
			if err := <-errs; err != nil {
				t.Errorf("order %v: %v", order, err)
			}
		}
	}
}

func TestStepsInOrder(t *testing.T) {
	r := newRings(t, 1, nil)[0]
	ctx := t.Context()
	ping := func(ctx context.Context) error { _, err := r.Ping(ctx, 3); return err }
	walk := []struct {
		name string
		step func(context.Context) error
		want State
		qp   verbs.QPState
	}{
		{"open", r.Open, StateOpened, 0},
		{"init", proper(r.Init), StateInitialised, verbs.StateInit},
		{"exchange", r.Exchange, StateExchanged, verbs.StateInit},
		{"rtr", proper(r.RTR), StateRTR, verbs.StateRTR},
		{"rts", proper(r.RTS), StateRTS, verbs.StateRTS},
		{"ping", ping, StateReady, verbs.StateRTS},
	}
	for i, w := range walk {
		for _, other := range walk[i+1:] {
			var e *StepError
			if err := other.step(ctx); !errors.As(err, &e) || e.Missing != w.name {
				t.Errorf("%s in state %s: %v: expected that %s comes first", other.name, r.State(), err, w.name)
			}
		}
		if err := w.step(ctx); err != nil {
			t.Fatal(err)
		}
		if r.State() != w.want {
			t.Errorf("after %s the ring is %s", w.name, r.State())
		}
		if i > 0 {
			attr, _, err := r.Right().QP.Query()
			if err != nil || attr.State != w.qp {
				t.Errorf("after %s the queue pair is %s, %v: expected %s", w.name, attr.State, err, w.qp)
			}
		}
	}
	if err := r.Open(ctx); !strings.Contains(textOf(err), "this step is done") {
		t.Errorf("a second open: %v", err)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := r.Open(ctx); !strings.Contains(textOf(err), "closed") {
		t.Errorf("open after close: %v", err)
	}
	if err := r.Barrier(ctx); err == nil {
		t.Error("a barrier on a closed ring")
	}
}

func TestBadInput(t *testing.T) {
	host := freshServers(t, 1)[0]
	taken, err := net.Listen("tcp", host+":18600")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	seven := 7
	for name, c := range map[string]struct {
		servers []string
		index   int
		change  func(*Options)
		want    string
	}{
		"index above":  {[]string{"a", "b"}, 2, nil, "index 2 is outside the list of 2 nodes: expected 0 to 1"},
		"index below":  {[]string{"a"}, -1, nil, "index -1"},
		"doubled":      {[]string{"a:1", "a:1"}, 0, nil, "a:1 is entry 0 and entry 1"},
		"unresolvable": {[]string{host + ":7777", "no-such-host.invalid"}, 0, nil, `entry 1, "no-such-host.invalid"`},
		"port in use":  {[]string{host}, 0, func(o *Options) { o.Timeout = 200 * time.Millisecond }, "the port is in use"},
		"no device":    {[]string{host + ":7777"}, 0, func(o *Options) { o.Device = "soft:nope" }, "soft:nope"},
		"no provider":  {[]string{host + ":7777"}, 0, func(o *Options) { o.Device = "nope:0" }, "nope:0"},
		"mtu":          {[]string{host}, 0, func(o *Options) { o.MTU = 1500 }, "mtu is 1500"},
		"sl":           {[]string{host}, 0, func(o *Options) { o.SL = 16 }, "sl is 16"},
		"retry-cnt":    {[]string{host}, 0, func(o *Options) { o.RetryCnt = new(8) }, "retry-cnt is 8, expected a whole number from 0 to 7"},
		"timeout":      {[]string{host}, 0, func(o *Options) { o.Timeout = -1 }, "timeout"},
		"gid-index":    {[]string{host + ":7777"}, 0, func(o *Options) { o.GIDIndex = new(200) }, "gid-index 200"},
		"device port":  {[]string{host + ":7777"}, 0, func(o *Options) { o.Port = seven }, "port 7"},
	} {
		o := testOptions()
		if c.change != nil {
			c.change(&o)
		}
		r, err := Connect(t.Context(), c.servers, c.index, o)
		if text := textOf(err); !usage.Is(err) || r != nil || !strings.Contains(text, c.want) || strings.Contains(text, "\n") {
			t.Errorf("%s: %s: expected one line of usage with %q", name, text, c.want)
		}
	}
}

func TestMTU(t *testing.T) {
	world := connect(t, 2, func(rank int, o *Options) {
		if rank == 1 {
			o.MTU = 1024
		}
	})
	for _, r := range world {
		if r.Left().MTU != 1024 || r.Right().MTU != 1024 {
			t.Errorf("rank %d: path MTUs %d and %d: expected 1024, what one end asked for", r.Rank(), r.Left().MTU, r.Right().MTU)
		}
	}
}

func TestPeersThatDisagree(t *testing.T) {
	for name, c := range map[string]struct {
		change func(rank int, o *Options)
		want   []string
	}{
		"mtu":       {func(rank int, o *Options) { o.MTU = 512 << rank }, []string{"path MTU", "512 (--mtu)", "1024 (--mtu)"}},
		"slots":     {func(rank int, o *Options) { o.Slots = 4 + rank }, []string{"number of slots", "has 4", "has 5"}},
		"slot size": {func(rank int, o *Options) { o.SlotSize = 4096 << rank }, []string{"slot size", "4096", "8192"}},
		"sl":        {func(rank int, o *Options) { o.SL = rank }, []string{"service level"}},
	} {
		world := newRings(t, 2, c.change)
		for i, err := range each(world, through(t.Context())) {
			text := textOf(err)
			if !usage.Is(err) || world[i].State() != StateFailed {
				t.Errorf("%s: rank %d, %s: %s: expected usage", name, i, world[i].State(), text)
			}
			for _, want := range append(c.want, "rank 0 (127.", "rank 1 (127.") {
				if !strings.Contains(text, want) {
					t.Errorf("%s: rank %d: %s: expected %q", name, i, text, want)
				}
			}
		}
	}
}

// What another rank found out between two steps of this one is what the next step
// says, and whose fault it is stays known.
func TestFailureBetweenSteps(t *testing.T) {
	world := newRings(t, 2, nil)
	for i, err := range each(world, func(r *Ring) error {
		for _, step := range walk(r)[:3] {
			if err := step(t.Context()); err != nil {
				return err
			}
		}
		return nil
	}) {
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
	world[1].Fail(usage.Errorf("the knob differs"))
	for start := time.Now(); !world[0].Failed(); time.Sleep(time.Millisecond) {
		if time.Since(start) > world[0].Timeout() {
			t.Fatal("rank 0 was not told")
		}
	}
	for _, step := range []func(context.Context) error{proper(world[0].RTR), world[0].AwaitNeighbours, world[0].Reset} {
		err := step(t.Context())
		var v *Verdict
		if !errors.As(err, &v) || v.By != 1 || !usage.Is(err) || !strings.Contains(textOf(err), "the knob differs") || !strings.Contains(textOf(err), "close it") {
			t.Errorf("%v: expected what rank 1 found out, and that the ring is to be closed", err)
		}
	}
}

func TestMissingRank(t *testing.T) {
	t.Parallel() // it waits

	const timeout = 4 * time.Second // in which the two are up, on a busy machine
	world := newRings(t, 3, func(_ int, o *Options) { o.Timeout = timeout })
	start := time.Now()
	for i, err := range each(world[:2], through(t.Context())) {
		if usage.Is(err) || !strings.Contains(textOf(err), "is not running (connection refused)") || !strings.Contains(textOf(err), "up") {
			t.Errorf("rank %d: %v", i, err)
		}
	}
	if took := time.Since(start); took > 2*timeout {
		t.Errorf("it took %s: expected the deadline of %s to hold", took, timeout)
	}
}

func TestCancelEndsEveryStep(t *testing.T) {
	for steps, ready := range map[int]int{2: 2, 4: 3, 6: 6} { // exchange, the wait for the neighbours and ping wait for rank 1
		world := newRings(t, 2, nil)
		ctx, cancel := context.WithCancel(t.Context())
		noErrors(t, each(world, func(r *Ring) error {
			taken := steps
			if r.Rank() == 1 {
				taken = ready
			}
			for _, step := range walk(r)[:taken] {
				if err := step(ctx); err != nil {
					return err
				}
			}
			return nil
		}))
		time.AfterFunc(50*time.Millisecond, cancel)
		var err error
		start := time.Now()
		if steps < 6 {
			err = walk(world[0])[steps](ctx)
		} else {
			_, err = world[0].Ping(ctx, 1)
		}
		if !errors.Is(err, context.Canceled) || time.Since(start) > 8*time.Second { // of the timeout's 10
			t.Errorf("step %d: %v after %s: expected to be cancelled at once", steps, err, time.Since(start))
		}
		if world[0].State() != StateFailed {
			t.Errorf("step %d: the ring is %s", steps, world[0].State())
		}
	}
}

func TestCloseEndsARunningStep(t *testing.T) {
	r := newRings(t, 2, nil)[0]
	for _, step := range walk(r)[:2] {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- r.Exchange(t.Context()) }()
	time.Sleep(50 * time.Millisecond)
	start := time.Now()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil || time.Since(start) > 8*time.Second { // of the timeout's 10
		t.Errorf("%v after %s", err, time.Since(start))
	}
}

func TestGatherOverTheRing(t *testing.T) {
	world := connect(t, 3, nil)
	noErrors(t, each(world, func(r *Ring) error {
		parts, err := r.Gather(t.Context(), Purpose{What: "gather"}, []byte{byte(r.Rank())})
		if err != nil || len(parts) != 3 || parts[2][0] != 2 {
			return fmt.Errorf("%v, %w", parts, err)
		}
		b, err := r.Broadcast(t.Context(), []byte{7})
		if err != nil || b[0] != 7 {
			return fmt.Errorf("%v, %w", b, err)
		}
		for rank := range 3 {
			if report := r.control.boot.ProbeRank(t.Context(), rank); rank != r.Rank() && (!report.Up || !strings.Contains(report.State, "ready")) {
				return fmt.Errorf("%+v", report)
			}
		}
		return nil
	}))
	if c, err := world[0].Devices()[0].Counters(); err != nil || len(c) == 0 {
		t.Errorf("counters: %v, %v", c, err)
	}
}

func TestFailedIsFree(t *testing.T) {
	r := newRing(membership{}, testOptions())
	if n := testing.AllocsPerRun(100, func() { _ = r.Failed() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
