package memfd

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"ringcli/verbs/memory"
)

// Everything at once in one process: what is found is right, and nothing is left.
func TestConcurrency(t *testing.T) {
	files, maps, live := descriptorsOpen(t), arenasMapped(t), memory.Live.Load()
	a, b := listen(t), listen(t)
	shared := make([]*Arena, 4)
	for i := range shared {
		shared[i] = create(t, 1<<14)
		shared[i].Bytes()[0] = byte(i + 1)
	}
	hubs := []*Hub{a, b}
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for round := range 60 {
				p, err := hubs[worker%2].Dial(context.Background(), hubs[(worker/2+round)%2].key)
				if err != nil {
					t.Error(err)
					return
				}
				for i, x := range shared {
					addr, n, err := p.Map(context.Background(), x.ID(), (worker+i)%2 == 0)
					if err != nil {
						t.Error(err)
						return
					}
					if got := memory.Bytes(addr, n)[0]; got != byte(i+1) {
						t.Errorf("view of arena %d shows %d, want %d", x.ID(), got, i+1)
					}
				}
				own, err := Create(4096)
				if err != nil {
					t.Error(err)
					return
				}
				var freeing sync.WaitGroup
				freeing.Go(func() { // while it is asked for
					if err := own.Free(); err != nil {
						t.Error(err)
					}
				})
				if addr, n, err := p.Map(context.Background(), own.ID(), true); err == nil {
					_ = memory.Bytes(addr, n)[n-1]
				}
				freeing.Wait()
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for _, err := range []error{a.Close(), b.Close(), shared[0].Free(), shared[1].Free(), shared[2].Free(), shared[3].Free()} {
		if err != nil {
			t.Error(err)
		}
	}
	if f, m, l := descriptorsOpen(t), arenasMapped(t), memory.Live.Load(); f != files || m != maps || l != live {
		t.Errorf("%d descriptors, %d arena mappings and %d bytes left, want %d, %d and %d", f, m, l, files, maps, live)
	}
}

func TestClosedHub(t *testing.T) {
	a, b, x := listen(t), listen(t), create(t, 100)
	p, q := dial(t, a, b.key), dial(t, a, b.key)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Map(context.Background(), x.ID(), false); !errors.Is(err, ErrClosed) {
		t.Errorf("map through a closed peer: %v", err)
	}
	mapped(t, q, x.ID(), false) // the other Peer of the key lives on
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() { // while others use it
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			p, err := a.Dial(context.Background(), b.key)
			if err == nil {
				_ = p.Close()
			} else if !errors.Is(err, ErrClosed) {
				t.Errorf("dial through a hub that closes: %v", err)
			}
		})
		group.Go(func() { _, _, _ = q.Map(context.Background(), x.ID(), true) })
	}
	group.Wait()
	if err := awaitGone(t, q); !errors.Is(err, ErrClosed) {
		t.Errorf("the hub closed: %v", err)
	}
	if _, _, err := q.Map(context.Background(), x.ID(), false); !errors.Is(err, ErrClosed) {
		t.Errorf("map through a closed hub: %v", err)
	}
	if _, err := a.Dial(context.Background(), b.key); !errors.Is(err, ErrClosed) {
		t.Errorf("dial through a closed hub: %v", err)
	}
}

// Views of freed arenas stay as zeros for a while, not for ever.
func TestFreedViewsEnd(t *testing.T) {
	files, live := descriptorsOpen(t), memory.Live.Load()
	h := listen(t)
	p := dial(t, h, h.key)
	const rounds = maxRetired + 20
	size, _ := memory.RoundUp(1)
	for range rounds {
		x := create(t, 1)
		mapped(t, p, x.ID(), false)
		if err := x.Free(); err != nil {
			t.Fatal(err)
		}
	}
	last := create(t, 1) // its answer comes after all that was freed
	mapped(t, p, last.ID(), false)
	if got, want := memory.Live.Load()-live, int64(size)*(maxRetired+2); got != want {
		t.Errorf("%d bytes are mapped after %d views were freed, want %d", got, rounds, want)
	}
	if err := errors.Join(p.Close(), h.Close(), last.Free()); err != nil {
		t.Error(err)
	}
	if f, l := descriptorsOpen(t), memory.Live.Load(); f != files || l != live {
		t.Errorf("%d descriptors and %d bytes left, want %d and %d", f, l, files, live)
	}
}

