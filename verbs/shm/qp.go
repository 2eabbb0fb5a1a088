package shm

import (
	"context"
	"fmt"
	"log/slog"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/objects"
	"ringcli/verbs/shm/memfd"
)

// qp is a queue pair.
type qp struct {
	objects.QueuePair
	ctx        *Context
	deadline   atomic.Int64 // when progress is due though nobody wakes us; 0: never
	connecting sync.WaitGroup
	look       chan struct{} // capacity 1: has the goroutine look for the peer now
	looks      atomic.Uint64 // how often it has looked

	mu        sync.Mutex         // guards all below, and what this end writes into both blocks
	looking   bool               // a goroutine looks for the peer
	stopped   context.CancelFunc // ends it; nil if there never was one
	conn      connection
	requester requester
	responder responder
}

// connection is what both halves of a queue pair work on.
type connection struct {
	qp       *objects.QueuePair
	ctx      *Context
	state    verbs.QPState
	attr     verbs.QPAttr
	memory   *memfd.Arena // own's; nil in RESET
	own      *block
	peer     *peer // the peer, once it is mapped
	doubtful int64 // when memory that the peer refers to and cannot be read is no more excused; 0: it can
	counters counters
}

func (c *connection) mtu() uint32 { return uint32(c.attr.PathMTU.Bytes()) }

func (c *connection) enter(s verbs.QPState) {
	c.state = s
	if c.own != nil {
		c.own.setState(s)
	}
}

// peer is the peer of a queue pair.
type peer struct {
	*remote
	*block
	id uint64 // of the peer's block
}

func (c *Context) CreateQP(p *objects.Domain, a verbs.QPInitAttr) (verbs.QP, error) {
	q := &qp{ctx: c, look: make(chan struct{}, 1)}
	if err := q.Prepare(p, &a); err != nil {
		return nil, err
	}
	q.conn = connection{qp: &q.QueuePair, ctx: c}
	q.requester.conn, q.responder.conn = &q.conn, &q.conn
	q.requester.sq = make([]sendWQE, ringSize(a.Cap.MaxSendWR))
	q.responder.rq = make([]recvWQE, ringSize(a.Cap.MaxRecvWR))
	if err := q.Retain(len(q.requester.sq)); err != nil {
		return nil, err
	}
	c.add(q)
	q.TraceCreated(slog.String("gid", verbs.GID(c.key).String()))
	return q, nil
}

func ringSize(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }

