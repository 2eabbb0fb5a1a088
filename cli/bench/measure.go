package bench

import (
	"cmp"
	"context"
	"errors"
	"time"

	"ringcli/cli/bench/batch"
	"ringcli/cli/bench/buffers"
	"ringcli/cli/bench/corruption"
	"ringcli/cli/bench/windows"
	"ringcli/cli/procfs"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/timing"
	"ringcli/collective"
	gpus "ringcli/collective/gpu"
	"ringcli/collective/lateness"
	"ringcli/collective/plan"
	"ringcli/collective/reduce/reference"
	"ringcli/verbs/gpu"
	"ringcli/verbs/route"
)

// vectors are an operation's buffers on this rank.
type vectors struct {
	send, recv *collective.Buffer // the same buffer in place
	sendAddr   uint64
	recvAddr   uint64
	beside     []vectors // of the operations that are in flight with this one
	source     *buffers.Source
	from       Buffers
	peers      *collective.Symmetric // the ranks' send buffers; nil if they were not asked for or are not mapped
	device     *gpus.Vectors         // nil where the host's memory is the operation's
	// Which elements of the vector are sent and received.
	sent, received plan.Range
}

// allocate makes an operation's buffers, as package collective wants them.
func allocate(m *session.Member, o operation) (v vectors, err error) {
	call := o.call()
	send, recv := call.Buffers(m.Comm.Size(), m.Comm.Rank())
	v.sent, v.received = send, recv
	size := o.typ.Size()
	v.source = &buffers.Source{Comm: m.Comm, Kind: o.buffers}
	if o.inPlace {
		if v.send, err = v.source.New(o.bytes()); err != nil {
			return v, errors.Join(err, v.source.Close())
		}
		v.recv = v.send
		v.sendAddr, v.recvAddr = v.send.Addr()+uint64(send.Lo*size), v.send.Addr()+uint64(recv.Lo*size)
		return v, nil
	}
	if v.send, err = v.source.New(uint64(send.Len() * size)); err != nil {
		return v, errors.Join(err, v.source.Close())
	}
	if v.recv, err = v.source.New(uint64(recv.Len() * size)); err != nil {
		return v, errors.Join(err, v.send.Free(), v.source.Close())
	}
	v.sendAddr, v.recvAddr = v.send.Addr(), v.recv.Addr()
	return v, nil
}

// prepare says how the operation is going to run, and makes its buffers with this rank's
// input in them. It fails on all ranks alike.
func prepare(ctx context.Context, m *session.Member, o operation) (r runs, v vectors, err error) {
	if o.place.Kind == gpu.Host { // else it is not settled yet who runs it
		if r, err = o.on(m, v); err != nil {
			return r, v, err
		}
	}
	if err := m.Agree(ctx, procfs.CheckMemory(o.bytes(), o.buffersFor(), m.RanksHere())); err != nil {
		return r, v, err
	}
	v, err = allocate(m, o)
	for i := 1; i < o.inFlight && err == nil; i++ {
		var b vectors
		if b, err = allocate(m, o); err != nil {
			err = v.free(err)
			break
		}
		v.beside = append(v.beside, b)
	}
	if err := m.Agree(ctx, err); err != nil {
		return r, v, err
	}
	if err := v.reach(ctx, m, o); err != nil {
		return r, v, v.free(err)
	}
	if err := v.onDevice(ctx, m, o); err != nil {
		return r, v, v.free(err)
	}
	if r, err = o.on(m, v); err == nil {
		err = fill(ctx, m, o, v, o.seed(0))
	}
	if err == nil {
		err = v.lookAtPeers(ctx, m, o)
	}
	for i, b := range v.beside {
		if err == nil {
			err = fill(ctx, m, o, b, o.seed(uint64(i)+1))
		}
	}
	if err != nil {
		return r, v, v.free(err)
	}
	return r, v, nil
}

// bytes are what of a buffer that begins at its element 0, or in place at that of the
// vector, holds the elements of a range.
func (v vectors) bytes(b *collective.Buffer, r plan.Range, size int) []byte {
	if v.send == v.recv {
		return b.Bytes()[r.Lo*size : r.Hi*size]
	}
	return b.Bytes()
}

// free gives the buffers back after what ended in err, with which its own error goes.
func (v vectors) free(err error) error {
	for _, b := range v.beside {
		err = errors.Join(err, b.free(nil))
	}
	if v.device != nil && err == nil { // else the other ranks may be elsewhere
		err = v.device.Free(context.Background()) // the ring's timeout limits it
	} else if v.device != nil {
		err = errors.Join(err, v.device.Drop())
	}
	if v.send == v.recv {
		return errors.Join(err, v.send.Free(), v.source.Close())
	}
	return errors.Join(err, v.send.Free(), v.recv.Free(), v.source.Close())
}

