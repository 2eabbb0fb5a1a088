package links

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ringcli/cli/timing"
	"ringcli/configs"
	"ringcli/ring/meetings"
	"ringcli/verbs"
	"ringcli/verbs/cpu"
)

// howTo is how each pair is measured.
type howTo struct {
	bytes, small int // of a WRITE of the bandwidth and of the latency test
	outstanding  int // WRITEs in flight
	span         time.Duration
	passes       int // 0: by the number of ranks
}

// Between the tests of a pair its ends tell each other in immediate data where they are.
const (
	sayPing   = 1 + iota // to be sent back, while both poll
	sayKnock             // to be sent back, while both block
	sayStream            // what comes now is the bandwidth test
	sayDone              // all my WRITEs have been acknowledged
	sayFew               // the same, of which more would take too long
	sayGo                // both at once
	sayShort             // of your packets none longer than some size arrive
)

// parts are a pair's tests: latency, one way alone, the other way alone, both at once. Each
// has as much of its time.
const parts = 4

// warmPings are not measured: a queue pair's first messages are the slowest.
const warmPings = 4

// end is this rank's end of a meeting, while it is measured.
type end struct {
	*meetings.Meeting
	meetings *meetings.Meetings
	howTo
	failed   func() error  // why the ring has failed, if it has
	patience time.Duration // how long the other end may be silent
	slack    time.Duration // how much longer than its part of the time a stream may take
	long     time.Duration // what takes longer shows that more must not be in flight
	limit    time.Time     // of the pair: the others wait
	within   time.Duration // that what is waited for may take
	deadline time.Time     // of that
	also     *end          // whose completions come in the same queue; nil if there is none

	waiter verbs.Waiter
	policy verbs.WaitPolicy // its own
	wc     [64]verbs.Completion
	size   int      // of a WRITE of the bandwidth test, and
	window int      // how many are in flight: as much as the pair has shown to carry
	data   int      // WRITEs of the bandwidth test without completion
	words  int      // others
	heard  []uint32 // that nobody has asked for yet
}

// limits are how long a pair may take, all its waits together, and how much longer than its part
// of the time each of its streams: the other ranks wait for timeout, and begin at another time.
func limits(timeout, patience, span time.Duration) (most, slack time.Duration) {
	most = timeout * 8 / 10
	return most, (most - patience - span) / streams
}

// streams are of a pair: one way, the other way, both at once.
const streams = 3

// newEnd is to be made when both ends are connected.
func newEnd(m *meetings.Meetings, x *meetings.Meeting, h howTo, timeout time.Duration, failed func() error) *end {
	w := m.Waiter()
	e := &end{
		Meeting: x, meetings: m, howTo: h, failed: failed, patience: m.Patience(), waiter: w, policy: w.Policy,
		size: min(h.bytes, firstWrite), window: 1,
	}
	most, slack := limits(timeout, e.patience, h.span)
	e.slack, e.limit = slack, time.Now().Add(most)
	e.long = min(slack, cmp.Or(m.Retries(), slack)) / (2 * growth)
	e.await(h.span + e.patience)
	return e
}

// await sets how long what is waited for from now on may take.
func (e *end) await(d time.Duration) {
	now := time.Now()
	e.within = min(d, max(0, e.limit.Sub(now)))
	e.deadline = now.Add(e.within)
}

// longest is how long a stream may take.
func (e *end) longest() time.Duration { return e.span/parts + e.slack }

// figures are what one end measured with another. Of a thousand ranks all tell each other a
// million: the names are short.
type figures struct {
	To     int     `json:"t"`
	P50    float64 `json:"m,omitempty"` // us; of the end that asked alone
	P99    float64 `json:"h,omitempty"`
	Alone  float64 `json:"a,omitempty"` // GB/s, to the other
	Both   float64 `json:"b,omitempty"`
	Resent float64 `json:"r,omitempty"`
	Lost   float64 `json:"l,omitempty"`
	RNR    float64 `json:"n,omitempty"`
	Unseen unseen  `json:"u,omitempty"`
	Sent   float64 `json:"p,omitempty"` // packets
	// Waited is how much of the stream to the other, and of the stream from it, threads of this
	// rank were ready to run and had no CPU.
	Waited [2]float64 `json:"o,omitzero"`
	// Arrived is the longest path MTU of which packets arrive from the other: 0 if only the
	// shortest do, reachNone if none does, reachAll if all do; nil: not probed.
	Arrived *int   `json:"v,omitempty"`
	Device  string `json:"d,omitempty"`
	Shared  bool   `json:"s,omitempty"`
	Soft    bool   `json:"c,omitempty"` // a CPU moves the data
	Asks    bool   `json:"q,omitempty"`
	Dead    bool   `json:"x,omitempty"`
	Why     string `json:"w,omitempty"` // it is dead
}

// figures are none yet.
func (e *end) figures() figures {
	return figures{To: e.Peer, Device: e.Device, Shared: e.Shared, Soft: e.Attr.Software, Unseen: allUnseen}
}

