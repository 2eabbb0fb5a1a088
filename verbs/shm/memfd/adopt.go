package memfd

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/memory/mapping"
)

// Adopted is memory that was there before, and that others can map.
type Adopted struct {
	addr  uint64
	n     int
	arena *adopted // nil: it lies in an arena of Create
	once  sync.Once
}

// adopted is the arena of Adopted memory, several of which may share it.
type adopted struct {
	*Arena
	users int
}

var (
	adoptedMu sync.Mutex // held while memory is adopted or let go
	adoptions = map[*Arena]*adopted{}
)

// Adopt makes length bytes of this process's memory at addr an arena, where they are. Memory
// that is mapped shared is handed out by the file behind it; private memory, where move
// allows it, becomes shared: package mapping says what that means for others. It must stay
// mapped until Free, which undoes it: what was private is so again, with what it holds
// then. Where another arena holds it all, that one serves. ErrInvalid: the memory cannot be
// had by others, and why.
func Adopt(addr, length uint64, move bool) (*Adopted, error) {
	adoptedMu.Lock()
	defer adoptedMu.Unlock()
	if length == 0 {
		return nil, fmt.Errorf("share 0 bytes at %#x: %w: expected 1 or more", addr, verbs.ErrInvalid)
	}
	m := &Adopted{addr: addr, n: int(length)}
	if a, _, ok := Find(addr, length); ok {
		if m.arena = adoptions[a]; m.arena != nil {
			m.arena.users++
		}
		return m, nil
	}
	a, err := adopt(addr, length, move)
	if err != nil {
		return nil, verbs.OfKind(verbs.ErrInvalid, fmt.Errorf("share %d bytes at %#x: %w", length, addr, err))
	}
	m.arena = &adopted{a, 1}
	adoptions[a] = m.arena
	a.enter()
	return m, nil
}

// adopt makes the arena, which is not yet in the table.
func adopt(addr, length uint64, move bool) (*Arena, error) {
	p, err := mapping.Find(addr, length)
	if err != nil {
		return nil, err
	}
	for _, a := range arenas() {
		if a.addr < p.Addr+p.Size && p.Addr < a.addr+uint64(a.n) {
			return nil, fmt.Errorf("%d bytes at %#x, a part of it or of its pages, are shared already: share both at once", a.n, a.addr)
		}
	}
	a := &Arena{addr: p.Addr, n: int(addr + length - p.Addr), offset: p.Offset}
	if p.Shared {
		a.give = func() error { return nil }
		if a.fd, err = p.Open(); err != nil {
			return nil, err
		}
		if err := a.suits(); err != nil {
			return nil, errors.Join(err, unix.Close(a.fd))
		}
		return a, nil
	}
	if !move {
		return nil, errors.New("it is private memory, which no other process can map: expected a mapping that is shared, or leave to move it")
	}
	if err := p.Movable(); err != nil {
		return nil, err
	}
	a.offset, a.give = 0, p.Restore
	if a.fd, err = newMemfd(p.Size); err != nil {
		return nil, fmt.Errorf("%w; %s", err, advice(err))
	}
	if err := p.Move(a.fd); err != nil {
		return nil, errors.Join(err, unix.Close(a.fd))
	}
	return a, nil
}

// suits says why the file of an arena that is not ours does not serve, and finds out whether somebody
// may make it shorter.
func (a *Arena) suits() error {
	var stat unix.Stat_t
	if err := unix.Fstat(a.fd, &stat); err != nil {
		return fmt.Errorf("fstat: %w", err)
	}
	if end := a.offset + uint64(a.n); uint64(stat.Size) < end {
		return fmt.Errorf("its file has %d bytes, and it ends at %d: make the file longer first", stat.Size, end)
	}
	seals, err := unix.FcntlInt(uintptr(a.fd), unix.F_GET_SEALS, 0)
	if a.loose = err != nil || seals&unix.F_SEAL_SHRINK == 0; a.loose {
		memory.MayFault.Store(true)
	}
	return nil
}

// Addr, Len, Bytes and Free are as verbs.Memory has them, but that the memory stays mapped.

func (m *Adopted) Addr() uint64  { return m.addr }
func (m *Adopted) Len() int      { return m.n }
func (m *Adopted) Bytes() []byte { return memory.Bytes(m.addr, m.n) }

func (m *Adopted) Free() (err error) {
	m.once.Do(func() {
		adoptedMu.Lock()
		defer adoptedMu.Unlock()
		if m.arena == nil {
			return
		}
		if m.arena.users--; m.arena.users == 0 {
			delete(adoptions, m.arena.Arena)
			err = m.arena.Free()
		}
	})
	return err
}
