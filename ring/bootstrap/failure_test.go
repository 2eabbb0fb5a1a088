package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/oob"
	"ringcli/ring/bootstrap/verdict"
	"ringcli/trace"
)

// A neighbour whose connections end without a goodbye is named by all survivors, also where
// its port takes calls for a while: then a call may be under way, that nobody answers.
func TestDeathIsNamedByAll(t *testing.T) {
	for victim, lingers := range map[int]time.Duration{0: 0, 2: 0, 3: 100 * time.Millisecond} {
		dead := func(text string) bool {
			return strings.Contains(text, "is dead") || lingers > 0 && strings.Contains(text, "no new one is answered")
		}
		k := cutter{lingers: lingers}
		world := ring(t, 5, func(cfg *Config) {
			if cfg.Rank == victim {
				k.install(cfg)
			}
		})
		ctx := within(t)
		time.AfterFunc(50*time.Millisecond, k.cut)
		start := time.Now()
		for r, err := range each(world, func(c *Control) error {
			if c.own.rank == victim {
				return nil
			}
			return c.Barrier(ctx) // the victim never comes
		}) {
			var v *Verdict
			if r != victim && (!errors.As(err, &v) || v.Rank != victim || v.Kind != KindLost) {
				t.Errorf("rank %d: %v: expected the loss of rank %d", r, err, victim)
			}
			if r != victim && v != nil && (v.Host != world[victim].own.self.Host || v.PID != os.Getpid() || v.Confidence != Certain || !dead(v.Text)) {
				t.Errorf("rank %d: %+v: expected host and pid of rank %d, for certain", r, v, victim)
			}
		}
		if took, silence := time.Since(start), world[1].own.cfg.Silence; took > silence {
			t.Errorf("it took %s: expected that nobody waits for %s of silence", took, silence)
		}
	}
}

// Each rank knows where each other is, so that any can be named; and a verdict says what
// whoever found it was in.
func TestVerdictIsComplete(t *testing.T) {
	t.Parallel()
	world := ring(t, 5, nil)
	for _, c := range world {
		for rank := range world {
			if m := c.members.of(rank); m.Host != c.own.self.Host || m.PID != os.Getpid() {
				t.Errorf("rank %d knows of rank %d that it is %v", c.own.rank, rank, m)
			}
		}
	}
	doing := Doing{Operation: 7, Words: "all-reduce", Phase: "all-gather", Segment: 3, Awaited: "segment 3 from rank 0"}
	world[1].SetDoing(func() Doing { return doing })
	world[1].Fail(&Verdict{Kind: KindEdge, Rank: 3, Edge: Direction{From: 3, To: 4}, By: 1, Since: time.Second, Text: "lost"})
	ctx := within(t)
	want := Verdict{
		Kind: KindEdge, Rank: 3, Host: world[3].own.self.Host, PID: os.Getpid(), Edge: Direction{From: 3, To: 4}, Confidence: Suspect, Doing: doing,
		Since: time.Second, By: 1, Text: "lost",
	}
	for r, err := range each(world, func(c *Control) error { return c.Barrier(ctx) }) {
		want.Told = r != 1
		var v *Verdict
		var got Verdict // a copy: others read the verdict yet
		if errors.As(err, &v) {
			got = *v
			got.Slept = 0 // on a busy machine it may have
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("rank %d: %+v: expected %+v", r, got, want)
		}
	}
}

