//go:build !nodl

package ibv

import (
	"math/bits"
	"sync"
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
	most  int        // SGEs of a request
	sges  []cSGE     // as many for each request
	fn    uintptr    // post_send or post_recv
	args  [3]uintptr // of it
}

func (p *poster[WR]) prepare(fn, qp uintptr, most int) (err error) {
	size := uint64(unsafe.Sizeof(*new(WR)))
	if p.block, err = memory.Alloc(8 + postBatch*(size+uint64(most)*uint64(sgeSize))); err != nil {
		return err
	}
	first := p.block.Addr() + 8
	p.bad, p.fn, p.args = at[uintptr](addr(p.block)), fn, [3]uintptr{qp, uintptr(first), addr(p.block)}
	p.wrs, p.sges, p.most = memory.Slice[WR](first, postBatch), memory.Slice[cSGE](first+postBatch*size, postBatch*most), most
	return nil
}

// list writes the SGEs of request i, and returns their address.
func (p *poster[WR]) list(i int, sgl []verbs.SGE) uintptr {
	sges := p.sges[i*p.most:]
	for j, s := range sgl {
		sges[j] = cSGE{s.Addr, s.Length, s.LKey}
	}
	return p.args[1] + postBatch*unsafe.Sizeof(*new(WR)) + uintptr(i*p.most)*sgeSize
}

// post writes requests, each in its place and linked to the one before it, and hands
// them to C in batches. It returns how many were taken: of a batch none if the driver
// does not name the bad one.
func (p *poster[WR]) post(q *qp, what string, wrs []verbs.WorkRequest, write func(i int, from *verbs.WorkRequest) error) (done int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := q.live(); err != nil {
		return 0, err
	}
	for done < len(wrs) && err == nil {
		batch := 0
		for batch < min(postBatch, len(wrs)-done) {
			if err = write(batch, &wrs[done+batch]); err != nil {
				break
			}
			batch++
		}
		if batch == 0 {
			break
		}
		*p.bad = 0
		r, _, _ := purego.SyscallN(p.fn, p.args[:]...)
		if e := result(r); e != 0 {
			if bad := int(*p.bad-p.args[1]) / int(unsafe.Sizeof(*new(WR))); *p.bad >= p.args[1] && bad < batch {
				done += bad
			}
			return done, failed(e, "QP %s: %s", verbs.Hex(q.num), what)
		}
		done += batch
	}
	return done, err
}

func (q *qp) PostSend(wrs []verbs.WorkRequest) (int, error) {
	return q.send.post(q, "post send (ibv_post_send)", wrs, q.writeSend)
}

// writeSend writes a request. What no device takes is refused here, since not every
// driver looks: some queue a request in any state and fail behind it.
func (q *qp) writeSend(i int, from *verbs.WorkRequest) error {
	if _, err := verbs.CheckSend(q.num, verbs.QPState(q.state.Load()), &q.init.Cap, 0, from); err != nil {
		return err
	}
	wr := &q.send.wrs[i]
	if wr.next = 0; i > 0 {
		q.send.wrs[i-1].next = q.send.args[1] + uintptr(i)*sendWRSize
	}
	wr.id, wr.sgList, wr.numSGE = from.ID, q.send.list(i, from.SGL), int32(len(from.SGL))
	wr.opcode, wr.flags, wr.imm = uint32(from.Opcode), uint32(from.Flags), bits.ReverseBytes32(from.Imm)
	wr.remoteAddr = from.RemoteAddr
	if from.IsAtomic() {
		wr.compareAdd, wr.swap, wr.atomicRKey = from.CompareAdd, from.Swap, from.RKey
	} else {
		wr.compareAdd = uint64(from.RKey)
	}
	return nil
}

func (q *qp) PostRecv(wrs []verbs.WorkRequest) (int, error) {
	return q.recv.post(q, "post receive (ibv_post_recv)", wrs, q.writeRecv)
}

func (q *qp) writeRecv(i int, from *verbs.WorkRequest) error {
	if err := verbs.CheckRecv(q.num, verbs.QPState(q.state.Load()), &q.init.Cap, 0, from); err != nil {
		return err
	}
	if i > 0 {
		q.recv.wrs[i-1].next = q.recv.args[1] + uintptr(i)*recvWRSize
	}
	q.recv.wrs[i] = cRecvWR{id: from.ID, sgList: q.recv.list(i, from.SGL), numSGE: int32(len(from.SGL))}
	return nil
}