// dead are those of a pair without a connection.
func dead(to int, why string) figures {
	return figures{To: to, Unseen: allUnseen, Dead: true, Why: why}
}

// pair measures the pair, at both of its ends; the one with the lower rank begins.
func (e *end) pair(ctx context.Context, first bool) (f figures, err error) {
	f = e.figures()
	f.Asks = first
	before, err := e.meetings.Counters()
	if err != nil {
		return f, err
	}
	defer func() {
		after, countErr := e.meetings.Counters()
		if err == nil {
			err = countErr
		}
		if countErr == nil {
			f.count(before, after)
		}
	}()
	if first {
		err = e.ask(ctx, &f)
	} else {
		err = e.answer(ctx)
	}
	if err != nil {
		return f, err
	}
	few := false
	for _, mine := range []bool{first, !first} {
		if !mine {
			e.await(e.longest() + e.patience)
			waited := waiting()
			word, err := e.next(ctx)
			f.Waited[1] = waited()
			if err == nil && word != sayFew {
				err = e.expect(word, sayDone)
			}
			if err != nil {
				return f, err
			}
			few = few || word == sayFew
			continue
		}
		waited := waiting()
		if f.Alone, err = e.stream(ctx, &f); err != nil {
			return f, err
		}
		f.Waited[0] = waited()
		word := uint32(sayDone)
		if !e.full() {
			few, word = true, sayFew
		}
		if err = e.say(word); err != nil {
			return f, err
		}
	}
	if few { // acknowledgements would stand behind WRITEs for longer than the other end's queue pair tries
		e.await(e.patience)
		return f, e.drain(ctx)
	}
	e.await(e.patience)
	if first {
		err = e.say(sayGo)
	} else {
		err = e.hear(ctx, sayGo)
	}
	if err != nil {
		return f, err
	}
	if f.Both, err = e.stream(ctx, &f); err != nil {
		return f, err
	}
	e.await(e.longest() + e.patience)
	return f, errors.Join(e.say(sayDone), e.hear(ctx, sayDone), e.drain(ctx))
}

// waiting begins to watch how long this rank's threads wait for a CPU; the function returns their
// share of the time since.
func waiting() func() float64 {
	before, begun := cpu.Waited(), time.Now()
	return func() float64 {
		return timing.ThreePlaces(float64(cpu.Waited()-before) / float64(time.Since(begun)))
	}
}

// full tells whether as much is in flight as was asked for.
func (e *end) full() bool { return e.size == e.bytes && e.window == e.outstanding }

// shift streams to one rank while another streams to this one; either may be nil.
func shift(ctx context.Context, to, from *end) (f figures, err error) {
	if to != nil {
		f = to.figures()
		if from != nil {
			to.also, from.also = from, to
		}
		if f.Alone, err = to.stream(ctx, &f); err == nil {
			err = to.say(sayDone)
		}
	}
	if from != nil {
		if err != nil {
			from.also = nil // what is flushed there says nothing new
		}
		from.await(from.span + listening)
		_ = from.hear(ctx, sayDone)
	}
	if to != nil && err == nil {
		to.await(to.patience)
		err = to.drain(ctx)
	}
	return f, err
}

// listening is how much longer than it lasts a rank polls for the stream to it, which does not
// need that: whether it arrives its sender knows, for which all ranks wait then.
const listening = time.Second

// ask measures the latency: half the round trip of a small WRITE. Half of the time both ends poll,
// which is fastest, and half they block, and the better counts: where threads that poll have to
// share a CPU, each waits until the scheduler takes it from the other.
func (e *end) ask(ctx context.Context, f *figures) error {
	for _, word := range []uint32{sayPing, sayKnock} {
		times := timing.New()
		e.wait(word)
		for n, until := 0, time.Now().Add(e.span/parts/2); n <= warmPings || time.Now().Before(until); n++ {
			begun := time.Now()
			if err := errors.Join(e.say(word), e.hear(ctx, word)); err != nil {
				return err
			}
			if n >= warmPings {
				times.Add(time.Since(begun) / 2)
			}
		}
		if p50 := timing.ThreePlaces(times.At(50)); f.P50 == 0 || p50 < f.P50 {
			f.P50, f.P99 = p50, timing.ThreePlaces(times.At(99))
		}
	}
	e.wait(sayStream)
	return e.say(sayStream)
}

// wait chooses how to wait for what a word is about.
func (e *end) wait(word uint32) {
	if e.waiter.Policy = e.policy; word == sayKnock {
		e.waiter.Policy = verbs.WaitBlock
	}
}

func (e *end) answer(ctx context.Context) error {
	for {
		word, err := e.next(ctx)
		if err != nil {
			return err
		}
		switch e.wait(word); word {
		case sayStream:
			return nil
		case sayPing, sayKnock:
			if err := e.say(word); err != nil {
				return err
			}
		default:
			return e.expect(word, sayPing)
		}
	}
}