// fill writes this rank's input and spoils what the operation has to write, so
// that nothing which is left from before can pass for a result.
func fill(ctx context.Context, m *session.Member, o operation, v vectors, seed uint64) error {
	const spoil = 0xa5
	recv := v.recv.Bytes()
	for i := range recv {
		recv[i] = spoil
	}
	reference.Fill(v.bytes(v.send, v.sent, o.typ.Size()), o.typ, o.red, m.Comm.Rank(), v.sent.Lo, seed)
	if v.device == nil {
		return nil
	}
	return v.device.ToDevice(ctx)
}

// measure warms up, measures, checks if that was asked for, and puts all ranks'
// results together. Every rank gets the same Measurement, and the leader the
// ranks' own besides. If it was stopped, the Measurement is of what was done, and
// the error is batch.Stopped.
func measure(ctx context.Context, m *session.Member, s *session.Session, o operation) (result Measurement, err error) {
	runs, v, err := prepare(ctx, m, o)
	if err != nil {
		return result, err
	}
	defer func() { err = v.free(err) }()
	s.Progress.Begin("%s", o)
	defer s.Progress.End()
	mine := RankMeasurement{Rank: m.Comm.Rank(), LinkRate: linkRate(m)}
	possibleOf(m, o.bytes()) // and once more afterwards
	var c checking
	w := windows.New(m, s.Out, o.op.String(), o.bytes(), o.window)
	b, kept, stopped, err := batches(ctx, m, s, o, v, runs, &mine, &c, w)
	if err != nil {
		if also := printCut(m, s, o, runs, b, mine, kept.Counted, w); also != nil {
			err = errors.Join(err, also)
		}
		return result, err
	}
	if mine.Possible = possibleOf(m, o.bytes()); runs.Path == gpus.IPC || runs.backend != nil {
		mine.Possible = Possible{} // of the edges, over which nothing goes
	}
	each, err := session.Share(ctx, m, told{RankMeasurement: mine, Host: route.ThisHost().BootID, Counted: kept.Counted && runs.Path != gpus.IPC && runs.backend == nil})
	if err != nil {
		return result, err
	}
	all := ofHosts(each)
	result = resultOf(m, o, runs, b.Done, b.Means, all)
	result.Corruption, result.Buffers, result.Delivery = c.Corruption(), v.from, deliveryOf(each)
	if o.Duration > 0 {
		result.Windows = &w.Summary
	} else {
		records := make([]lateness.Record, len(all))
		for rank := range all {
			records[rank] = *all[rank].Waits
		}
		w.Whole(records)
	}
	result.Late = w.Late
	switch {
	case stopped && (o.Duration > 0 || o.Span > 0):
		err = batch.Stopped("%d iterations", b.Done)
	case stopped:
		err = batch.Stopped("%d of %d iterations", b.Done, o.Iters)
	}
	return result, err
}

// printCut prints what this rank has measured of a run that failed, if that is anything: the
// other ranks cannot be asked any more.
func printCut(m *session.Member, s *session.Session, o operation, r runs, b batch.Batched, mine RankMeasurement, counted bool, w *windows.Watch) error {
	if b.Done == 0 || s.Out.Format() == render.NCCLTests {
		return nil
	}
	result := resultOf(m, o, r, b.Done, b.Means, []RankMeasurement{mine})
	result.OK, result.CutShort, result.Late = false, true, w.Late
	if result.Delivery = deliveryOf([]told{{RankMeasurement: mine, Counted: counted}}); o.Duration > 0 {
		result.Windows = &w.Summary
	}
	return errors.Join(
		s.Out.Print(result.record()), result.note(m, s.Out),
		s.Out.Note(render.Fair, "cut short after %d iterations: what rank %d had measured when the run failed", b.Done, mine.Rank),
	)
}

// resultOf puts the ranks' results together. means are those of the batches, on the
// slowest rank, in us.
func resultOf(m *session.Member, o operation, r runs, iters int, means []float64, all []RankMeasurement) Measurement {
	result := Measurement{
		Command: o.op.String(), Bytes: o.bytes(), Count: uint64(o.count), Type: o.typ.String(), Op: o.red.String(),
		Protocol: r.plan.Protocol, Algorithm: r.plan.Algorithm, Backend: o.backend, OnMemory: r.OnMemory, Ranks: m.Comm.Size(), CPUs: m.CPUs, InPlace: o.inPlace, InFlight: o.inFlight, Verified: r.plan.Verify, Iters: iters,
	}
	if !o.op.Reduces() {
		result.Op = ""
	}
	if o.op.Rooted() {
		result.Root = &o.root
	}
	result.merge(all, means, o.Span > 0)
	if m.Comm.Rank() == 0 {
		result.PerRank = all
	}
	return result
}

// leastToSpread is of how many batches quartiles say something.
const leastToSpread = 5

