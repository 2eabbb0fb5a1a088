package sharedmem

import "testing"

// What a rank announces is seen whole, also while it writes the next.
func TestAnnounced(t *testing.T) {
	w := newWorld(t, 2, nil)
	a, b := w.teams[0], w.teams[1]
	if number, _ := b.Announced(0); number != 0 {
		t.Errorf("before the first: number %d", number)
	}
	for n := uint64(1); n < 6; n++ {
		a.Announcement().Begin(n, Signature{100 + n, 200 + n, 300 + n})
		former, ok := a.Announcement().Call(n - 1)
		if n > 1 && (!ok || former != (Signature{99 + n, 199 + n, 299 + n})) {
			t.Errorf("the one before %d: got %v", n, former)
		}
		// The next call is written, its number is not yet.
		l := a.own[announcedLine]
		before := *l
		a.Announcement().Announce(n+1, Signature{7, 8, 9})
		l[announcedNumber] = before[announcedNumber]
		if number, s := b.Announced(0); number != n || s != (Signature{100 + n, 200 + n, 300 + n}) {
			t.Errorf("got %d, %v, want %d", number, s, n)
		}
		if s, ok := a.Announcement().Call(n - 1); ok {
			t.Errorf("the one before %d, in whose place is another: got %v", n, s)
		}
		if b.HasEnded(0, n) || n > 1 && !b.HasEnded(0, n-1) {
			t.Errorf("operation %d runs: it has ended, or the one before has not", n)
		}
		a.Announcement().End(n)
		if !b.HasEnded(0, n) || b.HasEnded(0, n+1) {
			t.Errorf("operation %d has not ended, or the next has", n)
		}
	}
}

// What is read while the rank goes on is a call that it made, under its own number, and never
// parts of two; and what is announced is in one line of the cache.
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
	for i, word := range a[8:] {
		if word != 0 {
			t.Errorf("word %d is written", 8+i)
		}
	}
}
