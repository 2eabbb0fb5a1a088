//go:build !nodl

package ibv

import (
	"sync"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"

	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// postBatch is how many requests one call of ibv_post_send takes at most: the
// chains that collectives post are shorter.
const postBatch = 32

// poster is where the requests of one queue of a pair are written for C.
type poster[WR cSendWR | cRecvWR] struct {
	mu    sync.Mutex    // guards posting, and all below
	block *memory.Block // the pointer to the bad request, requests, SGEs
	bad   *uintptr
	wrs   []WR
	sges  []cSGE     // as many for each request as the queue pair takes
	args  [3]uintptr // of post_send or post_recv
}

func (p *poster[WR]) prepare(qp uintptr, sges int) (err error) {
	size := uint64(unsafe.Sizeof(*new(WR)))
	if p.block, err = memory.Alloc(8 + postBatch*(size+uint64(sges)*uint64(sgeSize))); err != nil {
		return err
	}
	first := p.block.Addr() + 8
	p.bad, p.args = at[uintptr](addr(p.block)), [3]uintptr{qp, uintptr(first), addr(p.block)}
	p.wrs, p.sges = memory.Slice[WR](first, postBatch), memory.Slice[cSGE](first+postBatch*size, postBatch*sges)
	return nil
}

// post hands a batch to C, and returns how many requests were taken: none if the
// driver does not name the bad one.
func (p *poster[WR]) post(fn uintptr, batch int) (int, syscall.Errno) {
	*p.bad = 0
	r, _, _ := purego.SyscallN(fn, p.args[:]...)
	e := result(r)
	if e == 0 {
		return batch, 0
	}
	bad := int(*p.bad-p.args[1]) / int(unsafe.Sizeof(*new(WR)))
	if *p.bad < p.args[1] || bad >= batch {
		bad = 0
	}
	return bad, e
}

// PostSend implements verbs.QP.
func (q *qp) PostSend(wrs []verbs.WorkRequest) (int, error) {
	s := &q.send
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := q.live(); err != nil {
		return 0, err
	}
	done := 0
	for done < len(wrs) {
		batch, reason := 0, error(nil)
		for batch < min(postBatch, len(wrs)-done) && reason == nil {
			if reason = q.write(batch, &wrs[done+batch]); reason == nil {
				batch++
			}
		}
		if batch > 0 {
			s.wrs[batch-1].next = 0
			n, e := s.post(q.pd.ctx.ops.postSend, batch)
			if done += n; e != 0 {
				return done, failed(e, "QP %s: post send (ibv_post_send)", hex(q.num))
			}
		}
		if reason != nil {
			return done, reason
		}
	}
	return done, nil
}

func element(s *verbs.SGE) cSGE { return cSGE{s.Addr, s.Length, s.LKey} }

// write puts a request in its place, linked to the next. What no device takes is
// refused here, since not every driver looks: some queue a request in any state and
// fail behind it.
func (q *qp) write(i int, from *verbs.WorkRequest) error {
	limits := &q.init.Cap
	if _, err := verbs.CheckSend(q.num, verbs.QPState(q.state.Load()), limits, 0, from); err != nil {
		return err
	}
	at := i * limits.MaxSendSGE
	for j := range from.SGL {
		q.send.sges[at+j] = element(&from.SGL[j])
	}
	wr := &q.send.wrs[i]
	wr.id, wr.next = from.ID, q.send.args[1]+uintptr(i+1)*sendWRSize
	wr.sgList, wr.numSGE = q.send.args[1]+postBatch*sendWRSize+uintptr(at)*sgeSize, int32(len(from.SGL))
	wr.opcode, wr.flags, wr.imm = uint32(from.Opcode), uint32(from.Flags), bigEndian32(from.Imm)
	wr.remoteAddr = from.RemoteAddr
	if from.IsAtomic() {
		wr.compareAdd, wr.swap, wr.atomicRKey = from.CompareAdd, from.Swap, from.RKey
	} else {
		wr.compareAdd = uint64(from.RKey)
	}
	return nil
}

// PostRecv implements verbs.QP.
func (q *qp) PostRecv(wrs []verbs.WorkRequest) (int, error) {
	p := &q.recv
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := q.live(); err != nil {
		return 0, err
	}
	most := q.init.Cap.MaxRecvSGE
	done := 0
	for done < len(wrs) {
		batch, reason := 0, error(nil)
		for ; batch < min(postBatch, len(wrs)-done); batch++ {
			from := &wrs[done+batch]
			if reason = verbs.CheckRecv(q.num, verbs.QPState(q.state.Load()), &q.init.Cap, 0, from); reason != nil {
				break
			}
			for j := range from.SGL {
				p.sges[batch*most+j] = element(&from.SGL[j])
			}
			p.wrs[batch] = cRecvWR{
				id: from.ID, next: p.args[1] + uintptr(batch+1)*recvWRSize,
				sgList: p.args[1] + postBatch*recvWRSize + uintptr(batch*most)*sgeSize, numSGE: int32(len(from.SGL)),
			}
		}
		if batch > 0 {
			p.wrs[batch-1].next = 0
			n, e := p.post(q.pd.ctx.ops.postRecv, batch)
			if done += n; e != 0 {
				return done, failed(e, "QP %s: post receive (ibv_post_recv)", hex(q.num))
			}
		}
		if reason != nil {
			return done, reason
		}
	}
	return done, nil
}
