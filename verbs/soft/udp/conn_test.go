package udp

import (
	"errors"
	"math"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestListenErrors(t *testing.T) {
	first := listening(t, loopback4, without{})
	if _, err := Listen(first.LocalAddr()); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a port in use: %v", err)
	}
	mapped := netip.AddrPortFrom(netip.AddrFrom16(first.LocalAddr().Addr().As16()), first.LocalAddr().Port())
	if _, err := Listen(mapped); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a port in use, as an IPv4-mapped address: %v", err)
	}
	if _, err := Listen(netip.MustParseAddrPort("192.0.2.1:0")); !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Errorf("an address of another host: %v", err)
	}
	if _, err := Listen(netip.AddrPort{}); err == nil {
		t.Error("no address was accepted")
	}
}

func TestRecvBuffer(t *testing.T) {
	if got := listening(t, loopback4, without{}).RecvBuffer(); got < 200_000 {
		t.Errorf("%d bytes granted", got)
	}
}

func TestWait(t *testing.T) {
	c, from := listening(t, loopback4, without{}), listening(t, loopback4, without{})
	expect := func(what string, timeout time.Duration, want bool) {
		t.Helper()
		if got, err := c.Wait(timeout); got != want || err != nil {
			t.Errorf("%s: readable %v, %v; expected %v", what, got, err, want)
		}
	}
	expect("nothing there", 0, false)
	start := time.Now()
	expect("nothing comes", 20*time.Millisecond, false)
	if took := time.Since(start); took < 20*time.Millisecond {
		t.Errorf("a wait of 20 ms took %v", took)
	}
	c.Wake()
	expect("woken before", time.Minute, false)
	expect("a wake counts once", 0, false)
	go func() {
		time.Sleep(5 * time.Millisecond)
		c.Wake()
	}()
	expect("woken meanwhile", time.Minute, false)

	dst := NewSockaddr(c.LocalAddr())
	if _, err := from.Send([]Message{{Dst: &dst, Iov: []Iovec{IovecOf(random(10))}}}); err != nil {
		t.Fatal(err)
	}
	expect("a datagram is there", time.Minute, true)
	receive(t, c, 1)
	expect("it was taken", 0, false)
}

func TestClose(t *testing.T) {
	c := listening(t, loopback4, without{})
	waited := make(chan error)
	go func() {
		_, err := c.Wait(time.Minute)
		waited <- err
	}()
	time.Sleep(5 * time.Millisecond)
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-waited; !errors.Is(err, ErrClosed) {
		t.Errorf("Wait ended with %v", err)
	}
	if _, err := c.Recv(); !errors.Is(err, ErrClosed) {
		t.Errorf("Recv: %v", err)
	}
	if _, err := c.Send(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Send: %v", err)
	}
	if _, err := c.Wait(0); !errors.Is(err, ErrClosed) {
		t.Errorf("Wait: %v", err)
	}
	c.Wake()
	again, err := Listen(c.LocalAddr())
	if err != nil {
		t.Fatalf("the port is not free after Close: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseAnytime closes under calls of every kind; the race detector and the
// descriptors' owners (no EBADF may come out) are the judges.
func TestCloseAnytime(t *testing.T) {
	for range 50 {
		c := listening(t, loopback4, without{})
		dst := NewSockaddr(c.LocalAddr())
		msgs := []Message{{Dst: &dst, Iov: []Iovec{IovecOf(random(100))}}}
		var running sync.WaitGroup
		for _, call := range []func() error{
			func() error { _, err := c.Recv(); return err },
			func() error { _, err := c.Send(msgs); return err },
			func() error { _, err := c.Wait(time.Minute); return err },
			func() error { c.Wake(); _ = c.Features(); return nil },
		} {
			running.Go(func() {
				for range 1000 {
					if err := call(); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		for range 2 {
			running.Go(func() { _ = c.Close() })
		}
		running.Wait()
	}
}

func count(t *testing.T, path string) int {
	t.Helper()
	if path == "/proc/self/fd" {
		entries, err := os.ReadDir(path)
		if err != nil {
			t.Skip(err)
		}
		return len(entries)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Skip(err)
	}
	return strings.Count(string(text), "\n")
}

// TestOpenClose opens and closes 1,000 sockets. The buffers are Go memory, so
// mappings may differ by a few of the heap's own, not by one a socket.
func TestOpenClose(t *testing.T) {
	cycle := func() {
		c, err := Listen(loopback4)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		cycle()
	}
	files, maps := count(t, "/proc/self/fd"), count(t, "/proc/self/maps")
	for range 1000 {
		cycle()
	}
	if n := count(t, "/proc/self/fd"); n != files {
		t.Errorf("%d descriptors, %d before", n, files)
	}
	if n := count(t, "/proc/self/maps"); math.Abs(float64(n-maps)) > 20 {
		t.Errorf("%d mappings, %d before", n, maps)
	}
}

func TestAllocations(t *testing.T) {
	for _, local := range []netip.AddrPort{loopback4, loopback6} {
		for _, o := range []without{{}, {GSO: true}, {GRO: true}, {MMsg: true}} {
			from, to := listening(t, local, o), listening(t, local, o)
			dst := NewSockaddr(to.LocalAddr())
			data := random(9 * 4112)
			msgs := []Message{
				{Dst: &dst, Iov: []Iovec{IovecOf(data)}, SegmentSize: 4112},
				{Dst: &dst, Iov: []Iovec{IovecOf(data[:64])}},
			}
			allocs := testing.AllocsPerRun(100, func() {
				if _, err := from.Send(msgs); err != nil {
					t.Error(err)
				}
				polls := 0 // on a busy host loopback may deliver a little later
				for left := len(data) + 64; left > 0; polls++ {
					got, err := to.Recv()
					if err != nil || polls > 1_000_000 {
						t.Fatalf("%d bytes missing after %d polls, %v", left, polls, err)
					}
					for i := range got {
						left -= len(got[i].Data)
					}
				}
				if got, err := to.Recv(); err != nil || len(got) != 0 {
					t.Error("an empty poll returned", len(got), err)
				}
			})
			if allocs != 0 {
				t.Errorf("%v %+v: %v allocations a round", local.Addr(), o, allocs)
			}
		}
	}
}