func TestFailGoesRound(t *testing.T) {
	var calls atomic.Int32
	world := ring(t, 4, func(cfg *Config) { cfg.OnFailure = func(*Verdict) { calls.Add(1) } })
	world[1].Fail(&Verdict{Kind: KindFailed, Rank: -1, By: 1, Text: "wrong data in segment 3"})
	ctx := within(t)
	for r, err := range each(world, func(c *Control) error { return c.Barrier(ctx) }) {
		if !strings.Contains(textOf(err), "wrong data in segment 3") || !world[r].Failed() {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if n := calls.Load(); n != 4 {
		t.Errorf("OnFailure was called %d times: expected once on each of 4 ranks", n)
	}
}

// A rank that was stopped blames nobody for that time, whatever it reads first when it goes on.
func TestARankThatWasStoppedBlamesNobody(t *testing.T) {
	t.Parallel()
	const slept = 20 * time.Second
	world := ring(t, 3, nil)
	c, now := world[1], time.Now()
	w := c.liveness
	w.mu.Lock()
	w.looked = now.Add(-slept)
	for _, p := range w.peers {
		p.movedAt = now.Add(-slept)
	}
	for _, l := range c.neighbours.all() {
		l.set(func() { l.now.heard = now.Add(-slept) })
	}
	w.mu.Unlock()
	if err := w.takeSighting(c.neighbours.at(right), verdict.Sighting{By: 2, About: 1, Seq: 1, Silent: slept, Call: verdict.CallOpen}); err != nil {
		t.Fatal(err)
	}
	phase := c.outcome.phase()
	if took, _ := w.sleptLately(); phase.proposed || phase.failure != nil || took < slept {
		t.Errorf("it says %+v, and slept for %s", phase, took)
	}
}

// A neighbour that is reached only after the verdict is told, too.
func TestVerdictWhileDialling(t *testing.T) {
	t.Parallel()
	nodes := freshNodes(t, 3)
	var failing *Control
	cfg := configFor(t, nodes, 0)
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		failing.Fail(&Verdict{Kind: KindFailed, Rank: 0, By: 0, Text: "no memory"})
		return conn, err
	}
	failing = openRank(t, cfg)
	world := []*Control{failing, openRank(t, configFor(t, nodes, 1))}
	ctx := within(t)
	for r, err := range each(world, func(c *Control) error { return exchange(ctx, c) }) {
		var v *Verdict
		if !errors.As(err, &v) || v.Text != "no memory" {
			t.Errorf("rank %d: %v: expected rank 0's verdict", r, err)
		}
	}
}

func TestEveryFrameIsASignOfLife(t *testing.T) {
	t.Parallel()
	c := ring(t, 2, nil)[0]
	l := c.neighbours.at(left)
	long := time.Now().Add(-time.Minute)
	l.set(func() { l.now.heard = long })
	f := &oob.Frame{Version: oob.Version, Type: TypeParts, Sender: l.peer, Edge: c.own.edge(left), Epoch: c.Epoch(), Payload: []byte(`{"op":1,"kind":"barrier","origins":[1],"data":[""]}`)}
	if err := c.handle(l, f); err != nil {
		t.Fatal(err)
	}
	if !l.state().heard.After(long) {
		t.Error("a part did not count")
	}
}

func TestLeavingIsNoticed(t *testing.T) {
	t.Parallel()
	world := ring(t, 4, nil)
	if err := world[3].Close(); err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	for r, err := range each(world[:3], func(c *Control) error { return c.Barrier(ctx) }) {
		var v *Verdict
		if !errors.As(err, &v) || v.Kind != KindLeft || v.Rank != 3 {
			t.Errorf("rank %d: %v: expected that rank 3 has left", r, err)
		}
	}
}

// Silence counts only while nothing else moves.
func TestSilence(t *testing.T) {
	t.Parallel()
	for _, moving := range []bool{true, false} {
		var moved atomic.Uint64
		var quiet atomic.Bool
		world := ring(t, 2, func(cfg *Config) {
			cfg.Death, cfg.Silence = 1500*time.Millisecond, 2*time.Second // a call has time even on a busy machine
			cfg.Moved = func(int) uint64 {
				if moving {
					return moved.Add(1)
				}
				return 0
			}
			if cfg.Rank == 1 { // sends nothing once quiet
				muteAll(cfg, &quiet)
			}
		})
		quiet.Store(true)
		v := world[0].Failure()
		for begun := time.Now(); v == nil && (time.Since(begun) < 3*time.Second || !moving && time.Since(begun) < patience); v = world[0].Failure() {
			time.Sleep(20 * time.Millisecond) // a busy machine looks at its clock late
		}
		if moving && v != nil {
			t.Errorf("given up although something moved: %v", v)
		}
		if !moving && (v == nil || v.Kind != KindStopped || v.Rank != 1 || v.Confidence != Suspect) {
			t.Errorf("%v: expected that rank 1 is suspected to stand still", v)
		}
		quiet.Store(false)
	}
}

// mute drops what is written while quiet.
type mute struct {
	net.Conn
	quiet *atomic.Bool
}

func (m mute) Write(b []byte) (int, error) {
	if m.quiet.Load() {
		return len(b), nil
	}
	return m.Conn.Write(b)
}

type muteListener struct {
	net.Listener
	quiet *atomic.Bool
}

func (l muteListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return mute{c, l.quiet}, nil
}

// Strangers on the port are named and hung up on, and bring-up goes on.
func TestStrangersOnThePort(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var mu sync.Mutex
	if err := trace.SetOutput(lockedWriter{&mu, &log}, trace.Text); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := trace.SetOutput(os.Stderr, trace.Auto); err != nil {
			t.Error(err)
		}
	}()
	nodes := freshNodes(t, 2)
	zero := openRank(t, configFor(t, nodes, 0))
	for _, first := range []string{pingpong, perftest, "GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01\x00\x05hello", "SSH-2.0-x\r\n", "\x01\x02", "RNGC\x00\x00\x00\x02[]", ""} {
		conn, err := net.Dial("tcp", nodes[0].String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write([]byte(first)); err != nil {
			t.Fatal(err)
		}
		if first == "" {
			continue // stays silent, and must not be in the way
		}
		_ = conn.SetReadDeadline(time.Now().Add(2 * handshakeTimeout))
		if n, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q was answered with %d bytes, %v: expected to be hung up on", first, n, err)
		}
	}
	one := openRank(t, configFor(t, nodes, 1))
	ctx := within(t)
	noErrors(t, each([]*Control{zero, one}, func(c *Control) error { return exchange(ctx, c) }))
	noErrors(t, each([]*Control{zero, one}, func(c *Control) error { return c.Close() })) // tells of those that were counted
	mu.Lock()
	defer mu.Unlock()
	// Tests beside this one may have counted six, too.
	if strings.Count(log.String(), "on port "+zero.greeter.listener.Addr().String()) != 1 || !strings.Contains(log.String(), "6 more strangers") {
		t.Errorf("the trace has not the first stranger and a count of the others:\n%s", log.String())
	}
	for _, want := range []string{"ibv_rc_pingpong (52-byte", "perftest 6.06", "HTTP", "TLS", "SSH", "unknown program", "cannot unmarshal"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the trace names no %q:\n%s", want, log.String())
		}
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// A stranger in the place of the right neighbour is named at the deadline: by what
// it answers, or by hanging up without a word, as ibv_rc_pingpong does.
func TestStrangerInsteadOfNeighbour(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n": "HTTP", perftest: "perftest 6.06", "": "closed it without an answer: what has the port there is not known",
	} {
		strangerInsteadOfNeighbour(t, answer, want, false)
		strangerInsteadOfNeighbour(t, answer, want, true)
	}
}