// A view that is held stays, as zeros, however many arenas its owner frees.
func TestHeldViewStays(t *testing.T) {
	live := memory.Live.Load()
	h := listen(t)
	p := dial(t, h, h.key)
	kept := create(t, 1)
	kept.Bytes()[0] = 7
	at, _, err := p.Hold(t.Context(), kept.ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Hold(t.Context(), kept.ID()); err != nil { // it is held twice
		t.Fatal(err)
	}
	if err := kept.Free(); err != nil {
		t.Fatal(err)
	}
	other := func() {
		x := create(t, 1)
		mapped(t, p, x.ID(), false)
		if err := x.Free(); err != nil {
			t.Fatal(err)
		}
	}
	for range maxRetired + 20 {
		other()
	}
	last := create(t, 1) // its answer comes after all that was freed
	mapped(t, p, last.ID(), false)
	p.Drop(kept.ID())
	if got := memory.Bytes(at, 1)[0]; got != 0 {
		t.Errorf("a view of what was freed has %d: expected zeros", got)
	}
	size, _ := memory.RoundUp(1)
	if got, want := memory.Live.Load()-live, int64(size)*(maxRetired+3); got != want {
		t.Errorf("%d bytes are mapped, want %d: one view is held", got, want)
	}
	p.Drop(kept.ID())
	if got, want := memory.Live.Load()-live, int64(size)*(maxRetired+2); got != want {
		t.Errorf("%d bytes are mapped, want %d: none is held", got, want)
	}
	if _, _, err := p.Hold(t.Context(), kept.ID()); err == nil {
		t.Error("a view of what was freed can be held")
	}
	if err := errors.Join(p.Close(), h.Close(), last.Free()); err != nil {
		t.Error(err)
	}
	if l := memory.Live.Load(); l != live {
		t.Errorf("%d bytes left, want %d", l, live)
	}
}

// A process is killed at any moment of what it does with this one.
func TestKilledAtAnyMoment(t *testing.T) {
	files, maps, live := descriptorsOpen(t), arenasMapped(t), memory.Live.Load()
	h := listen(t)
	own := make([]*Arena, 20)
	for i := range own {
		own[i] = create(t, 1<<16)
	}
	for range 20 {
		c := spawn(t)
		first := c.do("create 65536")[0]
		p := dial(t, h, c.key)
		var group sync.WaitGroup
		group.Go(func() {
			for id := first; p.Err() == nil; id++ {
				_, _, err := p.Map(context.Background(), id, id%2 == 0)
				if errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}
		})
		c.do("busy %s %d", h.key, own[0].ID())
		time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond)
		c.kill()
		if err := awaitGone(t, p); !errors.Is(err, ErrGone) {
			t.Errorf("killed: %v", err)
		}
		group.Wait()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	for _, x := range own {
		if err := x.Free(); err != nil {
			t.Error(err)
		}
	}
	if f, m, l := descriptorsOpen(t), arenasMapped(t), memory.Live.Load(); f != files || m != maps || l != live {
		t.Errorf("%d descriptors, %d arena mappings and %d bytes left, want %d, %d and %d", f, m, l, files, maps, live)
	}
}

// One that asks and does not read holds up nobody: not who frees, not who closes.
func TestPeerThatDoesNotRead(t *testing.T) {
	files, live := descriptorsOpen(t), memory.Live.Load()
	h := listen(t)
	sock := stranger(t, h)
	var all []*Arena
	for range 450 { // more answers than a socket's usual buffer holds, fewer than 1024 files
		x := create(t, 1)
		all = append(all, x)
		if err := transmit(sock, message{kind: kindMap, id: x.ID(), fd: -1}); err != nil {
			t.Fatal(err)
		}
	}
	held := func() (n int) {
		for _, x := range all {
			x.mu.Lock()
			n += len(x.holders)
			x.mu.Unlock()
		}
		return n
	}
	deadline := time.Now().Add(20 * time.Second)
	for held() < len(all) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d questions are answered", held(), len(all))
		}
		time.Sleep(time.Millisecond)
	}
	if descriptorsOpen(t) < files+len(all)+10 {
		t.Skip("the socket's buffer is larger than usual (net.core.wmem_default): nothing is queued")
	}
	done := make(chan error)
	go func() {
		var err error
		for _, x := range all {
			err = errors.Join(err, x.Free())
		}
		done <- errors.Join(err, h.Close())
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Free or Close waits for a peer that does not read")
	}
	_ = sock.Close()
	if f, l := descriptorsOpen(t), memory.Live.Load(); f != files || l != live {
		t.Errorf("%d descriptors and %d bytes left, want %d and %d", f, l, files, live)
	}
}
