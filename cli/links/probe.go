package links

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ringcli/verbs"
)

const (
	// reachNone is of a path on which nothing arrives.
	reachNone = -1
	// reachAll is of one on which all packets arrive that the path MTU allows.
	reachAll = 4096
	// probeTime is how long probes are waited for: a busy peer is some 100 ms late with its own.
	// They are sent again every probeEvery.
	probeTime, probeEvery = 2 * time.Second, 200 * time.Millisecond
	// probeSilence is how long they are waited for if none comes.
	probeSilence = 2 * probeEvery
	// probeLongest is how many more of the longest are sent, one of which will do.
	probeLongest = 7
	// probeMarks is added to the marks, which no one else counts from there.
	probeMarks = 0x6c696e6b73 << 24
)

// probe finds out which packets arrive from the other end, and lets it find out the same. It gives
// up after some silence.
func (e *end) probe(ctx context.Context, number uint64, ranks, rank int) figures {
	f := e.figures()
	p, can := e.Prober()
	if !can {
		return f
	}
	mtus := []int{0}
	for mtu := verbs.MTU256.Bytes(); mtu <= e.MTU; mtu *= 2 {
		mtus = append(mtus, mtu)
	}
	mark := func(from, to int) uint64 {
		return probeMarks + (number*uint64(ranks)+uint64(from))*uint64(ranks) + uint64(to)
	}
	var came []int
	all := func() bool { return slices.Contains(came, e.MTU) }
	for begun := time.Now(); !all() && time.Since(begun) < probeTime && (len(came) > 0 || time.Since(begun) < probeSilence) && ctx.Err() == nil; {
		// The other end may go on at once, and sends no more.
		if errors.Join(p.Probe(mark(rank, e.Peer), mtus, 1), p.Probe(mark(rank, e.Peer), mtus[len(mtus)-1:], probeLongest)) != nil {
			return f
		}
		for tick := time.Now(); !all() && time.Since(tick) < probeEvery; time.Sleep(time.Millisecond) {
			came = p.Probed(mark(e.Peer, rank))
		}
	}
	longest := reachNone
	switch {
	case all():
		longest = reachAll
	case len(came) > 0:
		longest = slices.Max(came)
	}
	f.Arrived = &longest
	return f
}

// short tells whether short packets of the other end arrive and long ones do not, and tells that
// end: to measure the pair would take as long as queue pairs try again.
func (e *end) short(f *figures) error {
	if f.Arrived == nil || *f.Arrived == reachNone || *f.Arrived == reachAll {
		return nil // or it has not begun
	}
	why := fmt.Errorf("of probes of rank %d none with more than %d bytes of payload has arrived, path MTU %d", e.Peer, *f.Arrived, e.MTU)
	return errors.Join(why, e.say(sayShort))
}
