package session

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Visits are commands in front, such as ping, that want the queue pairs while a command in
// the background has the ring. The latter lets them in where no rank is in an operation:
// between two batches, which all ranks end together. nil has none.
type Visits struct {
	mu   sync.Mutex // guards the following
	list []*visit
}

// visit is closed in to begin it, by Serve, and in done by the one who visits.
type visit struct {
	in, done chan struct{}
	granted  bool
}

// Knock asks for a visit. In is closed when it may begin, and leave ends it, or gives it up.
func (v *Visits) Knock() (in <-chan struct{}, leave func()) {
	x := &visit{in: make(chan struct{}), done: make(chan struct{})}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list = append(v.list, x)
	return x.in, sync.OnceFunc(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.list = slices.DeleteFunc(v.list, func(other *visit) bool { return other == x })
		close(x.done)
	})
}

// Wanted tells whether somebody waits for a visit.
func (v *Visits) Wanted() bool {
	if v == nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.list) > 0
}

// Serve begins the visits that wait, but for those that come while a pause goes on, and
// waits for the end of all, for so long at most. It tells whether one goes on.
func (v *Visits) Serve(ctx context.Context, first bool, most time.Duration) (goesOn bool) {
	if v == nil {
		return false
	}
	v.mu.Lock()
	var begun []*visit
	for _, x := range v.list {
		if first && !x.granted {
			x.granted = true
			close(x.in)
		}
		if x.granted {
			begun = append(begun, x)
		}
	}
	v.mu.Unlock()
	enough := time.NewTimer(most)
	defer enough.Stop()
	for _, x := range begun {
		select {
		case <-x.done:
		case <-enough.C:
			return true
		case <-ctx.Done():
			return true
		}
	}
	return false
}