// once: it serves one caller and is gone, as the stock tools are.
func strangerInsteadOfNeighbour(t *testing.T, answer, want string, once bool) {
	t.Helper()
	nodes := freshNodes(t, 2)
	ln, err := net.Listen("tcp", nodes[1].String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = c.Write([]byte(answer))
			_ = c.Close()
			if once {
				_ = ln.Close()
			}
		}
	}()
	c := openRank(t, configFor(t, nodes, 0))
	met, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- exchange(met, c) }()
	until(t, "the stranger", func() bool {
		c.tally.mu.Lock()
		defer c.tally.mu.Unlock()
		return c.tally.intruder != ""
	})
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("%v: expected to be cancelled", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err = exchange(ctx, c)
	if !strings.Contains(textOf(err), want) {
		t.Errorf("once %t: %v: expected %q", once, err, want)
	}
}

// Of hundreds of ranks a text names the few that hold up the others.
func TestATimeoutOfManyIsShort(t *testing.T) {
	e := &TimeoutError{What: exchanging, From: []int{1}, After: time.Second}
	for rank := 1; rank < 250; rank++ {
		e.Peers = append(e.Peers, PeerReport{Rank: rank, Node: "n", Up: true, State: "up", waiting: []int{rank - 1}})
	}
	e.Peers[99] = PeerReport{Rank: 100, Node: "n", State: "connection refused"}
	const want = "rank 100 (n): connection refused; ranks 1, 2, 3, 4, 5, 6, 7, 8, 240 more are up and wait for it"
	if p := e.Parts(); p.Result != want || !slices.Equal(p.Evidence, []string{"timed out after 1s waiting for rank 1 to connect"}) {
		t.Errorf("%+v: expected %q", p, want)
	}
	e.Peers = slices.Delete(e.Peers, 99, 100)
	if text := e.Error(); !strings.Contains(text, "rank 8 (n): up; 240 more ranks, of which 240 are up") { // each waits for another
		t.Errorf("%s", text)
	}
	if e.Peers = e.Peers[:calls.MostNamed]; strings.Contains(e.Error(), "more ranks") {
		t.Errorf("%s", e)
	}
}

// perftest is what ib_write_bw 6.06 and its like send first, at either end, pingpong what
// ibv_rc_pingpong does as a client.
const (
	perftest = "6.06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	pingpong = "0000:000011:0a0b0c:00000000000000000000ffff7f000001\x00"
)
