package transport

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/bringup"
	"ringcli/verbs/objects"
	"ringcli/verbs/route"
)

// adapter is an open device with what the transports of a loop share on it.
type adapter struct {
	bringup.Device
	loop   *Loop
	why    string // it was taken among others
	domain uint64 // tells memory of this adapter from all others'

	// token is the right to poll: who has put something in has it.
	token chan struct{}
	wc    [64]verbs.Completion // guarded by token, as last
	last  *Transport           // the last one that dispatch found

	transports sync.Map      // *Transport by number
	polled     atomic.Uint64 // completions and looks of those who wait, for the goroutine to see
	eager      atomic.Bool   // the goroutine shall not leave polling to others
	kicked     chan struct{} // capacity 1: wakes the goroutine from a pause

	mu       sync.Mutex
	queues   []*queue // guarded by mu, as all below
	list     []*Transport
	memories map[*Memory]struct{}
	number   uint64 // of the last transport
	stop     chan struct{}
	done     chan struct{} // closed when the goroutine has ended; nil while there is none

	shared atomic.Pointer[[]*queue] // queues, for those who poll
}

// queue is a completion queue of several transports.
type queue struct {
	verbs.CQ
	room  int  // completions that are left to give out; guarded by adapter.mu
	armed bool // belongs to the goroutine
}

// firstQueue is how many transports the first completion queue serves; each further one
// serves fourfold, so that a thousand have four to poll.
const firstQueue = 16

func open(l *Loop, p place, o *Options) (*adapter, error) {
	device, why, err := choose(o)
	if err != nil {
		return nil, err
	}
	a := &adapter{
		loop: l, why: why, token: make(chan struct{}, 1), kicked: make(chan struct{}, 1), memories: make(map[*Memory]struct{}),
		domain: uint64(verbs.Random32())<<32 | uint64(verbs.Random32()),
	}
	a.shared.Store(new([]*queue))
	err = a.Open(device, verbs.OpenOptions{LocalAddr: p.local}, p.port, route.Want{Index: o.GIDIndex, Local: p.local})
	if err == nil {
		err = a.AllocPD()
	}
	if err == nil {
		a.Channel, err = a.Context.CreateCompChannel()
	}
	if err == nil && !o.Faults.None() {
		err = a.inject(o.Faults)
	}
	if err != nil {
		kind := ErrSystem
		if errors.Is(err, verbs.ErrInvalid) {
			kind = ErrInvalidArgument
		}
		return nil, errors.Join(verbs.OfKind(kind, err), a.Close())
	}
	return a, nil
}

// inject has packets fare badly on purpose.
func (a *adapter) inject(faults verbs.Faults) error {
	injector, ok := a.Context.(verbs.Injector)
	if !ok {
		return fmt.Errorf("inject faults on %s: %w: only soft devices do", a.Name(), verbs.ErrInvalid)
	}
	return injector.Inject(faults)
}

// room gives out place for so many completions, in a queue that has it or a new one.
func (a *adapter) room(completions int) (*queue, error) {
	for _, q := range a.queues {
		if q.room >= completions {
			q.room -= completions
			return q, nil
		}
	}
	size := completions * firstQueue << min(2*len(a.queues), 8)
	if most := a.Attr.MaxCQE; most > 0 {
		size = min(size, most)
	}
	if size < completions {
		return nil, failed(ErrInvalidArgument, "a completion queue of %d: %s has at most %d: use a smaller depth", completions, a.Name(), size)
	}
	cq, err := a.Context.CreateCQ(size, a.Channel)
	if err != nil {
		return nil, failed(ErrSystem, "%w", err)
	}
	q := &queue{CQ: cq, room: size - completions}
	a.queues = append(slices.Clip(a.queues), q)
	list := a.queues
	a.shared.Store(&list)
	return q, nil
}