// Query implements verbs.QP. Requests have no PSNs here: the first ones stay.
func (q *qp) Query() (verbs.QPAttr, verbs.QPInitAttr, error) {
	if err := q.Live(); err != nil {
		return verbs.QPAttr{}, verbs.QPInitAttr{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.conn.attr
	a.State, a.CurState, a.Cap = q.conn.state, q.conn.state, q.InitAttr.Cap
	return a, q.InitAttr, nil
}

func (q *qp) Modify(a verbs.QPAttr, mask verbs.AttrMask) error {
	left, err := q.modify(&a, mask)
	left.release()
	return err
}

// modify returns the peer that the queue pair has let go of, which must be left
// without a lock.
func (q *qp) modify(a *verbs.QPAttr, mask verbs.AttrMask) (left *peer, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.Live(); err != nil {
		return nil, err
	}
	cur := q.conn.state
	if err := verbs.CheckModify(q.QPN, cur, a, mask, &verbs.ModifyPath{Device: &limits, Port: &port}); err != nil {
		return nil, err
	}
	if mask&verbs.AttrAV != 0 && !a.AH.IsGlobal {
		e := &verbs.ModifyError{QPN: q.QPN, From: cur, To: a.State, Attr: *a, Mask: mask}
		return nil, e.Blame(verbs.AttrAV, "ah_attr.is_global", 0, ": a peer of this host is named by its GID")
	}
	if mask&verbs.AttrState == 0 {
		a.State = cur
	}
	if cur == verbs.StateReset && a.State == verbs.StateInit {
		if err := q.publish(); err != nil {
			return nil, err
		}
	}
	q.conn.attr.Set(a, mask)
	if a.State != cur {
		left = q.become(a.State)
	}
	if q.conn.own != nil {
		atomic.StoreUint32(&q.conn.own.rnrTimer, uint32(q.conn.attr.MinRNRTimer))
	}
	objects.TraceModified(q.QPN, cur, q.conn.state, a, mask)
	q.progress(true)
	return left, nil
}

// become enters a state that Modify asked for.
func (q *qp) become(s verbs.QPState) (left *peer) {
	switch s {
	case verbs.StateReset:
		left = q.unpublish()
		q.conn.attr = verbs.QPAttr{}
	case verbs.StateErr:
		q.becomeErr()
	case verbs.StateRTR:
		q.conn.own.mtu, q.conn.own.rqPSN = uint32(q.conn.attr.PathMTU), q.conn.attr.RQPSN
		q.conn.own.destKey, q.conn.own.destQPN = memfd.Key(q.conn.attr.AH.GRH.DGID), q.conn.attr.DestQPN
		q.conn.enter(s)
		q.connect()
	default:
		q.conn.enter(s)
	}
	return left
}

// publish gives the queue pair a block, and peers a way to find it.
func (q *qp) publish() error {
	m, err := memfd.Create(blockSize)
	if err != nil {
		return fmt.Errorf("QP 0x%06x: control memory: %w: %w", q.QPN, verbs.ErrNoMemory, err)
	}
	q.conn.memory, q.conn.own = m, blockOf(m.Addr())
	atomic.StoreUint64(&q.ctx.own.blocks[q.QPN%rows], m.ID())
	return nil
}

// unpublish takes the block back and forgets all that passed through it.
func (q *qp) unpublish() (left *peer) {
	q.responder.acknowledge()
	q.requester.revokeAll()
	q.responder.revoke(0)
	left = q.conn.peer
	q.conn.peer, q.looking = nil, false
	if q.stopped != nil {
		q.stopped()
		q.stopped = nil
	}
	q.requester.reset()
	q.responder.reset()
	q.conn.doubtful = 0
	q.deadline.Store(0)
	q.conn.state = verbs.StateReset
	if q.conn.memory != nil {
		atomic.StoreUint64(&q.ctx.own.blocks[q.QPN%rows], 0)
		atomic.StoreUint32(&q.conn.own.state, 0)
		if left != nil {
			left.dir.wake() // to let go of the block
		}
		_ = q.conn.memory.Free() // of an arena that is there, it does not fail
		q.conn.memory, q.conn.own = nil, nil
	}
	return left
}

// release gives the block back, and the remote Context.
func (p *peer) release() {
	if p != nil {
		p.process.Drop(p.id)
		p.remote.release()
	}
}

// settle moves the queue pair to ERR if one of its halves has failed.
func (q *qp) settle() {
	if q.requester.failed || q.responder.failed {
		q.requester.failed, q.responder.failed = false, false
		q.becomeErr()
	}
}

// becomeErr flushes both queues. What the peer was granted it may still copy.
func (q *qp) becomeErr() {
	if q.conn.state == verbs.StateErr {
		return
	}
	q.responder.acknowledge()
	q.conn.enter(verbs.StateErr)
	if q.conn.peer != nil {
		q.conn.peer.dir.wake() // its timer may have to run now
	}
	q.requester.revokeAll()
	q.deadline.Store(0)
	q.requester.flush()
	q.responder.flush()
}

// Close implements verbs.QP. Nothing is flushed, as ibv_destroy_qp has it.
func (q *qp) Close() error {
	q.mu.Lock()
	if !q.Shut() {
		q.mu.Unlock()
		return nil
	}
	left := q.unpublish()
	q.mu.Unlock()
	q.connecting.Wait()
	left.release()
	q.ctx.remove(q)
	return q.Release()
}

func (q *qp) PostSend(wrs []verbs.WorkRequest) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ; n < len(wrs); n++ {
		if err = q.requester.post(&wrs[n]); err != nil {
			break
		}
	}
	if q.requester.pump() {
		q.conn.peer.dir.wake()
	}
	q.settle()
	q.responder.acknowledge() // behind the requests: the peer waits for these
	q.expire()
	return n, err
}

func (q *qp) PostRecv(wrs []verbs.WorkRequest) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ; n < len(wrs); n++ {
		if err = q.responder.post(&wrs[n]); err != nil {
			break
		}
	}
	if q.responder.stalled != 0 && n > 0 {
		q.progress(false)
	}
	return n, err
}

