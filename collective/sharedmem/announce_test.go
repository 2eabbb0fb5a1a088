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
		l := a.own[announcedLine]
		before := l[0]
		a.Announce(n+1, Signature{7, 8, 9})
		l[0] = before
		if number, s := b.Announced(0); number != n || s != (Signature{100 + n, 200 + n, 300 + n}) {
			t.Errorf("got %d, %v, want %d", number, s, n)
		}
		if s, ok := a.Announcement().Call(n - 1); n > 1 && (!ok || s != (Signature{99 + n, 199 + n, 299 + n})) {
			t.Errorf("the one before %d: got %v", n, s)
		}
		a.Ended(n)
		if ended := b.HasEnded(0); ended != n {
			t.Errorf("ended %d, want %d", ended, n)
		}
	}
}
