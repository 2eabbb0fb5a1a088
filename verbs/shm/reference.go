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
func (c *connection) copyOut(to destination, word *uint32, number uint64, next uint32, kind uint8, src []byte, addr uint64, n int) copyResult {
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
		err = c.peer.process.ReadMemory(dst, addr)
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
		c.doubtful = 0
		return copied
	}
	// The memory of a process that is being killed goes before the process does.
	if now := objects.Clock(); kind == inProcess && c.doubtful == 0 {
		c.doubtful = now + int64(exitGrace)
	} else if kind == inArena || !c.peer.process.Gone() && now > c.doubtful {
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
func (r *requester) collect(w *sendWQE, s *slot, f *flight) (status verbs.Status, finished bool) {
	to := destination{sgl: w.SGL, at: &w.at}
	rest := w.length - w.moved
	kind, length, data := s.kind, s.length, s.data
	switch {
	case kind == inSlot && rest <= inlineBytes:
		to.scatter(memory.AsBytes(data[:])[:rest])
		w.moved += rest
		return verbs.Success, true
	case kind == inStage && length > 0 && length <= f.room && length <= rest:
		to.scatter(r.conn.own.stage[f.at:][:length])
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
		view, ok := r.conn.peer.process.View(data[0])
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
	switch r.conn.copyOut(to, &s.claim, r.acked, next, kind, src, data[0]+behind, int(n)) {
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
func (c *connection) revoke(word *uint32, n uint64) {
	const stopped = 2 * time.Second
	var deadline time.Time
	for !atomic.CompareAndSwapUint32(word, claim(n, open), claim(n, revoked)) {
		if atomic.LoadUint32(word) != claim(n, copying) {
			return
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(stopped)
		}
		if c.peer.process.Gone() || time.Now().After(deadline) {
			// What it copies from now on it finds to be worth nothing.
			atomic.CompareAndSwapUint32(word, claim(n, copying), claim(n, revoked))
			return
		}
		runtime.Gosched()
	}
}

// revokeAll takes back all that requests refer to.
func (r *requester) revokeAll() {
	for n := r.acked; n < r.posted; n++ {
		if f := r.flight(n); f.source != 0 {
			f.source = 0
			r.conn.revoke(&r.conn.own.slot(n).claim, n)
		}
	}
}

// revoke takes back what READs were granted of the region of a key; all if it is 0.
func (r *responder) revoke(key uint32) {
	for i := range r.granted {
		if g := r.granted[i]; g.rkey != 0 && (key == 0 || g.rkey == key) {
			r.granted[i] = grant{}
			r.conn.revoke(&r.conn.peer.slots[i].claim, g.slot)
		}
	}
}

// withdraw notes the requests that still need memory whose key is dead, and reports whether
// there are any.
func (r *requester) withdraw(key uint32) (hit bool) {
	for n := r.acked; n < r.posted; n++ {
		if f := r.flight(n); f.source == key {
			r.wqe(f.wqe).fault, hit = verbs.LocalProtectionError, true
		}
	}
	for n := r.sqHead; n < r.sqTail; n++ {
		w := r.wqe(n)
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
	return hit
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
