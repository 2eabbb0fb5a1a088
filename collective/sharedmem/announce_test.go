package sharedmem

import "testing"

// What a rank announces is seen whole, also while it writes the next.
func TestAnnounced(t *testing.T) {
	w := newWorld(t, 2, nil)
	a, b := w.teams[0], w.teams[1]
	if !b.Announced(0).HasEnded(1) {
		t.Error("a rank without a board has not ended")
	}
	Open(a.board, 2)
	if _, ok := b.Announced(0).Call(0); ok {
		t.Error("before the first: it is in a call")
	}
	of := func(n uint64) Signature { return Signature{100 + n, 200 + n, 300 + n} }
	for n := uint64(1); n < 3*announcedPlaces; n++ {
		a.Announcement().Begin(n, of(n))
		for _, number := range []uint64{n, n - 1, n - queueDepth, n - announcedPlaces + 1} {
			if s, ok := b.Announced(0).Call(number); ok != (0 < number && number <= n) || ok && s != of(number) {
				t.Fatalf("operation %d in %d: got %v, %v", number, n, s, ok)
			}
		}
		if s, ok := b.Announced(0).Call(n - announcedPlaces); ok {
			t.Fatalf("operation %d, in whose place is %d: got %v", n-announcedPlaces, n, s)
		}
		if b.Announced(0).HasEnded(n) || n > 1 && !b.Announced(0).HasEnded(n-1) {
			t.Errorf("operation %d runs: it has ended, or the one before has not", n)
		}
		a.Announcement().End(n)
		if !b.Announced(0).HasEnded(n) || b.Announced(0).HasEnded(n+1) {
			t.Errorf("operation %d has not ended, or the next has", n)
		}
	}
}

// What is read while the rank goes on is a call that it made, under its own number, and never
// parts of two.
func TestAnnouncedWhole(t *testing.T) {
	a := new(Announcement)
	const last = 20000
	of := func(n uint64) Signature { return Signature{n / 3, n / 3 * 5, n / 3 % 7} } // calls repeat, and change
	go func() {
		for n := uint64(1); n <= last; n++ {
			a.Begin(n, of(n))
		}
	}()
	for n, whole := uint64(0), 0; n < last; {
		n, _ = a.At()
		for _, number := range []uint64{n - 1, n} {
			if s, ok := a.Call(number); ok && s != of(number) {
				t.Fatalf("operation %d: got %v, want %v", number, s, of(number))
			} else if ok {
				whole++
			}
		}
		if n == last && whole == 0 {
			t.Error("nothing was read whole")
		}
	}
}
