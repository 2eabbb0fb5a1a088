package sharedmem

import "testing"

// What a rank announces is seen whole, also while it writes the next.
func TestAnnounced(t *testing.T) {
	w := newWorld(t, 2, nil)
	a, b := w.teams[0], w.teams[1]
	if number, _, _ := b.Announced(0); number != 0 {
		t.Errorf("before the first: number %d", number)
	}
	for n := uint64(1); n < 6; n++ {
		a.Announce(n, 100+n, 200+n)
		// The next call is there, its number is not yet.
		l, at := a.own.announced, announcedCall+2*((n+1)&1)
		l[at], l[at+1] = 7, 8
		if number, digest, count := b.Announced(0); number != n || digest != 100+n || count != 200+n {
			t.Errorf("got %d, %d, %d, want %d, %d, %d", number, digest, count, n, 100+n, 200+n)
		}
		a.Ended(n)
		if ended := b.HasEnded(0); ended != n {
			t.Errorf("ended %d, want %d", ended, n)
		}
	}
}
