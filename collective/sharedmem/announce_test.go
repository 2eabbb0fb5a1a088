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
		a.Announce(n, Signature{100 + n, 200 + n, 300 + n})
		// The next call is there, its number is not yet.
		l, at := a.own[announcedLine], announcedCall+announcedWords*((n+1)&1)
		l[at], l[at+1], l[at+2] = 7, 8, 9
		if number, s := b.Announced(0); number != n || s != (Signature{100 + n, 200 + n, 300 + n}) {
			t.Errorf("got %d, %v, want %d", number, s, n)
		}
		a.Ended(n)
		if ended := b.HasEnded(0); ended != n {
			t.Errorf("ended %d, want %d", ended, n)
		}
	}
}
