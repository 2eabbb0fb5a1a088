package ring

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"ringcli/ring/bootstrap/verdict"
	"ringcli/ring/diagnose"
	"ringcli/ring/watch"
	"ringcli/verbs"
)

// This file finds out why the retries of a request ran out, while the peer can still be
// asked: it is gone or stopped, or the path does not carry, in one direction or for long
// packets.

const (
	// newsTravel is how long the news of why a peer is gone may take, which go from rank to
	// rank while its queue pairs and memory go at once; hops take microseconds to
	// milliseconds. newsTick is the pause between two looks.
	newsTravel, newsTick = 250 * time.Millisecond, time.Millisecond
	// probesTravel is how long probes may be under way.
	probesTravel = 300 * time.Millisecond
)

// Explain returns what is behind an error of an operation with a peer: why the ring failed,
// if it did meanwhile, or a *StallError that names a rank or a direction, if that can be found
// out; else the error. It asks the other ranks, and takes at most five seconds.
func (s *Stalls) Explain(ctx context.Context, peer int, err error) error {
	for begun := time.Now(); time.Since(begun) < newsTravel; time.Sleep(newsTick) {
		if s.table.failed.Load() {
			return s.table.failure()
		}
	}
	found := s.Find(ctx)
	failed, isCompletion := errors.AsType[*CompletionError](err)
	i := slices.IndexFunc(found, func(b diagnose.Blame) bool {
		return b.Kind == diagnose.StallIsolated || b.Rank == peer && slices.Contains([]diagnose.StallKind{diagnose.StallGone, diagnose.StallStopped, diagnose.StallSilent}, b.Kind)
	})
	switch {
	case s.table.failed.Load():
		return s.table.failure()
	case i >= 0:
		return &StallError{Blame: found[i], Because: err}
	case !isCompletion || failed.Status != verbs.RetryExceeded || failed.HostLocal:
		return err
	}
	own, theirs, endsErr := s.ends.Both(ctx, failed.Edge)
	switch {
	case s.table.failed.Load():
		return s.table.failure()
	case endsErr != nil:
		return err
	}
	fallen := diagnose.Downfall(&own, &theirs)
	if fallen != nil && fallen.Certain {
		return &StallError{Blame: *fallen, Because: err}
	}
	probed := s.probeSizes(ctx, failed.Edge, &own)
	tests := diagnose.Tests(&own, &theirs, own.Failure, probed)
	v := verdict.RollUp(tests, s.of.NodeName)
	if v != nil && probed != nil {
		v = verdict.RollUp(append(tests, s.survey(ctx, failed.Edge, failed.Peer)...), s.of.NodeName)
	}
	switch {
	case s.table.failed.Load(): // and the peer answers no more
		return s.table.failure()
	case v == nil && fallen != nil:
		return &StallError{Blame: *fallen, Because: err}
	case v == nil:
		return err
	}
	return &StallError{Blame: *diagnose.PathBlame(v, s.of.rank), Because: err}
}

// askTests asks a rank for tests of its edges.
const askTests = "tests"

type testsAsked struct {
	Of  int `json:"of"`  // the rank
	But int `json:"but"` // its edges to this rank are not tested
}

// surveyWithin bounds the tests of a rank's edges: asking both ends takes milliseconds, and
// probes are awaited for probesTravel at each.
const surveyWithin = 2 * time.Second

// survey tests the other edges of the ring that the two ranks of an edge have: whether the
// fault is the edge's or a rank's.
func (s *Stalls) survey(ctx context.Context, id EdgeID, peer int) []verdict.Test {
	ctx, cancel := context.WithTimeout(ctx, surveyWithin)
	defer cancel()
	var own []verdict.Test
	var asking sync.WaitGroup
	asking.Go(func() { own = s.tests(ctx, peer) })
	theirs, _ := ask[[]verdict.Test](ctx, s.control, s.of.towards(id, peer), askTests, testsAsked{Of: peer, But: s.of.rank}) // without them the edge alone is blamed
	asking.Wait()
	return append(own, theirs...)
}

