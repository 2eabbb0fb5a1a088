package exec

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ringcli/collective/buffer"
	"ringcli/collective/journal"
	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/collective/sharedmem"
	"ringcli/collective/watch"
	"ringcli/ring"
	"ringcli/ring/diagnose"
	"ringcli/ring/message"
	"ringcli/trace"
	"ringcli/verbs"
)

// engine is what is particular to an algorithm: a pass round the ring, or a script
// over a mesh. A flow drives it.
type engine interface {
	post() (bool, error)        // posts what may be posted now, and tells whether there was anything
	work() (bool, error)        // reduces or copies what came, at most one segment, and tells whether there was one
	state() state               // how far it has come
	delivered(ch *channel)      // the oldest WRITE on the channel is the peer's
	progress() string           // what has come and gone, in words
	where(p *diagnose.Place)    // what it awaits, and what it has given others
	behind() (bool, error)      // does what comes once nothing is left to post or work, and tells whether there was anything
	recordOpen(end trace.Stamp) // records what is open when the operation ends
}

// rendezvousEngine is an engine that has more than data in slots.
type rendezvousEngine interface {
	wroteInPlace(ch *channel, position int) error             // the peer wrote into place
	wroteWithSum(ch *channel, position int, sum uint32) error // so, and says what checksum that has
	read(ch *channel) error                                   // the oldest READ on the channel has its data
	answered(ch *channel, h message.Header) bool              // a CTS or FIN came; false if it has no place here
}

// state is how far an engine has come.
type state uint8

const (
	running state = iota
	over          // nothing is left to post or work: acknowledgements are missing, if anything
	done          // everything has come and gone, but for what is detached
)

// flow is the operation that runs, or one phase of it. It is driven by polling,
// from one goroutine.
type flow struct {
	x          *Executor
	engine     engine
	rendezvous rendezvousEngine // nil if the engine is none
	uses       []*channel       // the engine's
	detached   bool             // no peer waits for an acknowledgement to end the operation
	call       plan.Call
	journal    *journal.Journal    // nil if none is kept
	sums       bool                // checksums of segments are wanted
	sign       sharedmem.Signature // of call
	seq        uint64
	kernel     reduce.Kernel // nil if nothing is reduced
	size       int           // bytes of an element
	in, out    buffer.Vector // the user's send buffer and receive buffer
	timeline
}

