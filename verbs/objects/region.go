package objects

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
	// Rows is how many rows a Table has, 0 included.
	Rows = 1 << 16
	// maxRegions is how many regions a Table holds.
	maxRegions = Rows - 1
)

// Table is a Context's table of memory regions. A key is random: nobody guesses it, and
// that of a closed region does not open its successor. Its upper 16 bits are the row. Row
// 0 stays empty: a key of 0 opens nothing.
type Table struct {
	blocks [Rows / regionBlock]atomic.Pointer[[regionBlock]atomic.Pointer[Region]]
	mu     sync.Mutex
	open   int // regions; guarded by mu
}

// Row is where the region of a key stands in its Table.
func Row(key uint32) uint32 { return key >> 16 }

// Region is a registered range of memory. It does not change after creation.
type Region struct {
	Domain *Domain
	addr   uint64
	length uint64
	key    uint32
	access verbs.Access
	kind   verbs.MemoryKind
	closed atomic.Bool

	// Arena and Offset are where the memory lies, if its kind is
	// verbs.MemoryArena.
	Arena, Offset uint64
}

// Get returns the open region of a key, nil if there is none.
func (t *Table) Get(key uint32) *Region {
	row := Row(key)
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

func (t *Table) add(r *Region) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == maxRegions {
		return fmt.Errorf("register memory: %w: %d regions are open, which is the most", verbs.ErrNoMemory, maxRegions)
	}
	t.open++
	// From a random row on to the first that is free: one is.
	for r.key = verbs.Random32(); ; r.key += 1 << 16 {
		row := Row(r.key)
		if row == 0 {
			continue
		}
		block := t.blocks[row/regionBlock].Load()
		if block == nil {
			block = new([regionBlock]atomic.Pointer[Region])
			t.blocks[row/regionBlock].Store(block)
		}
		if block[row%regionBlock].CompareAndSwap(nil, r) {
			return nil
		}
	}
}

func (t *Table) remove(r *Region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
	row := Row(r.key)
	t.blocks[row/regionBlock].Load()[row%regionBlock].Store(nil)
}

// Covers reports whether length bytes at addr lie inside.
func (r *Region) Covers(addr, length uint64) bool {
	return addr >= r.addr && length <= r.length && addr-r.addr <= r.length-length
}

func (r *Region) Addr() uint64           { return r.addr }
func (r *Region) Length() uint64         { return r.length }
func (r *Region) LKey() uint32           { return r.key }
func (r *Region) RKey() uint32           { return r.key }
func (r *Region) Access() verbs.Access   { return r.access }
func (r *Region) Kind() verbs.MemoryKind { return r.kind }

func (r *Region) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	d := r.Domain
	d.ctx.table.remove(r)
	d.children.Add(-1)
	d.ctx.owner.Withdrawn(r)
	if trace.Enabled(trace.Verbs) {
		trace.Debug(trace.Verbs, "memory deregistered", slog.String("addr", fmt.Sprintf("%#x", r.addr)), slog.String("key", fmt.Sprintf("%#x", r.key)))
	}
	return nil
}

// Domain is a protection domain, and what a queue pair knows of memory.
type Domain struct {
	Num      uint32 // of the domains that its Context ever had
	ctx      *Context
	children atomic.Int64
	closed   atomic.Bool
}

func (c *Context) AllocPD() (verbs.PD, error) {
	if err := c.adopt(); err != nil {
		return nil, err
	}
	return &Domain{ctx: c, Num: c.domains.Add(1)}, nil
}

func (p *Domain) Context() verbs.Context { return p.ctx.owner }

func (p *Domain) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) { return p.ctx.owner.CreateQP(p, a) }

func (p *Domain) RegMR(addr, length uint64, access verbs.Access) (verbs.MR, error) {
	if p.closed.Load() {
		return nil, fmt.Errorf("register memory: protection domain: %w", verbs.ErrClosed)
	}
	what := fmt.Sprintf("register %d bytes at %#x on %s", length, addr, p.ctx.device.Name())
	if err := verbs.CheckRegion(what, addr, length, access, p.ctx.limits.MaxMRSize); err != nil {
		return nil, err
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
