package simnet

// event is something that happens at a time: a packet arrives, a queue pair makes
// progress, or a caller's function is called.
type event struct {
	at    int64  // ns
	order uint64 // of creation: events of one time happen in it

	packet *packet
	qp     *QP
	call   func()
}

// queue is a binary heap of events, the earliest first.
type queue []event

func (h queue) less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}

func (h *queue) push(e event) {
	*h = append(*h, e)
	q := *h
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.less(i, up) {
			return
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
}

func (h *queue) pop() event {
	q := *h
	e, last := q[0], len(q)-1
	q[0], q[last] = q[last], event{}
	q = q[:last]
	*h = q
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return e
		}
		if child+1 < last && q.less(child+1, child) {
			child++
		}
		if !q.less(child, i) {
			return e
		}
		q[i], q[child] = q[child], q[i]
		i = child
	}
}
