package backend

import (
	"context"
	"time"

	"ringcli/collective"
)

// Backend runs collectives for a rank, together with those of the other ranks that have
// created theirs with it. Every rank makes the same calls in the same order.
type Backend interface {
	Name() string
	Rank() int
	Size() int      // ranks
	Device() string // where its memory is, such as host or cuda:0
	Priority() int

	// Run runs a call, whose buffers are memory that the back end reaches.
	Run(ctx context.Context, k collective.Call) error
	// Start begins a call and returns while it is in flight, as collective.Comm.Start does.
	Start(ctx context.Context, k collective.Call) (*collective.Handle, error)
	// Err returns why the back end can do nothing more, or nil.
	Err() error
	// Close gives all back that it holds. Closing twice is harmless.
	Close() error
}

// World is what a back end is created with: who this rank is, and how the ranks talk.
type World struct {
	Rank, Size int
	// Device is the number of this rank's GPU among those that its runtime shows it, of which
	// there may be fewer: counted on from there, the first follows the last.
	Device int
	// Gather gives every rank the bytes of each.
	Gather func(ctx context.Context, mine []byte) (all [][]byte, err error)
	// Comm is our own ring.
	Comm *collective.Comm
	// Timeout is how long an operation may take, whatever the context of its call: one that
	// another rank does not join ends then. So long Create waits for the others, and then for its
	// communicator. 0 is Comm's, and without one 30 s.
	Timeout time.Duration
}

func (w World) timeout() time.Duration {
	switch {
	case w.Timeout > 0:
		return w.Timeout
	case w.Comm != nil:
		return w.Comm.Timeout()
	}
	return 30 * time.Second // as the ring's own
}

// own is our ring as a back end.
type own struct {
	*collective.Comm
	priority int
}

func (*own) Name() string    { return Ring }
func (o *own) Priority() int { return o.priority }
func (*own) Device() string  { return "host" }

// Close leaves the Comm, which is its maker's.
func (*own) Close() error { return nil }