// merge puts the ranks' results together. The mean is the median of the batches' means
// where nobody said how many iterations count.
func (m *Measurement) merge(all []RankMeasurement, means []float64, median bool) {
	for i := range all {
		r := &all[i]
		m.Time = m.Time.Slowest(r.Time)
		corruption.AddWrong(&m.Wrong, r.Wrong)
		m.LinkRate = lower(m.LinkRate, r.LinkRate)
		m.Possible = leastPossible(m.Possible, r.Possible)
		if m.First == nil {
			m.First = r.First
		}
	}
	if median && len(means) > 0 {
		m.Time.Mean = timing.ThreePlaces(timing.Median(means))
	}
	if len(means) >= leastToSpread {
		spread := timing.Spread(means)
		m.Spread = &spread
	}
	m.OK = corruption.IsRight(m.Wrong)
	m.AlgBW, m.BusBW = timing.Bandwidth(m.Command, m.Bytes, m.Ranks, m.Time.Mean)
	if m.OfPossible = m.share(m.BusBW); m.OfPossible != nil {
		_, m.BestBW = timing.Bandwidth(m.Command, m.Bytes, m.Ranks, m.Time.Min)
	}
}

// batches warms up and measures. Each batch of --duration ends with a checked
// run, and all iterations together with one.
func batches(ctx context.Context, m *session.Member, s *session.Session, o operation, v vectors, r runs, mine *RankMeasurement, c *checking, wins *windows.Watch) (b batch.Batched, kept *windows.Keeper, stopped bool, err error) {
	w, begun, done := timing.New(), time.Now(), 0
	kept = windows.NewKeeper(m.Comm)
	mine.Waits = &kept.All
	var means []float64 // of this rank
	p := o.Repetition
	p.Batch = min(cmp.Or(o.window, batch.Length), batch.Length)
	if o.Duration > 0 && m.Comm.Size() > 1 {
		if p.Talk, err = batch.NewTalk(ctx, m); err != nil {
			return b, kept, false, err
		}
		defer func() { err = errors.Join(err, p.Talk.Close()) }()
		kept.Each = true
		c.talk, p.Heard, p.Kept = p.Talk, wins.Heard, kept
	}
	b, err = batch.Run(ctx, m, s, p, func(warm, n int) (float64, error) {
		if p.Talk == nil || done == 0 { // else what ranks talk belongs to it
			if err := kept.Drop(ctx); err != nil {
				return 0, err
			}
		}
		if _, err := o.iterate(ctx, r, warm, nil); err != nil {
			return 0, err
		}
		w.Begin()
		mean, err := o.iterate(ctx, r, n, w)
		if err != nil || n == 0 {
			return 0, err
		}
		if err := kept.Take(ctx, w.Longest()); err != nil {
			return 0, err
		}
		means = append(means, mean)
		done += n
		switch {
		case o.Duration > 0:
			s.Progress.Step("%s of %s", time.Since(begun).Truncate(time.Second), o.Duration)
		case o.Span > 0:
			s.Progress.Step("%d iterations", done)
		default:
			s.Progress.Step("%d/%d", done, o.Iters)
		}
		if o.check && o.Duration > 0 {
			if err = c.next(ctx, m, o, v); err == nil {
				err = kept.Drop(ctx)
			}
		}
		return mean, err
	})
	if p.Talk != nil {
		err = cmp.Or(err, wins.End())
	}
	kept.End()
	if stopped = errors.Is(err, batch.ErrStopped); stopped {
		err = nil
	}
	if err == nil && o.check && o.Duration == 0 && b.Done > 0 {
		err = c.next(ctx, m, o, v)
	}
	if mine.Time = w.Times(); o.Span > 0 {
		mine.Time.Mean = timing.ThreePlaces(timing.Median(means))
	}
	if o.check {
		mine.Wrong, mine.First = &c.wrong, c.first
	}
	return b, kept, stopped, err
}

// Of the iterations of a batch that lasts for a span, the first leastTimed are timed one by one, or
// this share: reading the clock takes time, too, a fifth of the shortest operations'.
const leastTimed, timedShare = 1000, 16

// iterate runs the operation n times and returns their mean time in us. w gets those
// that are timed one by one: all, unless it was not said how many there are.
func (o operation) iterate(ctx context.Context, r runs, n int, w *timing.Stopwatch) (mean float64, err error) {
	timed := n
	switch {
	case w == nil:
		timed = 0
	case o.Span > 0:
		timed = min(n, max(leastTimed, n/timedShare))
	}
	each, one := 1, r.run
	if len(r.flying) > 0 {
		each, one = len(r.flying), r.fly
	}
	rounds := max(o.aggregate, 1)
	many := rounds * each
	run := func() (err error) {
		for i := 0; i < rounds && err == nil; i++ {
			err = one(ctx)
		}
		return err
	}
	begun := time.Now()
	for i := range n {
		if i >= timed {
			err = run()
		} else {
			t := time.Now()
			err = run()
			w.Add(time.Since(t) / time.Duration(many))
		}
		if err != nil {
			return 0, err
		}
	}
	return max(float64(time.Since(begun))/float64(time.Microsecond)/float64(max(n, 1)*many), 1e-3), nil
}
