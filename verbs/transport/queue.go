package transport

import "slices"

// fifo is a queue whose memory is used again.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(x T) { q.items = append(q.items, x) }

// first is the next one to be popped; there must be one.
func (q *fifo[T]) first() *T { return &q.items[q.head] }

func (q *fifo[T]) pop() T {
	x := q.items[q.head]
	clear(q.items[q.head : q.head+1])
	q.head++
	switch {
	case q.head == len(q.items):
		q.items, q.head = q.items[:0], 0
	case q.head >= 64 && q.head > len(q.items)/2:
		q.items = slices.Delete(q.items, 0, q.head)
		q.head = 0
	}
	return x
}

// takeBack removes the last n and returns them.
func (q *fifo[T]) takeBack(n int) []T {
	last := slices.Clone(q.items[len(q.items)-n:])
	q.items = slices.Delete(q.items, len(q.items)-n, len(q.items))
	return last
}

// remove removes those that match.
func (q *fifo[T]) remove(match func(T) bool) {
	q.items = slices.Delete(q.items, 0, q.head)
	q.head = 0
	q.items = slices.DeleteFunc(q.items, match)
}

// all removes everything and returns it.
func (q *fifo[T]) all() []T { return q.takeBack(q.len()) }