// stream returns the bandwidth of WRITEs. So many at once as are asked for might keep a slow pair
// busy for longer than the others wait, or than a queue pair tries: it begins with few, and has
// more in flight as long as that is done soon.
func (e *end) stream(ctx context.Context, f *figures) (bandwidth float64, err error) {
	e.await(e.longest())
	r := ramp{long: e.long, part: e.span / parts, slack: e.slack}
	for last := false; ; {
		span := time.Duration(0)
		if last = last || e.full(); last {
			span = r.part
		}
		begun := time.Now()
		sent, err := e.send(ctx, span)
		took := time.Since(begun)
		if err != nil {
			return 0, err
		}
		f.Sent += float64(sent) * float64((e.size+e.MTU-1)/e.MTU)
		if last {
			return gbps(sent, e.size, took), nil
		}
		switch r.step(took) {
		case grow:
			e.size, e.window = more(e.size, e.window, e.bytes, e.outstanding)
		case settle:
			last = true
		case finish:
			return gbps(sent, e.size, r.best), nil
		}
	}
}

// gbps is the bandwidth of so many WRITEs.
func gbps(sent, size int, took time.Duration) float64 {
	return timing.SixPlaces(float64(sent) * float64(size) / float64(took))
}

// send sends WRITEs for so long, but at least as many as may be in flight, and returns how many
// when the last was acknowledged.
func (e *end) send(ctx context.Context, span time.Duration) (sent int, err error) {
	for until := time.Now().Add(span); ; {
		if room := e.window - e.data; room > 0 && (sent == 0 || time.Now().Before(until)) {
			if err := e.Write(e.size, room); err != nil {
				return sent, err
			}
			e.data, sent = e.data+room, sent+room
		}
		if e.data == 0 {
			return sent, nil
		}
		if err := e.ended(ctx); err != nil {
			return sent, err
		}
		if err := e.progress(ctx); err != nil {
			return sent, err
		}
	}
}

// say tells the other end a word, with a small WRITE.
func (e *end) say(word uint32) error {
	e.words++
	return e.Say(e.small, word)
}

// next waits for the other end's next word.
func (e *end) next(ctx context.Context) (word uint32, err error) {
	for len(e.heard) == 0 {
		if err := e.progress(ctx); err != nil {
			return 0, err
		}
	}
	word = e.heard[0]
	e.heard = slices.Delete(e.heard, 0, 1)
	return word, nil
}

// hear waits for a word.
func (e *end) hear(ctx context.Context, want uint32) error {
	word, err := e.next(ctx)
	if err != nil {
		return err
	}
	return e.expect(word, want)
}

func (e *end) expect(word, want uint32) error {
	if word == sayShort {
		return fmt.Errorf("rank %d receives no packets of path MTU %d from here", e.Peer, e.MTU)
	}
	if word != want {
		return fmt.Errorf("rank %d says %d, expected %d: do all ranks run the same version?", e.Peer, word, want)
	}
	return nil
}

// drain waits until all is acknowledged.
func (e *end) drain(ctx context.Context) error {
	for e.data+e.words > 0 {
		if err := e.progress(ctx); err != nil {
			return err
		}
	}
	return nil
}

// spins is how many polls of a wait look at neither clock nor context, which cost more than a
// poll: the waiter does not give the CPU away in them. Each later wait may last 10 ms.
const spins = 64

// ended is why nobody waits for completions any more: it was cancelled, or the ring has failed.
func (e *end) ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return e.failed()
}

// progress waits for completions, until the deadline.
func (e *end) progress(ctx context.Context) error {
	for polls := 1; ; polls++ {
		n, err := e.meetings.Poll(e.wc[:])
		if err != nil {
			return err
		}
		for i := range e.wc[:n] {
			if err := e.take(&e.wc[i]); err != nil {
				return err
			}
		}
		if n > 0 {
			e.waiter.Reset()
			return nil
		}
		if polls >= spins || e.waiter.Policy != verbs.WaitYield {
			if err := e.ended(ctx); err != nil {
				return err
			}
			if time.Now().After(e.deadline) {
				return fmt.Errorf("rank %d has not answered within %s, with %d WRITEs of %s in flight", e.Peer, e.within.Round(time.Millisecond), e.data, configs.FormatSize(uint64(e.size)))
			}
		}
		if err := e.waiter.Wait(); err != nil {
			return err
		}
	}
}

// take handles a completion.
func (e *end) take(wc *verbs.Completion) error {
	kind, ok := e.Is(wc)
	if !ok {
		if also := e.also; also != nil {
			if _, ok := also.Is(wc); ok {
				return also.take(wc)
			}
		}
		return nil // of a meeting that is over
	}
	if err := wc.Status.Err(); err != nil {
		return fmt.Errorf("queue pair 0x%06x to rank %d: %w", wc.QPN, e.Peer, err)
	}
	switch kind {
	case meetings.Received:
		e.heard = append(e.heard, wc.Imm)
		return e.Repost()
	case meetings.Said:
		e.words--
	default:
		e.data--
	}
	return nil
}