// begin makes the flow ready to run a call. What the engine needs comes after it.
func (f *flow) begin(ctx context.Context, e engine, k *plan.Call, in, out buffer.Vector) error {
	x := f.x
	f.engine, f.rendezvous, f.detached = e, nil, false
	f.begun = trace.Now()
	x.Times.Begin(f.begun)
	f.step, f.stepBytes = f.begun, 0
	f.call, f.sign, f.in, f.out = *k, k.Signature(), in, out
	f.sums = k.Verify || f.journal != nil
	x.Begin(f.sign)
	f.seq = x.Seq
	f.size = k.Type.Size()
	f.kernel = nil
	if k.Op.Reduces() {
		f.kernel = reduce.Lookup(k.Type, k.Reduction)
	}
	if err := x.Stopped(ctx); err != nil {
		return err
	}
	token, err := x.Ring.Begin(ctx)
	if err != nil {
		return err
	}
	x.Token = token
	x.Live.Operations++
	TraceStart(f.seq, k)
	// Peers may have been first.
	for _, ch := range x.every {
		if h := ch.head(); h != nil {
			if err := f.compare(ch, h); err != nil {
				return err
			}
			x.Times.Came(f.begun)
		}
		if h := ch.oldestRTS(); h != nil {
			if err := f.compare(ch, h); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	// busyPolls is how many polls with something to do may pass before cancellation
	// is looked for: some hundred microseconds.
	busyPolls = 64
)

// run drives the flow to its end.
func (f *flow) run(ctx context.Context) (err error) {
	var idleSince, lookedAt time.Time
	defer func() {
		if err != nil {
			if idleSince.IsZero() {
				idleSince = time.Now()
			}
			f.x.Failed(f.place(), idleSince)
		}
	}()
	var look time.Duration
	checked := false // since then
	said := false    // that it is over here
	// What is first is sent before anything is looked for: acknowledgements ride behind
	// it, which a poll would send by themselves.
	if _, err := f.engine.post(); err != nil {
		return err
	}
	// An earlier operation's polls may have brought data of this one: that needs no poll,
	// which is a system call where software is the device.
	f.now = 0
	if _, err := f.act(); err != nil {
		return err
	}
	state := f.engine.state()
	for loops := 0; state != done; loops++ {
		f.now = 0
		moved, err := f.poll()
		if err != nil {
			return err
		}
		// The wire first: it works while this CPU reduces.
		posted, err := f.engine.post()
		if err != nil {
			return err
		}
		if posted {
			f.now = 0
		}
		worked, err := f.act()
		if err != nil {
			return err
		}
		if state = f.engine.state(); state != running && !said {
			said = true
			did, err := f.isOver(state)
			if err != nil {
				return err
			}
			moved = moved || did
		}
		if moved || posted || worked {
			f.x.waiter.Reset()
			idleSince, checked = time.Time{}, false
			if loops%busyPolls != 0 {
				continue
			}
		}
		if err := f.x.Stopped(ctx); err != nil {
			return err
		}
		if moved || posted || worked {
			continue
		}
		now := time.Now()
		if looked := now.Sub(lookedAt); !idleSince.IsZero() && looked > sharedmem.Asleep {
			idleSince = idleSince.Add(looked) // this process was stopped, and others had no time meanwhile
		}
		lookedAt = now
		f.x.Times.Ran(trace.At(now))
		idle := now.Sub(idleSince)
		switch {
		case idleSince.IsZero():
			idleSince, look = now, watch.LookAround
		case idle > f.x.Ring.Timeout():
			return f.x.Blamed(fmt.Errorf("%w for %v: %s%s%s", sharedmem.ErrTimeout, f.x.Ring.Timeout(), f.engine.progress(), watch.Awaited(f.place()), f.elsewhere()), idleSince)
		case idle > f.x.Ring.Timeout()/2 && !checked:
			checked = true
			if err := f.check(); err != nil {
				return err
			}
		case idle > look:
			look += watch.LookAround
			if err := f.x.Look(f.sign); err != nil {
				return err
			}
			if err := f.x.Waits(f.place(), idleSince, f.peers()); err != nil {
				return err
			}
		}
		if err := f.x.waiter.Wait(); err != nil {
			return fmt.Errorf("wait for completions: %w", err)
		}
	}
	if !said {
		if _, err := f.isOver(state); err != nil {
			return err
		}
	}
	if f.detached {
		f.x.Token.Release() // acknowledgements ride behind what is sent next
	} else if err := f.x.Token.End(); err != nil {
		return fmt.Errorf("poll: %w", err)
	}
	TraceEnd(f.seq)
	return nil
}

// place is where the operation waits.
func (f *flow) place() diagnose.Place {
	p := diagnose.Place{Operation: f.seq}
	f.engine.where(&p)
	return p
}

// isOver is for when nothing is left to post or work.
func (f *flow) isOver(s state) (did bool, err error) {
	if s == over && !f.detached {
		// What peers wait for has nothing left to ride behind.
		if err := f.x.Token.Progress(); err != nil {
			return false, fmt.Errorf("poll: %w", err)
		}
	}
	return f.engine.behind()
}

// behind is that of most engines.
func (*flow) behind() (bool, error) { return false, nil }

// act works what has come, and posts what depends on it, which does not wait for the next poll.
func (f *flow) act() (worked bool, err error) {
	if worked, err = f.engine.work(); worked && err == nil {
		_, err = f.engine.post()
	}
	return worked, err
}

// peers are the ranks that the flow goes through.
func (f *flow) peers() (ranks []int) {
	for _, ch := range f.uses {
		if !slices.Contains(ranks, ch.edge.Peer) {
			ranks = append(ranks, ch.edge.Peer)
		}
	}
	return ranks
}

// elsewhere says what others wait for this rank with, for the error of a wait.
func (f *flow) elsewhere() string {
	if a, ok := f.x.Ring.Stalls().Awaited(); ok {
		return fmt.Sprintf("; meanwhile %s", a)
	}
	return ""
}

// check has the devices find out whether the peers' still answer, where nothing
// is on its way to them that would: a WRITE of no bytes, which their processes do not
// notice. If one is gone, retries run out, and that names it before all ranks end up
// with no progress.
func (f *flow) check() error {
	for _, ch := range f.uses {
		if ch.edge.Outstanding > 0 {
			continue
		}
		addr, rkey := ch.edge.RemoteSlot(0)
		wr := verbs.WorkRequest{ID: ring.WRID(ch.edge.ID, wrCheck, 0), Opcode: verbs.OpWrite, RemoteAddr: addr, RKey: rkey}
		if err := ch.post(wr, 0); err != nil {
			return err
		}
	}
	return nil
}

// header returns the header of a position of this operation.
func (f *flow) header(kind message.Kind, position, length int) message.Header {
	return message.Header{
		Kind: kind, Epoch: f.x.Ring.Epoch(), Seq: f.seq, Digest: f.sign.Digest, Arg: f.sign.Count, Root: uint32(f.sign.Root), Sender: uint32(f.x.rank),
		Segment: uint32(position), Length: uint32(length),
	}
}

// recordEnd records the operation, which ended or failed, and what is open in it.
func (f *flow) recordEnd() {
	end := trace.Now()
	f.x.Times.End(end)
	if f.begun == 0 || end == 0 {
		return
	}
	f.engine.recordOpen(end)
	RecordOperation(f.begun, end, &f.call, f.seq)
}
