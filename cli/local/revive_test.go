package local

import (
	"strings"
	"testing"
	"time"
)

// TestReviveEnds: whoever has ranks started again waits for nobody without an end, and says for
// what.
func TestReviveEnds(t *testing.T) {
	for _, test := range []struct {
		name, want string
		do         func(*tended)
	}{
		{"nobody takes it", "which is at others still", func(*tended) {}},
		{"the shell has ended", "has ended", func(t *tended) { close(t.left) }},
		{"it never starts them", "without [2]", func(t *tended) { go func() { <-t.requests; <-t.requests }() }},
	} {
		ranks := &tended{make(chan revival), make(chan struct{}), 20 * time.Millisecond}
		test.do(ranks)
		if end, err := ranks.revive([]int{2}); err == nil || end != nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v: expected %q", test.name, err, test.want)
		}
	}
	ranks := &tended{make(chan revival), make(chan struct{}), time.Minute}
	asked := make(chan revival, 2)
	go func() {
		for range 2 {
			r := <-ranks.requests
			asked <- r
			if r.begins {
				r.done <- nil
			}
		}
	}()
	end, err := ranks.revive(nil)
	if err != nil {
		t.Fatal(err)
	}
	end()
	if first, last := <-asked, <-asked; !first.begins || last.begins {
		t.Errorf("asked %+v, then %+v: expected a beginning and an end", first, last)
	}
}
