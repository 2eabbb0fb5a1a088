package memfd

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
)

func TestMain(m *testing.M) {
	childMain() // does not return in a child process
	goleak.VerifyTestMain(m)
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func randomKey() (k Key) {
	_, _ = rand.Read(k[:])
	return k
}

func create(t *testing.T, n uint64) *Arena {
	t.Helper()
	a, err := Create(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Free(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func listen(t *testing.T) *Hub {
	t.Helper()
	h, err := Listen(randomKey())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func dial(t *testing.T, h *Hub, k Key) *Peer {
	t.Helper()
	p, err := h.Dial(within(t, 20*time.Second), k)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func mapped(t *testing.T, p *Peer, id uint64, writable bool) (addr uint64, length int) {
	t.Helper()
	addr, length, err := p.Map(within(t, 20*time.Second), id, writable)
	if err != nil {
		t.Fatal(err)
	}
	return addr, length
}

func TestCreate(t *testing.T) {
	page := uint64(unix.Getpagesize())
	seen := map[uint64]bool{0: true}
	for _, n := range []uint64{0, 1, page, page + 1, 3 << 20} {
		a := create(t, n)
		if a.Len() != int(n) || len(a.Bytes()) != int(n) || cap(a.Bytes()) != int(n) {
			t.Errorf("%d bytes: length %d, a slice of %d, capacity %d", n, a.Len(), len(a.Bytes()), cap(a.Bytes()))
		}
		if a.Addr() == 0 || a.Addr()%page != 0 {
			t.Errorf("%d bytes: address %#x is not that of a page", n, a.Addr())
		}
		if seen[a.ID()] {
			t.Errorf("%d bytes: ID %d is 0 or another's", n, a.ID())
		}
		seen[a.ID()] = true
		for i, x := range a.Bytes() {
			if x != 0 {
				t.Fatalf("%d bytes: byte %d is %d, want 0", n, i, x)
			}
		}
	}
}

func TestCreateTooMuch(t *testing.T) {
	before := descriptorsOpen(t)
	for _, n := range []uint64{1 << 50, 1 << 62, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		_, err := Create(n)
		if err == nil || !strings.Contains(err.Error(), "use a smaller size") {
			t.Errorf("%d bytes: got %v", n, err)
		}
	}
	if after := descriptorsOpen(t); after != before {
		t.Errorf("%d descriptors after failures, want %d", after, before)
	}
}

func TestFreeIsOnce(t *testing.T) {
	files, maps := descriptorsOpen(t), arenasMapped(t)
	a := create(t, 100)
	for range 2 {
		if err := a.Free(); err != nil {
			t.Fatal(err)
		}
	}
	if a.Len() != 0 || a.Bytes() != nil {
		t.Errorf("freed: %d bytes", a.Len())
	}
	if _, _, ok := Find(a.Addr(), 1); ok {
		t.Error("a freed arena is found")
	}
	if f, m := descriptorsOpen(t), arenasMapped(t); f != files || m != maps {
		t.Errorf("%d descriptors and %d arena mappings left, want %d and %d", f, m, files, maps)
	}
	var none *Arena
	if err := none.Free(); err != nil {
		t.Errorf("freeing nothing: %v", err)
	}
}

func TestFind(t *testing.T) {
	for range 5 {
		create(t, 1<<16)
	}
	a := create(t, 1000)
	for range 5 {
		create(t, 1<<16)
	}
	for _, c := range []struct {
		addr, length, offset uint64
		ok                   bool
	}{
		{a.Addr(), 1000, 0, true},
		{a.Addr(), 0, 0, true},
		{a.Addr() + 999, 1, 999, true},
		{a.Addr() + 10, 990, 10, true},
		{a.Addr() + 10, 991, 0, false},
		{a.Addr() + 1001, 0, 0, false},
		{a.Addr() + 1, 1<<64 - 1, 0, false},
		{1, 1, 0, false},
		{1<<64 - 1, 1, 0, false},
	} {
		got, offset, ok := Find(c.addr, c.length)
		if ok != c.ok || ok && (got != a || offset != c.offset) {
			t.Errorf("%d bytes at base+%d: offset %d, %t; want %d, %t", c.length, c.addr-a.Addr(), offset, ok, c.offset, c.ok)
		}
	}
	if n := testing.AllocsPerRun(100, func() { Find(a.Addr(), 1000) }); n != 0 {
		t.Errorf("Find allocates %v times", n)
	}
}

func TestFindWhileOthersCome(t *testing.T) {
	a := create(t, 4096)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200 {
				b, err := Create(1)
				if err != nil {
					t.Error(err)
					return
				}
				if got, _, ok := Find(b.Addr(), 1); !ok || got != b {
					t.Error("a new arena is not found")
				}
				if got, offset, ok := Find(a.Addr()+5, 7); !ok || got != a || offset != 5 {
					t.Error("an old arena is not found")
				}
				if err := b.Free(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

func TestPeersOfOneProcess(t *testing.T) {
	for _, name := range []string{"two hubs", "one hub"} {
		t.Run(name, func(t *testing.T) {
			a, b := listen(t), listen(t)
			if name == "one hub" {
				b = a
			}
			p, x := dial(t, a, b.key), create(t, 5000)
			x.Bytes()[4999] = 7
			ro, n := mapped(t, p, x.ID(), false)
			rw, m := mapped(t, p, x.ID(), true)
			if n != 5000 || m != 5000 || ro == rw || ro == x.Addr() || rw == x.Addr() {
				t.Errorf("views of %d and %d bytes at %#x and %#x of an arena at %#x", n, m, ro, rw, x.Addr())
			}
			if got := memory.Bytes(ro, n)[4999]; got != 7 {
				t.Errorf("the view shows %d, want 7", got)
			}
			memory.Bytes(rw, n)[0] = 8
			if got := x.Bytes()[0]; got != 8 {
				t.Errorf("the owner sees %d, want 8", got)
			}
			if p.conn.pid != os.Getpid() {
				t.Errorf("PID %d, want %d", p.conn.pid, os.Getpid())
			}
			if err := p.Err(); err != nil {
				t.Errorf("a live peer's error: %v", err)
			}
		})
	}
}

func TestMapKnown(t *testing.T) {
	h := listen(t)
	p, x := dial(t, h, h.key), create(t, 64)
	first, _ := mapped(t, p, x.ID(), true)
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		if addr, _, err := p.Map(ctx, x.ID(), true); err != nil || addr != first {
			t.Errorf("view at %#x, %v; want %#x", addr, err, first)
		}
	}); n != 0 {
		t.Errorf("Map of a known arena allocates %v times", n)
	}
}

func TestMapNothing(t *testing.T) {
	h := listen(t)
	p, x := dial(t, h, h.key), create(t, 64)
	if err := x.Free(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []uint64{0, x.ID(), 1 << 60} {
		if _, _, err := p.Map(within(t, 20*time.Second), id, false); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("no arena %d ", id)) {
			t.Errorf("arena %d: %v", id, err)
		}
	}
}

// descriptorsOpen counts the process's arenas and sockets. Others are the
// runtime's, which opens some when it first needs them.
func descriptorsOpen(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("count descriptors: %v", err)
	}
	for _, e := range entries {
		target, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if strings.Contains(target, memfdName) || strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}

// arenasMapped counts the process's mappings of arenas.
func arenasMapped(t *testing.T) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skipf("count mappings: %v", err)
	}
	return strings.Count(string(maps), memfdName)
}
