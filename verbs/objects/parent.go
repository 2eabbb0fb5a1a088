package objects

import (
	"fmt"
	"math"
	"sync/atomic"

	"ringcli/verbs"
)

// Parent is what is open on a Context, which is not closed before: protection
// domains, completion queues and channels. A provider's Context embeds it.
type Parent struct {
	device string
	// children, or shut. A closed Context has none, and gets none.
	children atomic.Int64
}

const shut = math.MinInt64

// Init makes it a Context of a device, which errors name.
func (p *Parent) Init(device string) { p.device = device }

// Live returns an error once the Context is closed.
func (p *Parent) Live() error {
	if p.children.Load() < 0 {
		return fmt.Errorf("device %s: %w", p.device, verbs.ErrClosed)
	}
	return nil
}

// Adopt implements Owner.
func (p *Parent) Adopt() error {
	for {
		n := p.children.Load()
		if n < 0 {
			return p.Live()
		}
		if p.children.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

// Release implements Owner.
func (p *Parent) Release() { p.children.Add(-1) }

// Shut closes the Context to new children, unless it has some. It reports whether
// this call closed it: the second one has nothing to do.
func (p *Parent) Shut() (bool, error) {
	if p.children.CompareAndSwap(0, shut) {
		return true, nil
	}
	if n := p.children.Load(); n >= 0 {
		return false, fmt.Errorf("close %s: %w: %d protection domains, completion queues and channels are open", p.device, verbs.ErrBusy, n)
	}
	return false, nil
}
