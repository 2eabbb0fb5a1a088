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

// Table is a Context's table of memory regions. A key is the row in its upper
// 24 bits and in its lower 8 a tag that counts the row's registrations, so that
// the key of a closed region does not open its successor. Row 0 stays empty: a
// key of 0 opens nothing.
type Table struct {
	blocks [Rows / regionBlock]atomic.Pointer[[regionBlock]atomic.Pointer[Region]]
	mu     sync.Mutex
	free   []uint32 // keys to use next, oldest first; guarded by mu
	used   uint32   // rows ever used; guarded by mu
}

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
	row := key >> 8
	if row >= Rows {
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

func (t *Table) add(r *Region) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.free) > 0:
		r.key = t.free[0]
		t.free = t.free[1:]
	case t.used < maxRegions:
		t.used++
		r.key = t.used << 8
	default:
		return fmt.Errorf("register memory: %w: %d regions are open, which is the most", verbs.ErrNoMemory, maxRegions)
	}
	row := r.key >> 8
	block := t.blocks[row/regionBlock].Load()
	if block == nil {
		block = new([regionBlock]atomic.Pointer[Region])
		t.blocks[row/regionBlock].Store(block)
	}
	block[row%regionBlock].Store(r)
	return nil
}

func (t *Table) remove(r *Region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := r.key >> 8
	t.blocks[row/regionBlock].Load()[row%regionBlock].Store(nil)
	t.free = append(t.free, r.key&^0xff|(r.key+1)&0xff)
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

// Close deregisters. Closing twice is harmless.
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
