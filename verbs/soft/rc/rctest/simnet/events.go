package simnet

// Queue has events by their times, in ns, the earliest first. Events of one time come in the order
// in which they were pushed.
type Queue[T int64 | float64, E any] struct {
	heap   []entry[T, E] // binary
	pushed uint64
}

type entry[T int64 | float64, E any] struct {
	at    T
	order uint64
	event E
}

func (e *entry[T, E]) before(o *entry[T, E]) bool {
	return e.at < o.at || e.at == o.at && e.order < o.order
}

// Next is the time of the earliest event; false if there is none.
func (q *Queue[T, E]) Next() (at T, ok bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].at, true
}

// Push adds an event.
func (q *Queue[T, E]) Push(at T, event E) {
	q.pushed++
	e := entry[T, E]{at, q.pushed, event}
	h := append(q.heap, e)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = e
	q.heap = h
}

// Pop removes the earliest event. There must be one.
func (q *Queue[T, E]) Pop() (at T, event E) {
	last := len(q.heap) - 1
	h, top, e := q.heap[:last], q.heap[0], q.heap[last]
	q.heap[last] = entry[T, E]{} // holds no packet any more
	q.heap = h
	for i := 0; len(h) > 0; {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if child >= len(h) || !h[child].before(&e) {
			h[i] = e
			break
		}
		h[i] = h[child]
		i = child
	}
	return top.at, top.event
}
