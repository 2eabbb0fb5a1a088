package verbstest

import (
	"fmt"
	"testing"

	"ringcli/verbs"
)

// Several queue pairs, several contexts, a queue pair to oneself.
func testMany(t *testing.T, h Harness) {
	t.Run("QueuePairs", func(t *testing.T) {
		r := open(t, h, 4<<20, rightsAll)
		var pairs []*pair
		for range 8 {
			pairs = append(pairs, r.connect(r.a, r.b))
		}
		exchange(r, pairs)
	})
	t.Run("Contexts", func(t *testing.T) {
		var pairs []*pair
		var rigs []*rig
		for range 3 {
			r := open(t, h, 4<<20, rightsAll)
			rigs = append(rigs, r)
			pairs = append(pairs, r.connect(r.a, r.b), r.connect(r.b, r.a))
		}
		all := &rig{t: t, h: h} // polls for everybody
		for _, r := range rigs {
			all.queues = append(all.queues, r.queues...)
		}
		for _, l := range pairs {
			l.rig = all
			for _, e := range []*end{l.a, l.b} {
				e.send.rig, e.recv.rig = all, all
			}
		}
		exchange(all, pairs)
	})
	t.Run("OneContext", func(t *testing.T) {
		r := open(t, h, 4<<20, rightsAll)
		exchange(r, []*pair{r.connect(r.a, r.a), r.connect(r.b, r.b)})
	})
	t.Run("ToItself", func(t *testing.T) {
		r := open(t, h, 1<<20, rightsAll)
		c := newConfig(t, h, nil)
		c.A.RQPSN = c.A.SQPSN
		e := r.end(r.a, c, c.A)
		r.address(e, e)
		r.up(e, verbs.StateRTS)
		l := &pair{rig: r, a: e, b: e}
		for i, op := range operations {
			// Source and target are one buffer: they must not overlap.
			fill(e.buf.Bytes()[:5000], uint64(i))
			l.receives(e, 1, 2, e.sge(100000, 5000))
			wr := e.remote(request(op.op, 9, e.sge(0, 5000)), 100000)
			if op.fromB {
				wr = e.remote(request(op.op, 9, e.sge(100000, 5000)), 0)
			}
			l.post(e, wr)
			e.send.one(9, verbs.Success, "%s to itself", op.name)
			l.ok(verify(e.buf.Bytes()[100000:105000], uint64(i)), "%s to itself", op.name)
			if op.recv != 0 {
				e.recv.one(1, verbs.Success, "%s to itself", op.name)
				continue
			}
			l.post(e, send(8)) // uses up the receive
			e.send.one(8, verbs.Success, "SEND to itself")
			e.recv.one(1, verbs.Success, "SEND to itself")
		}
	})
}

// exchange runs traffic over all pairs at once, in both directions: SENDs and
// WRITEs, each pair in its own part of the buffers.
func exchange(r *rig, pairs []*pair) {
	r.t.Helper()
	const rounds, size = 5, 7000
	part := func(i int, forth bool, what int) int { // 4 areas a pair: source, SEND target, WRITE target
		at := (i*8 + what) * 8192
		if forth {
			at += 4 * 8192
		}
		return at
	}
	type direction struct {
		from, to *end
		i        int
		forth    bool
	}
	var all []direction
	for i, l := range pairs {
		all = append(all, direction{l.a, l.b, i, true}, direction{l.b, l.a, i, false})
	}
	for round := range uint64(rounds) {
		seed := func(d direction) uint64 { return round*1000 + uint64(d.from.qp.Num()) }
		for _, d := range all {
			fill(d.from.buf.Bytes()[part(d.i, d.forth, 0):][:size], seed(d))
			r.receives(d.to, round, round+1, d.to.sge(part(d.i, d.forth, 1), size))
			r.post(d.from, d.to.remote(request(verbs.OpWrite, 2*round, d.from.sge(part(d.i, d.forth, 0), size)), part(d.i, d.forth, 2)),
				send(2*round+1, d.from.sge(part(d.i, d.forth, 0), size)))
		}
		for _, d := range all {
			what := fmt.Sprintf("pair %d of %d, round %d", d.i, len(pairs), round)
			d.to.recv.one(round, verbs.Success, "%s", what)
			d.from.send.each(verbs.Success, 2*round, 2*round+2, "%s", what)
			r.ok(verify(d.to.buf.Bytes()[part(d.i, d.forth, 1):][:size], seed(d)), "%s, SEND", what)
			r.ok(verify(d.to.buf.Bytes()[part(d.i, d.forth, 2):][:size], seed(d)), "%s, WRITE", what)
		}
	}
}