// withdraw is told that a key is dead: nothing may touch its memory any more, on
// the peer's behalf or our own. A request that still needs it fails.
func (q *qp) withdraw(key uint32) {
	q.responder.revoke(key)
	if q.conn.peer == nil || q.conn.state != verbs.StateRTS && q.conn.state != verbs.StateSQD {
		return
	}
	q.requester.reap()
	q.settle()
	if q.requester.withdraw(key) {
		q.becomeErr()
	}
}

// How often the peer is looked for: at once, and soon a few times, since most
// come at the same time; then less often, and when a request waits.
const (
	soon      = time.Millisecond
	soonLooks = 50
	everyLook = 20 * time.Millisecond
)

// connect looks for the peer until it is found: in a goroutine, because a process
// may take its time to answer. The lock is held.
func (q *qp) connect() {
	ctx, cancel := context.WithCancel(context.Background())
	q.stopped, q.looking = cancel, true
	q.connecting.Go(func() {
		defer cancel()
		for n := 0; !q.findPeer(ctx); n++ {
			q.looks.Add(1)
			wait := soon
			if n > soonLooks {
				wait = everyLook
			}
			select {
			case <-ctx.Done():
				return
			case <-q.look:
			case <-time.After(wait):
			}
		}
		q.ctx.own.wake()
	})
}

// lookAgain looks for the peer's next block if the one that was found is gone: it
// has been through RESET since, and nothing has passed between the two.
func (q *qp) lookAgain() {
	if q.conn.state.Receives() && atomic.LoadUint32(&q.conn.peer.state) == 0 && !q.conn.peer.process.Gone() {
		q.connect()
	}
}

// mayRead is false in tests of what happens where the system forbids
// process_vm_readv.
var mayRead = true

// findPeer maps the peer's block and says so in the own one. It reports whether there
// is nothing left to look for.
func (q *qp) findPeer(ctx context.Context) bool {
	q.mu.Lock()
	key, row := memfd.Key(q.conn.attr.AH.GRH.DGID), q.conn.attr.DestQPN%rows
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, mapping)
	defer cancel()
	n, err := q.ctx.attach(ctx, key)
	if err != nil {
		return ctx.Err() == context.Canceled
	}
	id := atomic.LoadUint64(&n.dir.blocks[row])
	if id == 0 {
		n.release()
		return false
	}
	addr, length, err := n.process.Hold(ctx, id)
	if err != nil {
		n.release()
		return false
	}
	p := &peer{remote: n, id: id}
	if length != blockSize {
		p.release()
		return false
	}
	p.block = blockOf(addr)
	q.mu.Lock()
	if ctx.Err() != nil { // RESET or closed meanwhile
		q.mu.Unlock()
		p.release()
		return true
	}
	old := q.conn.peer
	q.conn.peer, q.looking = p, false
	if mayRead && n.process.CanReadMemory() {
		q.conn.own.readable = 1
	}
	atomic.StoreUint64(&q.conn.own.bound, id)
	q.progress(true)
	p.dir.wake() // with the lock: once it is released, RESET may release p
	q.mu.Unlock()
	old.release()
	return true
}
