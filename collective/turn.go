package collective

import "slices"

// turn is had by whoever runs an operation, first come, first served. It is
// guarded by its Comm's mu, which an operation takes anyway.
type turn struct {
	had   bool
	queue []chan struct{} // closed when its owner has the turn
}

// join queues for a turn that is had.
func (t *turn) join() chan struct{} {
	mine := make(chan struct{})
	t.queue = append(t.queue, mine)
	return mine
}

// quit leaves the queue; false is that the turn has come meanwhile.
func (t *turn) quit(mine chan struct{}) bool {
	i := slices.Index(t.queue, mine)
	if i >= 0 {
		t.queue = slices.Delete(t.queue, i, i+1)
	}
	return i >= 0
}

// pass hands the turn on.
func (t *turn) pass() {
	if len(t.queue) == 0 {
		t.had = false
		return
	}
	close(t.queue[0])
	t.queue = slices.Delete(t.queue, 0, 1)
}