// tests tests this rank's edges to its neighbours in both directions, but for those to a rank.
func (s *Stalls) tests(ctx context.Context, but int) []verdict.Test {
	var found [2][]verdict.Test
	var testing sync.WaitGroup
	for _, side := range bothSides {
		if s.of.neighbour(side) == but {
			continue
		}
		testing.Go(func() {
			own, peer, err := s.ends.Both(ctx, side.Edge())
			if err != nil || own.Capabilities.HostLocal {
				return
			}
			if probed := s.probeSizes(ctx, side.Edge(), &own); probed != nil {
				found[side] = diagnose.Tests(&own, &peer, nil, probed)
			}
		})
	}
	testing.Wait()
	return slices.Concat(found[:]...)
}

// prober returns the queue pair of an edge if it can probe. It needs the lock: an edge that
// closes has none any more.
func (e *Edge) prober() (verbs.Prober, bool) {
	if e == nil {
		return nil, false
	}
	return watch.Prober(e.QP)
}

// askProbe asks the peer which probes came, and for its own.
const askProbe = "probe"

type probeAsked struct {
	Edge farEnd `json:"edge"`
	Mark uint64 `json:"mark"` // of the asker's probes; the peer's have the next one
	MTUs []int  `json:"mtus"`
	Each int    `json:"each"` // packets of each
}

const (
	// maxProbes is how many sizes there are: the path MTUs, and the shortest packet.
	maxProbes = 6
	// eachSize is how many probes of each size go: a path that loses one in ten loses no size.
	eachSize = 4
	// MostLoss is the most packets that Loss sends at a time: a socket's buffer of the usual
	// 208 KiB, and a queue on the way, hold them while their reader has no CPU.
	MostLoss = 64
)

// probeSizes sends probes of each size over an edge both ways; nil if that cannot be done.
func (s *Stalls) probeSizes(ctx context.Context, id EdgeID, own *diagnose.End) *diagnose.Probed {
	mtus := []int{0}
	for mtu := 256; mtu <= own.PathMTU; mtu *= 2 {
		mtus = append(mtus, mtu)
	}
	out, in, ok := s.probe(ctx, id, mtus, eachSize)
	if !ok {
		return nil
	}
	return &diagnose.Probed{MTUs: mtus, Outward: slices.Compact(out), Inward: slices.Compact(in)}
}

// Loss sends so many of the device's shortest packets over an edge, at most MostLoss, and returns
// how many arrive; ok is false if that cannot be done.
func (s *Stalls) Loss(ctx context.Context, id EdgeID, packets int) (arrived int, ok bool) {
	out, _, ok := s.probe(ctx, id, []int{0}, packets)
	return min(len(out), packets), ok // one may have been doubled on its way
}

// probe sends probes over an edge both ways, and returns the path MTU of each that arrived.
func (s *Stalls) probe(ctx context.Context, id EdgeID, mtus []int, each int) (out, in []int, ok bool) {
	s.table.mu.Lock()
	e := s.table.edge(id)
	p, ok := e.prober()
	s.table.mu.Unlock()
	if !ok {
		return nil, nil, false
	}
	asked := probeAsked{Edge: farEnd{Of: e.Peer, To: s.of.rank, Channel: id.Channel()}, Mark: rand.Uint64() &^ 1, MTUs: mtus, Each: each}
	if p.Probe(asked.Mark, mtus, each) != nil {
		return nil, nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out, err := ask[[]int](ctx, s.control, s.of.towards(id, e.Peer), askProbe, asked)
	if err != nil {
		return nil, nil, false
	}
	return out, awaitProbes(ctx, p, asked.Mark+1, len(mtus)*each), true
}

// awaitProbes waits for so many probes of a mark, for as long as they may be under way.
func awaitProbes(ctx context.Context, p verbs.Prober, mark uint64, n int) []int {
	for begun := time.Now(); ; time.Sleep(newsTick) {
		if came := p.Probed(mark); len(came) >= n || time.Since(begun) > probesTravel || ctx.Err() != nil {
			return came
		}
	}
}
