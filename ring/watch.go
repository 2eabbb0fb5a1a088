package ring

import (
	"math/bits"
	"sync"
	"time"

	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// watch is a queue pair that remembers what passes through it and what the verbs
// do not tell: how much is posted, what the first failed request asked for, and
// the PSNs that it began with. Whoever changes the queue pair, and however, does
// it through the watch.
type watch struct {
	verbs.QP
	num uint32 // of QP

	change          sync.Mutex // held over a change of the queue pair and the note of it; outside mu
	mu              sync.Mutex // guards the following; never held while the device is called
	sends, receives fifo
	first           *diagnose.Failure // the first that says something: a flush only if nothing else failed
	sqFirst         *uint32           // sq_psn as RTS was given it
	rqFirst         *uint32           // rq_psn as RTR was given it
	killed          bool              // Modify took it to ERR: no failure did
	base            map[string]uint64 // the port's counters at RTR
	began           time.Time         // when that was
}

// request is what is remembered of a work request while it is posted.
type request struct {
	id, addr, length, remote uint64
	lkey, rkey               uint32
	op                       verbs.Opcode
}

// fifo holds what is posted to a queue, oldest first: completions of one queue
// come in order, and every send makes one (SigAll).
type fifo struct {
	entries    []request // as many as a power of two, for at
	head, tail int       // only grow
}

func newFIFO(depth int) fifo {
	return fifo{entries: make([]request, 1<<bits.Len(uint(max(1, depth)-1)))}
}

func (f *fifo) at(i int) *request { return &f.entries[i&(len(f.entries)-1)] }
func (f *fifo) posted() int       { return f.tail - f.head }
func (f *fifo) clear()            { f.head = f.tail }

func (f *fifo) push(wr *verbs.WorkRequest) {
	q := f.at(f.tail)
	*q = request{id: wr.ID, remote: wr.RemoteAddr, rkey: wr.RKey, op: wr.Opcode}
	for i := range wr.SGL {
		q.length += uint64(wr.SGL[i].Length)
	}
	if len(wr.SGL) > 0 {
		q.addr, q.lkey = wr.SGL[0].Addr, wr.SGL[0].LKey
	}
	f.tail++
	if f.posted() > len(f.entries) {
		f.head++ // its completion was polled, and not noted
	}
}

// find returns the place of the oldest request with an ID, or -1.
func (f *fifo) find(id uint64) int {
	for i := f.head; i < f.tail; i++ {
		if f.at(i).id == id {
			return i
		}
	}
	return -1
}

func newWatch(qp verbs.QP, cap verbs.QPCap) *watch {
	return &watch{
		QP:       qp,
		num:      qp.Num(),
		sends:    newFIFO(cap.MaxSendWR),
		receives: newFIFO(cap.MaxRecvWR),
	}
}

// Modify implements verbs.QP.
func (w *watch) Modify(a verbs.QPAttr, mask verbs.AttrMask) error {
	w.change.Lock()
	defer w.change.Unlock()
	before, _, err := w.Query()
	if err != nil {
		return err
	}
	if err := w.QP.Modify(a, mask); err != nil {
		return err
	}
	to := before.State
	if mask&verbs.AttrState != 0 {
		to = a.State
	}
	var base map[string]uint64
	if to == verbs.StateRTR && before.State != to {
		// Counters that cannot be read make no difference to the queue pair.
		list, _ := w.PD().Context().Counters(before.PortNum)
		base = counterMap(list)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case to == verbs.StateReset:
		w.sends.clear()
		w.receives.clear()
		w.first, w.sqFirst, w.rqFirst, w.killed, w.base = nil, nil, nil, false, nil
	case to == verbs.StateErr && before.State != to:
		w.killed = true
	}
	if base != nil {
		w.base, w.began = base, time.Now()
	}
	if mask&verbs.AttrRQPSN != 0 {
		w.rqFirst = new(a.RQPSN)
	}
	if mask&verbs.AttrSQPSN != 0 {
		w.sqFirst = new(a.SQPSN)
	}
	return nil
}

// PostSend implements verbs.QP. What is posted is noted before: its completion
// may be polled at once.
func (w *watch) PostSend(wrs []verbs.WorkRequest) (int, error) {
	w.note(&w.sends, wrs)
	n, err := w.QP.PostSend(wrs)
	w.unnote(&w.sends, len(wrs)-n)
	return n, err
}

// PostRecv implements verbs.QP.
func (w *watch) PostRecv(wrs []verbs.WorkRequest) (int, error) {
	w.note(&w.receives, wrs)
	n, err := w.QP.PostRecv(wrs)
	w.unnote(&w.receives, len(wrs)-n)
	return n, err
}

func (w *watch) note(f *fifo, wrs []verbs.WorkRequest) {
	w.mu.Lock()
	for i := range wrs {
		f.push(&wrs[i])
	}
	w.mu.Unlock()
}

func (w *watch) unnote(f *fifo, refused int) {
	if refused > 0 {
		w.mu.Lock()
		f.tail = max(f.head, f.tail-refused)
		w.mu.Unlock()
	}
}

// completed takes note of a completion that was polled.
func (w *watch) completed(wc *verbs.Completion) {
	w.mu.Lock()
	defer w.mu.Unlock()
	queue, f := diagnose.SendQueue, &w.sends
	switch {
	case wc.Status == verbs.Success && wc.Opcode >= verbs.WCRecv, wc.Status == verbs.LocalLengthError && w.receives.find(wc.ID) >= 0,
		wc.Status != verbs.Success && w.sends.find(wc.ID) < 0:
		queue, f = diagnose.ReceiveQueue, &w.receives
	}
	i := f.find(wc.ID)
	if i >= 0 {
		f.head = i + 1
	}
	if wc.Status == verbs.Success || w.first != nil && (wc.Status == verbs.FlushError || w.first.Status != uint32(verbs.FlushError)) {
		return
	}
	var q request
	if i >= 0 {
		q = *f.at(i)
	}
	w.first = &diagnose.Failure{
		Status: uint32(wc.Status), Text: wc.Status.Err().Error(), WRID: wc.ID, Queue: queue,
		Length: q.length, Addr: q.addr, LKey: q.lkey, RemoteAddr: q.remote, RKey: q.rkey,
	}
	if queue == diagnose.SendQueue {
		w.first.Opcode = diagnose.OpcodeOf(q.op)
	}
}

// watched is what a watch knows at one moment.
type watched struct {
	sends, receives  int
	first            *diagnose.Failure
	sqFirst, rqFirst *uint32
	killed           bool
	base             map[string]uint64
	began            time.Time
}

// queried returns what a queue pair says, and what its watch knew at that moment.
func queried(qp verbs.QP) (attr verbs.QPAttr, init verbs.QPInitAttr, known watched, err error) {
	if w, ok := qp.(*watch); ok {
		w.change.Lock()
		defer w.change.Unlock()
		defer func() { known = w.look() }() // last: a queue pair in ERR has its failure noted by then
	}
	attr, init, err = qp.Query()
	return attr, init, known, err
}

func (w *watch) look() watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	return watched{w.sends.posted(), w.receives.posted(), w.first, w.sqFirst, w.rqFirst, w.killed, w.base, w.began}
}

func counterMap(list []verbs.Counter) map[string]uint64 {
	m := make(map[string]uint64, len(list))
	for _, c := range list {
		m[c.Name] = c.Value
	}
	return m
}

// noted takes note of completions that were polled. It allocates nothing.
func noted(r *Ring, wc []verbs.Completion) {
	for i := range wc {
		if !r.Edge(EdgeID(wc[i].ID >> 48)).noted(&wc[i]) { // its ID is of another making
			_ = r.edges[Left].noted(&wc[i]) || r.edges[Right].noted(&wc[i])
		}
	}
}

// noted takes note of a completion, and tells whether it is one of this edge.
func (e *Edge) noted(wc *verbs.Completion) bool {
	if e == nil {
		return false
	}
	w, ok := e.QP.(*watch)
	if !ok || w.num != wc.QPN {
		return false
	}
	w.completed(wc)
	return true
}
