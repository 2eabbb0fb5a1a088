package soft

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"ringcli/trace"
	"ringcli/verbs"
)

const (
	regionBlock = 256
	maxRegions  = 1 << 16
)

// regions is a Context's table of memory regions. A key is the row in its upper
// 24 bits and in its lower 8 a tag that counts the row's registrations, so that
// the key of a closed region does not open its successor. Row 0 stays empty: a
// key of 0 opens nothing.
type regions struct {
	blocks [maxRegions / regionBlock]atomic.Pointer[[regionBlock]atomic.Pointer[region]]
	mu     sync.Mutex
	free   []uint32 // keys to use next, oldest first; guarded by mu
	used   uint32   // rows ever used; guarded by mu
	live   int      // guarded by mu
}

// region is a registered range of memory. It does not change after creation.
type region struct {
	pd     *pd
	addr   uint64
	length uint64
	key    uint32
	access verbs.Access
	closed atomic.Bool
}

func (t *regions) get(key uint32) *region {
	row := key >> 8
	if row >= maxRegions {
		return nil
	}
	block := t.blocks[row/regionBlock].Load()
	if block == nil {
		return nil
	}
	r := block[row%regionBlock].Load()
	if r == nil || r.key != key {
		return nil
	}
	return r
}

func (t *regions) add(r *region) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.free) > 0:
		r.key = t.free[0]
		t.free = t.free[1:]
	case t.used < maxRegions-1:
		t.used++
		r.key = t.used << 8
	default:
		return fmt.Errorf("register memory: %w: %d regions are open, which is the most", verbs.ErrNoMemory, maxRegions-1)
	}
	row := r.key >> 8
	block := t.blocks[row/regionBlock].Load()
	if block == nil {
		block = new([regionBlock]atomic.Pointer[region])
		t.blocks[row/regionBlock].Store(block)
	}
	block[row%regionBlock].Store(r)
	t.live++
	return nil
}

func (t *regions) remove(r *region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := r.key >> 8
	t.blocks[row/regionBlock].Load()[row%regionBlock].Store(nil)
	t.free = append(t.free, r.key&^0xff|(r.key+1)&0xff)
	t.live--
}

func (r *region) covers(addr, length uint64) bool {
	return addr >= r.addr && length <= r.length && addr-r.addr <= r.length-length
}

// Addr returns the first byte's address.
func (r *region) Addr() uint64 { return r.addr }

// Length returns the number of bytes.
func (r *region) Length() uint64 { return r.length }

// LKey returns the key for SGEs.
func (r *region) LKey() uint32 { return r.key }

// RKey returns the key for the peer.
func (r *region) RKey() uint32 { return r.key }

// Access returns the rights given at registration.
func (r *region) Access() verbs.Access { return r.access }

// Kind returns verbs.MemoryHost.
func (r *region) Kind() verbs.MemoryKind { return verbs.MemoryHost }

// Close deregisters. Closing twice is harmless.
func (r *region) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	c := r.pd.ctx
	c.regions.remove(r)
	r.pd.children.Add(-1)
	if ep := c.ep.Load(); ep != nil {
		ep.mu.Lock()   // whoever looked the region up has finished after this
		ep.mu.Unlock() //nolint:staticcheck // empty on purpose: it is a barrier
	}
	if trace.Enabled(trace.Verbs) {
		trace.Debug(trace.Verbs, "memory deregistered", slog.String("addr", fmt.Sprintf("%#x", r.addr)), slog.String("key", fmt.Sprintf("%#x", r.key)))
	}
	return nil
}

// pd is a protection domain, and what a queue pair knows of memory.
type pd struct {
	ctx      *Context
	children atomic.Int64
	closed   atomic.Bool
}

// Context returns the device context.
func (p *pd) Context() verbs.Context { return p.ctx }

// RegMR implements verbs.PD.
func (p *pd) RegMR(addr, length uint64, access verbs.Access) (verbs.MR, error) {
	switch {
	case p.closed.Load():
		return nil, fmt.Errorf("register memory: protection domain: %w", verbs.ErrClosed)
	case addr == 0 || length == 0 || addr+length < addr:
		return nil, fmt.Errorf("register %d bytes at %#x: %w: expected a mapped, non-empty range", length, addr, verbs.ErrInvalid)
	case access&^(verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead|verbs.AccessRemoteAtomic) != 0:
		return nil, fmt.Errorf("register memory with access %s: %w: unknown rights", access, verbs.ErrInvalid)
	case access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && access&verbs.AccessLocalWrite == 0:
		return nil, fmt.Errorf("register memory with access %s: %w: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE", access, verbs.ErrInvalid)
	}
	r := &region{pd: p, addr: addr, length: length, access: access}
	if err := p.ctx.regions.add(r); err != nil {
		return nil, err
	}
	p.children.Add(1)
	if trace.Enabled(trace.Verbs) {
		trace.Debug(trace.Verbs, "memory registered", slog.String("addr", fmt.Sprintf("%#x", addr)), slog.Uint64("bytes", length),
			slog.String("key", fmt.Sprintf("%#x", r.key)), slog.String("access", access.String()))
	}
	return r, nil
}

// Close implements verbs.PD.
func (p *pd) Close() error {
	if n := p.children.Load(); n > 0 {
		return fmt.Errorf("close protection domain: %w: %d queue pairs and regions are open", verbs.ErrBusy, n)
	}
	if !p.closed.Swap(true) {
		p.ctx.children.Add(-1)
	}
	return nil
}

// Local implements rc.Memory.
func (p *pd) Local(lkey uint32, addr uint64, length uint32, write bool) bool {
	r := p.ctx.regions.get(lkey)
	return r != nil && r.pd == p && r.covers(addr, uint64(length)) && (!write || r.access&verbs.AccessLocalWrite != 0)
}

// Remote implements rc.Memory.
func (p *pd) Remote(rkey uint32, addr uint64, length uint64, right verbs.Access) bool {
	r := p.ctx.regions.get(rkey)
	return r != nil && r.pd == p && r.covers(addr, length) && r.access&right != 0
}
