package sharedmem

import "fmt"

// viewsKept of a peer's memory: what a handful of buffers need that take turns.
const viewsKept = 8

// views are the latest of a peer's regions that Config.Map returned. They need no
// end: a peer that takes a buffer back never gives its key again.
type views struct {
	kept [viewsKept]struct{ key, addr, length, local uint64 }
	next int
}

// find returns where bytes of a peer lie in this process.
func (t *Team) find(p *peer, key, addr, length uint64) (local uint64, err error) {
	for i := range p.views.kept {
		v := &p.views.kept[i]
		if v.key == key && addr >= v.addr && length <= v.length && addr-v.addr <= v.length-length {
			return v.local + addr - v.addr, nil
		}
	}
	if addr+length < addr {
		return 0, fmt.Errorf("memory of rank %d: %w: %d bytes at %#x are more than an address space holds", t.number(p.rank), ErrProtocol, length, addr)
	}
	if local, err = t.mapped(p.rank, key, addr, length); err != nil {
		return 0, fmt.Errorf("memory of rank %d: %w", t.number(p.rank), err)
	}
	v := &p.views.kept[p.views.next]
	v.key, v.addr, v.length, v.local = key, addr, length, local
	p.views.next = (p.views.next + 1) % viewsKept
	return local, nil
}
