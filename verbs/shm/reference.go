package shm

import (
	"runtime"
	"sync/atomic"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/objects"
)

// cursor is a place in a scatter/gather list.
type cursor struct {
	i   int    // element
	off uint32 // bytes into it
}

// element returns the element that the cursor stands in, with something left of
// it, and how much is behind the cursor.
func (c *cursor) element(sgl []verbs.SGE) (verbs.SGE, uint32) {
	for c.i < len(sgl) && c.off == sgl[c.i].Length {
		c.i, c.off = c.i+1, 0
	}
	if c.i == len(sgl) {
		return verbs.SGE{}, 0
	}
	return sgl[c.i], c.off
}

// next returns up to n bytes that lie in one piece, and steps over them.
func (c *cursor) next(sgl []verbs.SGE, n int) []byte {
	sge, off := c.element(sgl)
	k := min(n, int(sge.Length-off))
	c.off += uint32(k)
	return memory.Bytes(sge.Addr+uint64(off), k)
}

// gather copies the next len(dst) bytes of the list.
func (c *cursor) gather(sgl []verbs.SGE, dst []byte) {
	for len(dst) > 0 {
		src := c.next(sgl, len(dst))
		if len(src) == 0 {
			return
		}
		dst = dst[copy(dst, src):]
	}
}

// destination is where bytes go: a list of elements, or an address.
type destination struct {
	sgl  []verbs.SGE
	at   *cursor // nil: addr
	addr uint64
}

// next returns where up to n bytes go, and steps over them.
func (p *destination) next(n int) []byte {
	if p.at != nil {
		return p.at.next(p.sgl, n)
	}
	b := memory.Bytes(p.addr, n)
	p.addr += uint64(n)
	return b
}

func (p *destination) scatter(src []byte) {
	for len(src) > 0 {
		dst := p.next(len(src))
		if len(dst) == 0 {
			return
		}
		src = src[copy(dst, src):]
	}
}

// copyOut copies n bytes that the peer refers to, out of its arena (src) or at an
// address of its process. It takes the claim of slot number number for that, and
// leaves it as next, or open if it has not copied.
func (q *qp) copyOut(to destination, word *uint32, number uint64, next uint32, kind uint8, src []byte, addr uint64, n int) copyResult {
	if !atomic.CompareAndSwapUint32(word, claim(number, open), claim(number, copying)) {
		return wasRevoked
	}
	var err error
	if kind == inArena {
		err = guarded(&to, src)
	}
	for kind == inProcess && n > 0 && err == nil {
		dst := to.next(n)
		if len(dst) == 0 {
			break
		}
		err = q.peer.process.ReadMemory(dst, addr)
		addr += uint64(len(dst))
		n -= len(dst)
	}
	if err != nil {
		next = open
	}
	if !atomic.CompareAndSwapUint32(word, claim(number, copying), claim(number, next)) {
		return wasRevoked
	}
	if err == nil {
		q.doubtful = 0
		return copied
	}
	// The memory of a process that is being killed goes before the process does.
	if now := objects.Clock(); kind == inProcess && q.doubtful == 0 {
		q.doubtful = now + int64(exitGrace)
	} else if kind == inArena || !q.peer.process.Gone() && now > q.doubtful {
		return unreadable
	}
	return ownerGone
}

// exitGrace is how long a process may take to end from its first unreadable byte on.
const exitGrace = 200 * time.Millisecond

// copyResult is what became of a copy by reference.
type copyResult uint8

const (
	copied copyResult = iota
	wasRevoked
	unreadable
	ownerGone // its process ends, it seems: a timer will notice, as on a wire
)

// guarded copies out of another process's arena, which a faulty peer may have
// taken away.
func guarded(to *destination, src []byte) (err error) {
	defer memory.Guard()()
	defer func() { err = memory.Fault(recover()) }()
	to.scatter(src)
	return nil
}

