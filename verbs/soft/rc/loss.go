package rc

import (
	"time"

	"ringcli/verbs/soft/wire"
)

// What a queue pair does about loss and reordering, within the specification.
//
// A receiver whose caller keeps what comes early asks for what is missing alone: the
// responder with one NAK for each gap, the requester with a READ of the responses that
// it lacks. Where packets come late rather than never, both learn to wait for so long
// before they ask.
//
// A requester halves its window at each loss and lets it grow by an eighth for each
// window acknowledged. To a peer that keeps what comes early it sends what is missing
// and goes on where it was; to others all from there, as the specification has it.
// Where something was lost lately it does not wait for the retransmission timer, which
// must be long for ranks without a CPU: once it has heard nothing for twice the round
// trip it sends the oldest packet again, as a network might have doubled it.

const (
	// lossyFor is how many packets must be acknowledged after a loss for the wire to
	// count as clean again.
	lossyFor = 4096
	// minProbe is the least time without news before a probe.
	minProbe = int64(time.Millisecond)
	// mostWait bounds how long a receiver waits for what is missing: less than half
	// of a sensible retransmission timer.
	mostWait = int64(25 * time.Millisecond)
)

// gap is what a receiver misses, and how long it waits before it asks for it.
type gap struct {
	since  int64  // when it was noticed; 0: there is none, or it was asked for
	psn    uint32 // what is missing
	end    uint32 // PSN of the first that came after it
	asked  bool   // psn was asked for, and has not come
	began  int64  // when psn began to be missing
	wait   int64
	filled [16]filled // what was asked for and came, the oldest overwritten
	next   int
}

// filled is what was asked for and came, so long after it was missed first: again if it
// had been lost, or late. Then it comes twice.
type filled struct {
	psn  uint32
	late int64 // 0: it came twice
}

// notice notes that psn is missing, but end came.
func (g *gap) notice(psn, end uint32, now int64) {
	switch {
	case g.since == 0 || g.psn != psn:
		g.since, g.began, g.psn, g.end, g.asked = now, now, psn, end, false
	case wire.PSNDiff(end, g.end) < 0:
		g.end = end
	}
}

func (g *gap) deadline() int64 {
	if g.since == 0 {
		return 0
	}
	return g.since + g.wait
}

func (g *gap) due(now int64) bool { return g.since != 0 && now >= g.since+g.wait }

func (g *gap) ask() { g.since, g.asked = 0, true }

// came notes that what was expected next has come.
func (g *gap) came(psn uint32, now int64) {
	g.since = 0
	if !g.asked || psn != g.psn {
		return
	}
	g.asked = false
	f := &g.filled[g.next]
	if g.next = (g.next + 1) % len(g.filled); f.late != 0 { // it was right to ask for it
		g.wait -= g.wait / 8
	}
	*f = filled{psn, max(1, now-g.began)}
}

// again notes that something came twice. If it had been asked for it was late and not
// lost.
func (g *gap) again(psn uint32) {
	for i := range g.filled {
		if f := &g.filled[i]; f.late != 0 && f.psn == psn {
			g.wait = min(max(g.wait, f.late+f.late/4), mostWait)
			f.late = 0
		}
	}
}

// sendAgain goes back, and up to end only where the peer keeps the rest.
func (r *requester) sendAgain(end uint32) {
	if !r.kept || wire.PSNDiff(end, r.una) <= 0 {
		r.goBack()
		return
	}
	r.sendPart(end)
}

// sendPart sends again up to end, and then goes on where it was.
func (r *requester) sendPart(end uint32) {
	if !r.partial {
		r.goOn, r.sqOn = r.cur, r.sqCur
	}
	if wire.PSNDiff(end, r.goOn) > 0 { // what goBack has not sent again yet goes the ordinary way
		end = r.goOn
	}
	r.partial, r.partEnd = true, end
	r.cur, r.sqCur = r.una, r.sqHead
	r.timedOut, r.rttAt = false, 0
}

// requestEnd returns the PSN after the oldest packet, or READ, not acknowledged.
func (r *requester) requestEnd() uint32 {
	if w := r.wqe(r.sqHead); w.isRead() {
		return wire.PSNAdd(r.una, r.readLen(w, r.una))
	}
	return wire.PSNAdd(r.una, 1)
}

// resume goes on where sending again began.
func (r *requester) resume() {
	r.partial = false
	if wire.PSNDiff(r.cur, r.goOn) < 0 {
		r.cur, r.sqCur = r.goOn, r.sqOn
	}
}

// measure notes that n more packets are acknowledged on a lossy wire.
func (r *requester) measure(n int, now int64) {
	r.lossy = max(0, r.lossy-n)
	r.probes = 0
	if r.rttAt != 0 && wire.PSNDiff(r.una, r.rttPSN) > 0 {
		r.rtt = max(now-r.rttAt, r.rtt-r.rtt/8)
		r.rttAt = 0
	}
}

// startProbe arms the probe where something was lost lately, if it comes before the
// retransmission timer.
func (r *requester) startProbe(now int64) {
	r.probe = 0
	if r.lossy == 0 || r.timer == 0 {
		return
	}
	if t := now + max(minProbe, 2*r.rtt)<<min(r.probes, 6); t < r.timer {
		r.probe = t
	}
}

// sendProbe sends the oldest packet again, or asks for the oldest responses again. If
// the peer then acknowledges no more than the packet, what follows was lost, too:
// progress goes back.
func (r *requester) sendProbe(now int64) {
	r.probes++
	r.conn.cfg.Counters.LossProbes++
	end := r.requestEnd()
	if r.responseGap.asked && r.responseGap.psn == r.una { // what came after it is kept
		end = r.responseGap.end
	}
	r.wentBack, r.recover = true, end
	w := r.wqe(r.sqHead)
	if r.probed = !w.isRead() && !w.IsAtomic(); r.probed {
		r.sendPart(end)
	} else {
		r.sendAgain(end)
	}
	r.timedOut = true
	r.startProbe(now)
}
