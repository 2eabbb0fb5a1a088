package objects

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"ringcli/trace"
	"ringcli/verbs"
)

// Domain is a protection domain, and what a queue pair knows of memory.
type Domain struct {
	Num      uint32 // of the domains that its Context ever had
	ctx      *Context
	children atomic.Int64
	closed   atomic.Bool
}

// AllocPD implements verbs.Context.
func (c *Context) AllocPD() (verbs.PD, error) {
	if err := c.adopt(); err != nil {
		return nil, err
	}
	return &Domain{ctx: c, Num: c.domains.Add(1)}, nil
}

func (p *Domain) Context() verbs.Context { return p.ctx.owner }

func (p *Domain) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) { return p.ctx.owner.CreateQP(p, a) }

// RegMR implements verbs.PD.
func (p *Domain) RegMR(addr, length uint64, access verbs.Access) (verbs.MR, error) {
	switch {
	case p.closed.Load():
		return nil, fmt.Errorf("register memory: protection domain: %w", verbs.ErrClosed)
	case addr == 0 || length == 0 || addr+length < addr:
		return nil, fmt.Errorf("register %d bytes at %#x: %w: expected a mapped, non-empty range", length, addr, verbs.ErrInvalid)
	case access&^verbs.AccessAll != 0:
		return nil, fmt.Errorf("register memory with access %s: %w: unknown rights", access, verbs.ErrInvalid)
	case access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && access&verbs.AccessLocalWrite == 0:
		return nil, fmt.Errorf("register memory with access %s: %w: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE", access, verbs.ErrInvalid)
	}
	r := &Region{Domain: p, addr: addr, length: length, access: access}
	if r.Arena, r.Offset = p.ctx.owner.Locate(addr, length); r.Arena != 0 {
		r.kind = verbs.MemoryArena
	}
	if err := p.ctx.table.add(r); err != nil {
		return nil, err
	}
	p.children.Add(1)
	p.ctx.owner.Registered(r)
	if trace.Enabled(trace.Verbs) {
		trace.Debug(trace.Verbs, "memory registered", slog.String("addr", fmt.Sprintf("%#x", addr)), slog.Uint64("bytes", length),
			slog.String("key", fmt.Sprintf("%#x", r.key)), slog.String("access", access.String()))
	}
	return r, nil
}

// Close implements verbs.PD.
func (p *Domain) Close() error {
	if n := p.children.Load(); n > 0 {
		return fmt.Errorf("close protection domain: %w: %d queue pairs and regions are open", verbs.ErrBusy, n)
	}
	if !p.closed.Swap(true) {
		p.ctx.release()
	}
	return nil
}

// Region returns the region of a key that lies in this domain and covers length
// bytes at addr, nil if there is none.
func (p *Domain) Region(key uint32, addr, length uint64) *Region {
	if r := p.ctx.table.Get(key); r != nil && r.Domain == p && r.Covers(addr, length) {
		return r
	}
	return nil
}

// Local reports whether lkey covers length bytes at addr, for writing if write is
// set.
func (p *Domain) Local(lkey uint32, addr uint64, length uint32, write bool) bool {
	r := p.Region(lkey, addr, uint64(length))
	return r != nil && (!write || r.access&verbs.AccessLocalWrite != 0)
}

// Remote reports whether rkey covers length bytes at addr and gives the right.
func (p *Domain) Remote(rkey uint32, addr uint64, length uint64, right verbs.Access) bool {
	r := p.Region(rkey, addr, length)
	return r != nil && r.access&right != 0
}
