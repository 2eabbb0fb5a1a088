package collective

import (
	"context"
	"errors"
	"fmt"

	"ringcli/configs/usage"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// Sharing says what may be done to memory so that the other ranks of a host can map it.
type Sharing uint8

const (
	// InPlace: nothing. It must be mapped shared: a file, a memfd, MAP_SHARED.
	InPlace Sharing = iota
	// MayMove: private memory's pages may be replaced by others that can be shared, at the same
	// addresses and with the same content. The caller says with it that nobody writes to them before
	// Share returns, that no device has pinned them, and that children which are forked
	// may share them. Package mapping has more.
	MayMove
)

// Share registers n bytes of the caller's memory at addr, as Register does, such that the ranks
// of the host reach them as they reach Alloc's: no operation copies them through segments.
// The memory must stay mapped until Free or the Comm's Close. A file
// among it must not be made shorter: then operations fail on whoever uses it. ErrUsage:
// the kernel does not allow it of this memory, or the ring has no shared memory; Register takes it, and
// the error says what would do.
func (c *Comm) Share(addr, n uint64, how Sharing) (*Buffer, error) {
	if err := c.Err(); err != nil {
		return nil, fmt.Errorf("share %d bytes: %w", n, err)
	}
	if how == MayMove {
		if b := c.registered(addr, n); b != nil && b.serial == 0 {
			return nil, usage.Errorf("share %d bytes at %#x: %d bytes at %#x are registered as they are, perhaps on devices that would go on with the old pages: free that Buffer first", n, addr, b.n, b.addr)
		}
	}
	m, err := c.ring.AdoptMemory(addr, n, how == MayMove)
	if err != nil {
		return nil, usage.If(err, verbs.ErrInvalid)
	}
	b, err := c.register(addr, n, m)
	if err != nil {
		return nil, errors.Join(err, m.Free())
	}
	return b, nil
}

// registered returns a buffer that has some of n bytes at addr, or nil.
func (c *Comm) registered(addr, n uint64) *Buffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.buffers {
		if b.live && b.addr < addr+n && addr < b.addr+b.n {
			return b
		}
	}
	return nil
}

// Symmetric is a buffer of each rank, as this rank sees them all.
type Symmetric struct{ views [][]byte }

// Symmetric tells all ranks of a buffer of each, and maps the peers'. It is collective: either
// all ranks get theirs or all get an ErrUsage that names the first rank whose buffer
// cannot be mapped, and why: the ranks do not share memory, or one's came from Register.
func (c *Comm) Symmetric(ctx context.Context, b *Buffer) (*Symmetric, error) {
	if err := c.enter(ctx, nil); err != nil {
		return nil, fmt.Errorf("symmetric: %w", err)
	}
	defer c.leave()
	s, why, err := c.symmetric(ctx, b)
	switch {
	case err != nil:
		return nil, c.fail(fmt.Errorf("symmetric: %w", err))
	case why != "":
		return nil, usage.Errorf("symmetric: %s", why)
	}
	return s, nil
}

// symmetric needs the lock. why is the same on all ranks.
func (c *Comm) symmetric(ctx context.Context, b *Buffer) (s *Symmetric, why string, err error) {
	if err := c.agree(ctx); err != nil {
		return nil, "", err
	}
	if c.size > 1 && c.shared == nil {
		return nil, c.agreement.Load().NotShared, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.ring.Timeout())
	defer cancel()
	s = &Symmetric{make([][]byte, c.size)}
	s.views[c.rank] = b.Bytes()
	if c.size == 1 {
		return s, "", nil
	}
	var problem error
	switch c.mu.Lock(); {
	case !b.live:
		problem = fmt.Errorf("its %d bytes at %#x are freed", b.n, b.addr)
	case b.serial == 0:
		problem = fmt.Errorf("its %d bytes at %#x cannot be mapped by others: expected memory from Alloc or Share", b.n, b.addr)
	}
	c.mu.Unlock()
	device := c.ring.Left().Device()
	infos, why, err := gatherBoards(ctx, c, "buffers of all ranks", boardInfo{Addr: b.addr, RKey: b.reg.RKey(device), Length: b.n}, problem)
	if why != "" || err != nil {
		return nil, why, err
	}
	for rank, p := range infos {
		if rank == c.rank || p.Length == 0 || problem != nil {
			continue
		}
		var local uint64
		if local, problem = c.shared.peers[rank].Map(p.RKey, p.Addr, p.Length, verbs.AccessRemoteRead|verbs.AccessRemoteWrite); problem == nil {
			s.views[rank] = memory.Bytes(local, int(p.Length))
		} else {
			problem = fmt.Errorf("the buffer of rank %d cannot be mapped: %w", rank, problem)
		}
	}
	_, why, err = gatherBoards(ctx, c, "views of all buffers", boardInfo{}, problem)
	return s, why, err
}

// Peer returns a rank's buffer, the own one too, whose length is that rank's. What is written there
// is the rank's own at once; but for atomics, whoever writes does so between two Barriers
// between which nobody else uses those bytes, and no operation.
//
// The slice is valid until this Comm's Close. When its rank frees the buffer, zeros take its
// place, and after some more of that nothing: meet in a Barrier before Free. A rank
// that dies leaves its buffer as it was. Of a file that is made shorter a slice faults.
func (s *Symmetric) Peer(rank int) []byte { return s.views[rank] }
