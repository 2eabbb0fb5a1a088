// Package watch has a queue pair that remembers what passes through it and what the verbs
// do not tell: how much is posted, what the first failed request asked for, and the PSNs
// that it began with.
package watch

import (
	"math/bits"
	"sync"
	"time"

	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// QP is a queue pair that is watched. Whoever changes it, and however, does it through
// the watch.
type QP struct {
	verbs.QP
	num uint32 // of QP

	change          sync.Mutex // held over a change of the queue pair and the note of it; outside mu
	mu              sync.Mutex // guards the following; never held while the device is called
	sends, receives fifo
	known           Known // but for what is posted
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

// New watches a queue pair, which was created with queues of that size.
func New(qp verbs.QP, cap verbs.QPCap) *QP {
	return &QP{QP: qp, num: qp.Num(), sends: newFIFO(cap.MaxSendWR), receives: newFIFO(cap.MaxRecvWR)}
}

// Modify implements verbs.QP.
func (w *QP) Modify(a verbs.QPAttr, mask verbs.AttrMask) error {
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
		base = Counters(list)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case to == verbs.StateReset:
		w.sends.clear()
		w.receives.clear()
		w.known = Known{Began: w.known.Began}
	case to == verbs.StateErr && before.State != to:
		w.known.Killed = true
	}
	if base != nil {
		w.known.Counters, w.known.Began = base, time.Now()
	}
	if mask&verbs.AttrRQPSN != 0 {
		w.known.RQFirst = new(a.RQPSN)
	}
	if mask&verbs.AttrSQPSN != 0 {
		w.known.SQFirst = new(a.SQPSN)
	}
	return nil
}

// Losses implements verbs.LossCounter as far as the queue pair does.
func (w *QP) Losses() (l verbs.Losses, counted bool) {
	if c, is := w.QP.(verbs.LossCounter); is {
		return c.Losses()
	}
	return l, false
}

// PostSend implements verbs.QP. What is posted is noted before: its completion
// may be polled at once.
func (w *QP) PostSend(wrs []verbs.WorkRequest) (int, error) {
	w.note(&w.sends, wrs)
	n, err := w.QP.PostSend(wrs)
	w.unnote(&w.sends, len(wrs)-n)
	return n, err
}

// PostRecv implements verbs.QP.
func (w *QP) PostRecv(wrs []verbs.WorkRequest) (int, error) {
	w.note(&w.receives, wrs)
	n, err := w.QP.PostRecv(wrs)
	w.unnote(&w.receives, len(wrs)-n)
	return n, err
}

func (w *QP) note(f *fifo, wrs []verbs.WorkRequest) {
	w.mu.Lock()
	for i := range wrs {
		f.push(&wrs[i])
	}
	w.mu.Unlock()
}

func (w *QP) unnote(f *fifo, refused int) {
	if refused > 0 {
		w.mu.Lock()
		f.tail = max(f.head, f.tail-refused)
		w.mu.Unlock()
	}
}

// Completed takes note of a completion that was polled, and tells whether it is one of
// this queue pair. It allocates nothing for one that succeeded.
func (w *QP) Completed(wc *verbs.Completion) bool {
	if w.num != wc.QPN {
		return false
	}
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
	if traffic := &w.known.Traffic; wc.Status == verbs.Success {
		if queue == diagnose.ReceiveQueue {
			traffic.Receives++
			traffic.ReceivedBytes += uint64(wc.ByteLen)
		} else if i >= 0 {
			traffic.Sends++
			traffic.SentBytes += f.at(i).length
		}
	}
	first := w.known.First
	if wc.Status == verbs.Success || first != nil && (wc.Status == verbs.FlushError || first.Status != uint32(verbs.FlushError)) {
		return true
	}
	var q request
	if i >= 0 {
		q = *f.at(i)
	}
	first = &diagnose.Failure{
		Status: uint32(wc.Status), Text: wc.Status.Err().Error(), WRID: wc.ID, Queue: queue,
		Length: q.length, Addr: q.addr, LKey: q.lkey, RemoteAddr: q.remote, RKey: q.rkey,
	}
	if queue == diagnose.SendQueue {
		first.Opcode = diagnose.Is(q.op)
	}
	w.known.First = first
	return true
}

// Known is what is known of a queue pair at one moment, since RESET.
type Known struct {
	Sends, Receives  int               // posted and not completed
	First            *diagnose.Failure // that says something: a flush only if nothing else failed
	SQFirst, RQFirst *uint32           // the PSNs as RTS and RTR were given them; nil before
	Killed           bool              // Modify took it to ERR: no failure did
	Counters         map[string]uint64 // the port's when the queue pair came to RTR; nil before
	Began            time.Time         // when that was
	Traffic          diagnose.Traffic
}

// Query returns what a queue pair says, and what its watch knew at that moment.
func Query(qp verbs.QP) (attr verbs.QPAttr, init verbs.QPInitAttr, known Known, err error) {
	if w, ok := qp.(*QP); ok {
		w.change.Lock()
		defer w.change.Unlock()
		defer func() { known = w.Known() }() // last: a queue pair in ERR has its failure noted by then
	}
	attr, init, err = qp.Query()
	return attr, init, known, err
}

// Known returns what is known now.
func (w *QP) Known() Known {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.known
	known.Sends, known.Receives = w.sends.posted(), w.receives.posted()
	return known
}

// Counters are counters by name.
func Counters(list []verbs.Counter) map[string]uint64 {
	m := make(map[string]uint64, len(list))
	for _, c := range list {
		m[c.Name] = c.Value
	}
	return m
}

// Prober returns what a queue pair, watched or not, probes with, if it can.
func Prober(qp verbs.QP) (verbs.Prober, bool) {
	if w, watched := qp.(*QP); watched {
		qp = w.QP
	}
	p, ok := qp.(verbs.Prober)
	return p, ok
}