// collect takes the answer to a READ: its data, from where the peer says that they
// are. finished is false if more of what a reference covers is still to be copied.
func (q *qp) collect(w *sendWQE, s *slot, f *flight) (status verbs.Status, finished bool) {
	to := destination{sgl: w.SGL, at: &w.at}
	rest := w.length - w.moved
	kind, length, data := s.kind, s.length, s.data
	switch {
	case kind == inSlot && rest <= inlineBytes:
		to.scatter(memory.AsBytes(data[:])[:rest])
		w.moved += rest
		return verbs.Success, true
	case kind == inStage && length > 0 && length <= f.room && length <= rest:
		to.scatter(q.own.stage[f.at:][:length])
		w.moved += length
		return verbs.Success, true
	case kind == inArena || kind == inProcess:
	default:
		return verbs.BadResponseError, false
	}
	n := min(rest, referenceMost)
	behind := uint64(w.moved - f.base)
	var src []byte
	if kind == inArena {
		view, ok := q.peer.process.View(data[0])
		if !ok {
			return verbs.Success, false
		}
		from := data[1] + behind
		if from < behind || uint64(len(view)) < from || uint64(n) > uint64(len(view))-from {
			return verbs.BadResponseError, false
		}
		src = view[from:][:n]
	}
	next := uint32(done)
	if n < rest {
		next = open
	}
	mark := w.at
	switch q.copyOut(to, &s.claim, q.acked, next, kind, src, data[0]+behind, int(n)) {
	case wasRevoked, unreadable:
		return verbs.RemoteAccessError, false
	case ownerGone:
		w.at = mark
		return verbs.Success, false
	}
	w.moved += n
	return verbs.Success, next == done
}

// revoke takes back what slot number n refers to. If the peer is copying, it waits until that is
// over: for a piece, so not long, unless the peer is stopped or dead.
func (q *qp) revoke(word *uint32, n uint64) {
	const stopped = 2 * time.Second
	var deadline time.Time
	for !atomic.CompareAndSwapUint32(word, claim(n, open), claim(n, revoked)) {
		if atomic.LoadUint32(word) != claim(n, copying) {
			return
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(stopped)
		}
		if q.peer.process.Gone() || time.Now().After(deadline) {
			// What it copies from now on it finds to be worth nothing.
			atomic.CompareAndSwapUint32(word, claim(n, copying), claim(n, revoked))
			return
		}
		runtime.Gosched()
	}
}

// revokeSends takes back all that requests refer to.
func (q *qp) revokeSends() {
	for n := q.acked; n < q.posted; n++ {
		if f := q.flight(n); f.source != 0 {
			f.source = 0
			q.revoke(&q.own.slot(n).claim, n)
		}
	}
}

// revokeGrants takes back what READs were granted of the region of a key; all if it is 0.
func (q *qp) revokeGrants(key uint32) {
	for i := range q.granted {
		if g := q.granted[i]; g.rkey != 0 && (key == 0 || g.rkey == key) {
			q.granted[i] = grant{}
			q.revoke(&q.peer.slots[i].claim, g.slot)
		}
	}
}

// withdraw is told that a key is dead: nothing may touch its memory any more, on
// the peer's behalf or our own. A request that still needs it fails.
func (q *qp) withdraw(key uint32) {
	q.revokeGrants(key)
	if q.peer == nil || q.state != verbs.StateRTS && q.state != verbs.StateSQD {
		return
	}
	q.reap()
	hit := false
	for n := q.acked; n < q.posted; n++ {
		if f := q.flight(n); f.source == key {
			q.wqe(f.wqe).fault, hit = verbs.LocalProtectionError, true
		}
	}
	for n := q.sqHead; n < q.sqTail; n++ {
		w := q.wqe(n)
		whole := w.moved == w.length && !w.IsAtomic() // nothing more is read or written
		if !w.begun || w.done || w.isInline() || whole {
			continue
		}
		for i := range w.SGL {
			if w.SGL[i].LKey == key && w.SGL[i].Length > 0 {
				w.fault, hit = verbs.LocalProtectionError, true
			}
		}
	}
	if hit {
		q.becomeErr()
	}
}

// covers reports whether the lkeys of the first n bytes of a list are good.
func covers(p *objects.Domain, sgl []verbs.SGE, n uint64, write bool) bool {
	for i := range sgl {
		k := min(n, uint64(sgl[i].Length))
		if k > 0 && !p.Local(sgl[i].LKey, sgl[i].Addr, uint32(k), write) {
			return false
		}
		n -= k
	}
	return true
}
