//go:build !nodl

package ibv

import (
	"sync"

	"github.com/ebitengine/purego"

	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// postBatch is how many requests one call of ibv_post_send takes at most: the
// chains that collectives post are shorter.
const postBatch = 32

// sender is where send requests are written for C.
type sender struct {
	mu    sync.Mutex // guards posting, and all below
	block *memory.Block
	wrs   []cSendWR
	sges  []cSGE // as many for each request as the queue pair takes
	bad   *uintptr
	args  [3]uintptr // of post_send
}

// receiver is the same for receive requests.
type receiver struct {
	mu    sync.Mutex
	block *memory.Block
	wrs   []cRecvWR
	sges  []cSGE
	bad   *uintptr
	args  [3]uintptr
}

// room is memory for a batch: the pointer to the bad request, requests, SGEs.
func room(q *qp, wrSize uintptr, sges int) (block *memory.Block, args [3]uintptr, sgesAt uint64, err error) {
	block, err = memory.Alloc(8 + postBatch*(uint64(wrSize)+uint64(sges)*uint64(sgeSize)))
	if err != nil {
		return nil, args, 0, err
	}
	return block, [3]uintptr{q.handle, addr(block) + 8, addr(block)}, block.Addr() + 8 + postBatch*uint64(wrSize), nil
}

func (s *sender) prepare(q *qp) error {
	n := q.init.Cap.MaxSendSGE
	block, args, sges, err := room(q, sendWRSize, n)
	if err != nil {
		return err
	}
	s.block, s.args, s.bad = block, args, at[uintptr](addr(block))
	s.wrs, s.sges = memory.Slice[cSendWR](block.Addr()+8, postBatch), memory.Slice[cSGE](sges, postBatch*n)
	return nil
}

func (r *receiver) prepare(q *qp) error {
	n := q.init.Cap.MaxRecvSGE
	block, args, sges, err := room(q, recvWRSize, n)
	if err != nil {
		return err
	}
	r.block, r.args, r.bad = block, args, at[uintptr](addr(block))
	r.wrs, r.sges = memory.Slice[cRecvWR](block.Addr()+8, postBatch), memory.Slice[cSGE](sges, postBatch*n)
	return nil
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
			*s.bad = 0
			r, _, _ := purego.SyscallN(q.pd.ctx.ops.postSend, s.args[:]...)
			if e := result(r); e != 0 {
				done += badIndex(*s.bad, s.args[1], sendWRSize, batch)
				return done, failed(e, "QP %s: post send (ibv_post_send)", hex(q.num))
			}
		}
		if done += batch; reason != nil {
			return done, reason
		}
	}
	return done, nil
}

func element(s *verbs.SGE) cSGE { return cSGE{s.Addr, s.Length, s.LKey} }

// badIndex is the index of the bad request; 0 if the driver names none.
func badIndex(bad, first, size uintptr, batch int) int {
	if bad < first || bad >= first+uintptr(batch)*size {
		return 0
	}
	return int((bad - first) / size)
}

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
			*p.bad = 0
			r, _, _ := purego.SyscallN(q.pd.ctx.ops.postRecv, p.args[:]...)
			if e := result(r); e != 0 {
				done += badIndex(*p.bad, p.args[1], recvWRSize, batch)
				return done, failed(e, "QP %s: post receive (ibv_post_recv)", hex(q.num))
			}
		}
		if done += batch; reason != nil {
			return done, reason
		}
	}
	return done, nil
}
