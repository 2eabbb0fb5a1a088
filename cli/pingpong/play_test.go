package pingpong

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"ringcli/cli/endpoint"
	"ringcli/ring/bootstrap/oob"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// pair runs both ends in this process, on two addresses.
func pair(t *testing.T, change func(server, client *Options)) (results [2]PingpongResult, errs [2]error) {
	t.Helper()
	l, err := net.Listen("tcp", own(4).String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	server, client := options(t, "", port), options(t, own(4).String(), port)
	server.Bind, client.Bind = own(4), own(5)
	change(server, client)
	done := make(chan struct{})
	go func() {
		defer close(done)
		results[0], errs[0] = Run(t.Context(), *server)
	}()
	results[1], errs[1] = Run(t.Context(), *client)
	<-done
	return results, errs
}

// The client times each round trip, the server all but the first, and nothing is
// left behind.
func TestRoundTrips(t *testing.T) {
	live := memory.Live.Load()
	var rounds [2]int
	results, errs := pair(t, func(server, client *Options) {
		for i, o := range []*Options{server, client} {
			o.Check = true
			o.RoundTrip = func(time.Duration) { rounds[i]++ }
		}
	})
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	if rounds != [2]int{19, 20} {
		t.Errorf("%d round trips: expected 19 and 20", rounds)
	}
	if results[0].Local != results[1].Remote || results[1].Local != results[0].Remote || results[0].Seconds <= 0 {
		t.Errorf("%+v", results)
	}
	if left := memory.Live.Load() - live; left != 0 {
		t.Errorf("%d bytes are left behind", left)
	}
}

// What a run allocates does not grow with the messages.
func TestMessagesAllocateNothing(t *testing.T) {
	mallocs := func(iters int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, errs := pair(t, func(server, client *Options) { server.Iters, client.Iters = iters, iters })
		runtime.ReadMemStats(&after)
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		return after.Mallocs - before.Mallocs
	}
	mallocs(10) // what is made once
	few, many := mallocs(10), mallocs(5010)
	if many > few+1000 {
		t.Errorf("%d allocations for 10 messages, %d for 5010", few, many)
	}
}

// A message that is damaged after it came is seen, by either end.
func TestCheckFails(t *testing.T) {
	e := &end{Endpoint: &endpoint.Endpoint{}, o: &Options{Size: 10000, Check: true}}
	for name, c := range map[string]struct {
		host string
		at   int
		want string
	}{
		"server": {"", 4096, "page 1"},
		"client": {"somewhere", 10000 + 5001, "byte 5001"},
	} {
		e.o.Host = c.host
		e.pair = e.NewPair()
		var err error
		if e.pair.Block, err = memory.Alloc(e.memory()); err != nil {
			t.Fatal(err)
		}
		b := e.pair.Block.Bytes()
		if e.separate() {
			e.mark()
			copy(b[10000:], b[:10000])
		}
		if err := e.check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b[c.at] ^= 1
		if err := e.check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v: expected %q", name, err, c.want)
		}
		if err := e.pair.Block.Free(); err != nil {
			t.Error(err)
		}
	}
}

// Only the ACK of the last message can be missing from a run that went well.
func TestLastACK(t *testing.T) {
	for _, c := range []struct {
		id             uint64
		status         verbs.Status
		sent, received int
		want           bool
	}{
		{sending, verbs.RetryExceeded, 19, 20, true},
		{sending, verbs.RetryExceeded, 19, 19, false},
		{sending, verbs.RetryExceeded, 18, 20, false},
		{sending, verbs.RemoteOpError, 19, 20, false},
		{receiving, verbs.RetryExceeded, 19, 20, false},
		{sending, verbs.Success, 19, 20, false},
	} {
		e := &end{o: &Options{Iters: 20}, player: player{sent: c.sent, received: c.received}}
		if got := e.leftEarly(&verbs.Completion{ID: c.id, Status: c.status}); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// A peer that gives its address and then does nothing is waited for no longer than
// the deadline.
func TestSilentQueuePair(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	port := listener(t, func(conn net.Conn) {
		m := &meeting{conn: conn}
		if _, err := m.read(oob.Patience); err != nil {
			return
		}
		gid := verbs.GIDFromAddr(own(9)) // where nobody is
		_ = m.answer(Address{QPN: 0x11, PSN: 1, GID: gid}, oob.Patience)
	})
	o := options(t, "127.0.0.1", port)
	o.Bind, o.Timeout, o.RetryCnt = own(6), 2*time.Second, 7
	o.QPTimeout = 20 // four seconds: the deadline comes first
	_, err := Run(ctx, *o)
	want := fmt.Sprintf("no completion for %s from 127.0.0.1 (LID 0x0000, QPN 0x000011", o.Timeout)
	if !errors.Is(err, verbs.ErrTimeout) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v: expected %q", err, want)
	}
}