// add makes a queue pair for a transport, and has the goroutine run.
func (a *adapter) add(t *Transport) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	completions := t.pair.sendDepth + t.pair.recvDepth
	q, err := a.room(completions)
	if err != nil {
		return err
	}
	a.CQ = q.CQ
	limits := verbs.QPCap{MaxSendWR: t.pair.sendDepth, MaxRecvWR: t.pair.recvDepth, MaxSendSGE: 1, MaxRecvSGE: 1}
	if !a.Attr.Software && !a.Attr.HostLocal { // those copy inline data once more
		limits.MaxInlineData = inlineMost
	}
	qp, got, err := a.CreateQP(limits, false)
	a.CQ = nil
	if err != nil {
		q.room += completions
		return failed(ErrSystem, "queue pair on %s: %w", a.Name(), err)
	}
	a.number++
	t.pair.qp, t.pair.queue, t.pair.number, t.pair.inline = qp, q, a.number, got.MaxInlineData
	a.list = append(a.list, t)
	a.transports.Store(t.pair.number, t)
	if a.done == nil {
		a.stop, a.done = make(chan struct{}), make(chan struct{})
		go a.run(a.stop, a.done)
	}
	a.kick()
	return nil
}

// remove closes the queue pair of a transport. The last one ends the goroutine.
func (a *adapter) remove(t *Transport) error {
	err := t.pair.qp.Close()
	a.mu.Lock()
	t.pair.queue.room += t.pair.sendDepth + t.pair.recvDepth
	a.list = slices.DeleteFunc(a.list, func(other *Transport) bool { return other == t })
	a.transports.Delete(t.pair.number)
	done := a.done
	if last := len(a.list) == 0; !last || done == nil {
		a.mu.Unlock()
		return err
	}
	a.done = nil
	close(a.stop)
	a.mu.Unlock()
	a.kick()
	<-done
	return err
}

// everybody returns the transports that there are.
func (a *adapter) everybody() []*Transport {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

// close closes the transports, the memories and the device.
func (a *adapter) close() error {
	list := a.everybody()
	errs := make([]error, len(list))
	var closing sync.WaitGroup
	for i, t := range list { // each waits for its peer
		closing.Go(func() { errs[i] = t.Close() })
	}
	closing.Wait()
	a.mu.Lock()
	memories := make([]*Memory, 0, len(a.memories))
	for m := range a.memories {
		memories = append(memories, m)
	}
	a.mu.Unlock()
	for _, m := range memories {
		errs = append(errs, m.Close())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range a.queues {
		errs = append(errs, q.Close())
	}
	a.queues = nil
	return errors.Join(append(errs, a.Close())...)
}

// kick wakes the goroutine, and has it take over.
func (a *adapter) kick() {
	a.eager.Store(true)
	select {
	case a.kicked <- struct{}{}:
	default:
	}
}

// chores is how often the goroutine looks for what is overdue, at least.
const chores = 50 * time.Millisecond

// left is how long after the last poll of one who waits the goroutine takes over.
const left = 2 * time.Millisecond

// run polls while nobody else does, and looks for what is overdue.
func (a *adapter) run(stop, done chan struct{}) {
	defer close(done)
	timer := time.NewTimer(chores)
	defer timer.Stop()
	next := objects.Clock() + int64(chores)
	for before := a.polled.Load(); ; {
		select {
		case <-stop:
			return
		default:
		}
		if now := objects.Clock(); now >= next {
			next = now + int64(chores)
			for _, t := range a.everybody() {
				t.look(now)
			}
		}
		// While others poll, each completion would wake this goroutine for nothing.
		if polled := a.polled.Load(); polled != before && !a.eager.Swap(false) {
			before = polled
			timer.Reset(left)
			select {
			case <-stop:
				return
			case <-a.kicked:
			case <-timer.C:
			}
			continue
		}
		if a.takeAll() {
			before = a.polled.Load()
			continue
		}
		before = a.polled.Load()
		cq, err := a.Channel.GetEvent(chores)
		for _, q := range *a.shared.Load() {
			q.armed = q.armed && err == nil && q.CQ != cq || q.armed && errors.Is(err, verbs.ErrTimeout)
		}
	}
}

// takeAll polls and, once there is nothing, arms the queues. It reports whether there
// was anything.
func (a *adapter) takeAll() (any bool) {
	select {
	case a.token <- struct{}{}:
	case <-time.After(left): // somebody polls, who sees what there is
		return true
	}
	defer func() { <-a.token }()
	for a.poll() {
		any = true
	}
	for _, q := range *a.shared.Load() {
		if !q.armed {
			q.armed = q.ReqNotify(false) == nil
		}
	}
	for a.poll() { // what came before it was armed makes no event
		any = true
	}
	return any
}
