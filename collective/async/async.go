// Package async has operations in flight: started, and waited for later.
//
// A Queue has at most one goroutine. The first operation that is started begins it, it
// runs one after the other in the order in which they were started, and it ends with the
// last: an idle queue has none, and nothing is to be closed. A context that ends before its
// operation begins has another one, for as long as the cancellation takes; the handle
// resolves after it. Each operation takes its
// place in the line of the lock when it is started, so calls that are made later on the
// goroutines of their callers come after it.
package async

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"ringcli/collective/fifo"
	"ringcli/configs/usage"
)

// Span is memory: n bytes at an address.
type Span struct{ Addr, Len uint64 }

func (s Span) overlaps(other Span) bool {
	return s.Addr < other.Addr+other.Len && other.Addr < s.Addr+s.Len && s.Len > 0 && other.Len > 0
}

func (s Span) String() string { return fmt.Sprintf("[%#x, +%d)", s.Addr, s.Len) }

// Task is an operation that is to be started.
type Task struct {
	Name          string // for errors
	Reads, Writes Span   // its buffers, which belong to it until its handle resolves
	// Run runs it, and waits for its turn before.
	Run func(context.Context, *fifo.Turn) error
	// Cancel is called when its context ends while others are before it. Run, which comes
	// after it, returns why.
	Cancel func(cause error)
}

// Handle is an operation in flight. All methods may be called from any goroutine.
type Handle struct {
	task Task
	ctx  context.Context
	turn fifo.Turn
	// begins ends the watch over ctx, which is for the time before the operation runs.
	begins func()
	err    error // once done is closed
	done   chan struct{}
}

// Done is closed when the operation has ended, well or not.
func (h *Handle) Done() <-chan struct{} { return h.done }

// Err returns what the operation ended with; nil while it is in flight, too.
func (h *Handle) Err() error {
	select {
	case <-h.done:
		return h.err
	default:
		return nil
	}
}

// Wait waits for the operation's end and returns its error. If ctx ends before, the
// operation goes on: it is cancelled by the context that it was started with.
func (h *Handle) Wait(ctx context.Context) error {
	select {
	case <-h.done:
		return h.err
	default:
	}
	select {
	case <-h.done:
		return h.err
	case <-ctx.Done():
		return fmt.Errorf("%s goes on: waiting for it has ended: %w", h.task.Name, context.Cause(ctx))
	}
}

// watch has the operation cancelled as soon as its context ends, though others are before
// it. The function that it returns ends that, and waits for a cancellation that goes on.
func (h *Handle) watch() (end func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(h.ctx, func() {
		defer close(over)
		h.task.Cancel(context.Cause(h.ctx))
	})
	return func() {
		if !stop() {
			<-over
		}
	}
}

// Queue has the operations in flight that run under one lock, in the order in which they
// were started.
type Queue struct {
	mu    sync.Mutex    // guards what follows
	list  []*Handle     // the first one runs, or waits for its turn
	ended chan struct{} // closed by the goroutine that runs them when it ends; nil if there is none
}

// Start puts an operation into the queue. It refuses one whose buffers are in use by those
// in flight, unless both only read.
func (q *Queue) Start(ctx context.Context, lock *fifo.Lock, t Task) (*Handle, error) {
	h := &Handle{task: t, ctx: ctx, done: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.free(t); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	h.turn = lock.Reserve() // in the order of the list
	h.begins = h.watch()
	q.list = append(q.list, h)
	if q.ended == nil {
		q.ended = make(chan struct{})
		go q.execute(q.ended)
	}
	return h, nil
}

// Free refuses to give memory back that an operation in flight uses.
func (q *Queue) Free(s Span) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.free(Task{Writes: s})
}

// free needs the lock.
func (q *Queue) free(t Task) error {
	for _, h := range q.list {
		for _, pair := range [...][2]Span{{t.Writes, h.task.Writes}, {t.Writes, h.task.Reads}, {t.Reads, h.task.Writes}} {
			if pair[0].overlaps(pair[1]) {
				return usage.Errorf("memory %s overlaps %s, which belongs to %s in flight until its handle resolves: wait for that, or use another buffer",
					pair[0], pair[1], h.task.Name)
			}
		}
	}
	return nil
}

// Idle waits until nothing is in flight and the queue's goroutine has ended. The operations
// have deadlines of their own.
func (q *Queue) Idle() {
	q.mu.Lock()
	ended := q.ended
	q.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// execute runs operations until there is none.
func (q *Queue) execute(ended chan struct{}) {
	defer close(ended)
	for h := q.next(nil); h != nil; h = q.next(h) {
		h.begins()
		h.err = h.task.Run(h.ctx, &h.turn)
	}
}

// next resolves the operation that has run, if there is one, and returns the one after it.
func (q *Queue) next(ran *Handle) *Handle {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ran != nil {
		q.list = slices.Delete(q.list, 0, 1)
		close(ran.done) // after its memory is free for others
	}
	if len(q.list) == 0 {
		q.ended = nil
		return nil
	}
	return q.list[0]
}
