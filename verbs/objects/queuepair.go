package objects

import (
	"fmt"

	"ringcli/verbs"
)

// QueuePair is what a queue pair holds of other objects, which are not closed before
// it. A provider's QP embeds it.
type QueuePair struct {
	domain         *Domain
	SendCQ, RecvCQ *CQ
}

// Prepare tells whether there can be such a queue pair in the domain. Retain comes next.
func (p *Domain) Prepare(a *verbs.QPInitAttr) (q QueuePair, err error) {
	if p.closed.Load() {
		return q, fmt.Errorf("create queue pair: protection domain: %w", verbs.ErrClosed)
	}
	send, ok1 := a.SendCQ.(*CQ)
	recv, ok2 := a.RecvCQ.(*CQ)
	if !ok1 || !ok2 || send.ctx != p.ctx || recv.ctx != p.ctx {
		return q, fmt.Errorf("create queue pair: %w: both completion queues must be of the same context", verbs.ErrInvalid)
	}
	return QueuePair{p, send, recv}, verbs.CheckQP(a, p.ctx.limits)
}

// Retain keeps the domain and the completion queues from being closed.
func (q *QueuePair) Retain() { q.count(1) }

// Release undoes Retain.
func (q *QueuePair) Release() { q.count(-1) }

// count counts the queue pair; one completion queue counts it once a side.
func (q *QueuePair) count(n int64) {
	q.domain.children.Add(n)
	q.SendCQ.users.Add(n)
	q.RecvCQ.users.Add(n)
}
