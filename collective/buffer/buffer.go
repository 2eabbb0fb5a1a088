// Package buffer is the memory that collectives compute in: outside the Go heap, registered with the
// devices of a ring, and such that the other ranks of the host can map it where that is possible.
package buffer

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"ringcli/collective/async"
	"ringcli/configs/usage"
	"ringcli/ring"
	"ringcli/ring/device"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// Access: rendezvous-write needs the one remote right, rendezvous-read the other.
const Access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead

// Buffer is memory outside the Go heap that is registered with a Comm, so that
// neighbours may write into it and read from it while an operation runs.
type Buffer struct {
	pool    *Pool
	addr, n uint64
	memory  verbs.Memory // of Alloc or Share; nil if it is the user's
	reg     *ring.Registration
	live    bool   // until it is deregistered; guarded by pool.mu
	serial  uint32 // see Vector
	// Drain waits for requests of operations that have ended; nil if there are none.
	Drain func()
}

// Pool is the buffers of a Comm. All methods may be called concurrently.
type Pool struct {
	// Version changes with all that a prepared call rests on, of which buffers are a part.
	Version atomic.Uint64
	// Flying are the operations that were started, which keep their buffers.
	Flying async.Queue

	ring *ring.Ring
	// registering is held for reading while memory is registered, which pins it
	// and takes its time, so not with mu held; Close waits for it.
	registering sync.RWMutex

	mu      sync.Mutex
	over    error     // guarded by mu: why nothing is registered any more
	buffers []*Buffer // guarded by mu
	serial  uint32    // guarded by mu: of the last buffer that others can map
}

// NewPool makes a pool for memory that the devices of a ring reach.
func NewPool(r *ring.Ring) *Pool {
	p := &Pool{ring: r}
	p.Version.Store(1)
	return p
}

// Alloc maps n zeroed bytes and registers them.
func (p *Pool) Alloc(n uint64) (*Buffer, error) {
	m, err := p.ring.Memory().Alloc(n)
	if err != nil {
		return nil, err
	}
	return p.own(n, m)
}

// own registers memory that goes with its buffer.
func (p *Pool) own(n uint64, m verbs.Memory) (*Buffer, error) {
	b, err := p.register(m.Addr(), n, m)
	if err != nil {
		return nil, errors.Join(err, m.Free())
	}
	return b, nil
}

// Register registers n bytes of the user's memory at addr.
func (p *Pool) Register(addr, n uint64) (*Buffer, error) { return p.register(addr, n, nil) }

func (p *Pool) register(addr, n uint64, own verbs.Memory) (*Buffer, error) {
	p.registering.RLock()
	defer p.registering.RUnlock()
	if err := p.Over(); err != nil {
		return nil, fmt.Errorf("register %d bytes: %w", n, err)
	}
	// A region of no bytes is refused by devices; memory of our own has a page at least.
	if n == 0 && own == nil {
		return nil, usage.Errorf("register 0 bytes at %#x: expected 1 or more", addr)
	}
	reg, err := p.ring.Memory().Register(addr, max(n, 1), Access)
	if err != nil {
		return nil, err
	}
	b := &Buffer{pool: p, addr: addr, n: n, memory: own, reg: reg, live: true}
	p.mu.Lock()
	defer p.mu.Unlock()
	// What has closed or failed meanwhile would never deregister this.
	if p.over != nil {
		return nil, fmt.Errorf("register %d bytes: %w", n, errors.Join(p.over, b.deregister()))
	}
	b.maySerial()
	p.buffers = append(p.buffers, b)
	p.Version.Add(1)
	return b, nil
}

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

// Share registers n bytes of the user's memory at addr such that the ranks of the host reach them.
func (p *Pool) Share(addr, n uint64, how Sharing) (*Buffer, error) {
	if err := p.Over(); err != nil {
		return nil, fmt.Errorf("share %d bytes: %w", n, err)
	}
	if how == MayMove {
		if b := p.At(addr, n); b != nil && b.serial == 0 {
			return nil, usage.Errorf("share %d bytes at %#x: %d bytes at %#x are registered as they are, perhaps on devices that would go on with the old pages: free that Buffer first", n, addr, b.n, b.addr)
		}
	}
	m, err := p.ring.Memory().Adopt(addr, n, how == MayMove)
	if err != nil {
		return nil, usage.If(err, verbs.ErrInvalid)
	}
	return p.own(n, m)
}

// At returns a buffer that has some of n bytes at addr, or nil.
func (p *Pool) At(addr, n uint64) *Buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.buffers {
		if b.live && b.addr < addr+n && addr < b.addr+b.n {
			return b
		}
	}
	return nil
}

// Over returns why nothing is registered any more, or nil.
func (p *Pool) Over() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// End kills the keys of all buffers, whose memory stays, and has no others be registered. The first
// cause is the one that counts: false, if there was one before.
func (p *Pool) End(cause error) (first bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != nil {
		return false, nil
	}
	p.over = cause
	for _, b := range p.buffers {
		err = errors.Join(err, b.deregister())
	}
	return true, err
}

// Close refuses further buffers, for that cause, and frees those that are left, once what before says
// is done. No operation may run.
func (p *Pool) Close(cause error, before func() error) error {
	p.registering.Lock()
	defer p.registering.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = cause
	errs := []error{before()}
	for _, b := range p.buffers {
		errs = append(errs, b.release())
	}
	p.buffers = nil
	return errors.Join(errs...)
}

// MayBeMapped is to be called when the ring has got its device of shared memory: buffers that were there
// may be mapped from now on.
func (p *Pool) MayBeMapped() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.buffers {
		b.maySerial()
	}
}

// Grow replaces a buffer by one of at least n bytes, if it has fewer.
func (p *Pool) Grow(b **Buffer, n uint64) (*Buffer, error) {
	if *b != nil && (*b).n >= n {
		return *b, nil
	}
	if *b != nil {
		if err := (*b).Free(); err != nil {
			return nil, err
		}
		*b = nil
	}
	next, err := p.Alloc(n)
	if err != nil {
		return nil, err
	}
	*b = next
	return next, nil
}

// Lookup returns n registered bytes at addr. No bytes need no registration.
func (p *Pool) Lookup(what string, addr, n uint64) (Vector, error) {
	if n == 0 {
		return Vector{Base: addr}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.buffers {
		if b.live && addr >= b.addr && n <= b.n && addr-b.addr <= b.n-n {
			return Vector{Base: addr, Keys: b.reg.Keys(), Serial: b.serial}, nil
		}
	}
	return Vector{}, usage.Errorf("%s buffer: %d bytes at %#x are not registered: expected memory from this Comm's Alloc or Register", what, n, addr)
}

// Vector is where a user's elements lie: element i at Base + i*size. Of a buffer
// that holds the own chunk only, Base is where element 0 would be.
type Vector struct {
	Base uint64
	Keys device.Keys
	// Serial tells its buffer from all before among those that the other ranks of
	// this host can map; 0 is none of them.
	Serial uint32
}

// Bytes views n bytes from element lo on, of elements of size bytes.
func (v *Vector) Bytes(lo, n, size int) []byte { return memory.Bytes(v.Base+uint64(lo*size), n) }

// Vector is the buffer as elements, the first of them at its begin.
func (b *Buffer) Vector() Vector { return Vector{b.addr, b.reg.Keys(), b.serial} }

// maySerial gives a buffer that others can map its serial number. It needs the pool's mu.
func (b *Buffer) maySerial() {
	if b.serial == 0 && b.reg.Mappable() {
		b.pool.serial++
		b.serial = b.pool.serial
	}
}

// Addr returns the address of the first byte.
func (b *Buffer) Addr() uint64 { return b.addr }

// Len returns the number of bytes.
func (b *Buffer) Len() int { return int(b.n) }

// Bytes views the buffer. The slice dies with Free and with the Comm's Close.
func (b *Buffer) Bytes() []byte { return memory.Bytes(b.addr, int(b.n)) }

// LKey returns the key for requests on a device.
func (b *Buffer) LKey(d *device.Device) uint32 { return b.reg.LKey(d) }

// RKey returns the key that a peer needs on a device.
func (b *Buffer) RKey(d *device.Device) uint32 { return b.reg.RKey(d) }

// Mappable is an error unless the other ranks of the host can map the buffer.
func (b *Buffer) Mappable() error {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	switch {
	case !b.live:
		return fmt.Errorf("its %d bytes at %#x are freed", b.n, b.addr)
	case b.serial == 0:
		return fmt.Errorf("its %d bytes at %#x cannot be mapped by others: expected memory from Alloc or Share", b.n, b.addr)
	}
	return nil
}

// Free deregisters the memory, and unmaps it if it came from Alloc; memory of Share is as private
// as it was before, with what it holds. No operation may be using it, which is refused
// of those that were started. Freeing twice is harmless.
func (b *Buffer) Free() error {
	p := b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.buffers, b)
	if i < 0 { // freed: its memory may be another's by now
		return nil
	}
	if err := p.Flying.Free(async.Span{Addr: b.addr, Len: b.n}); err != nil {
		return err
	}
	p.Version.Add(1)
	p.buffers = slices.Delete(p.buffers, i, i+1)
	return b.release()
}

// release needs the pool's mu.
func (b *Buffer) release() error {
	if b.Drain != nil && b.live {
		b.Drain()
	}
	err := b.deregister()
	if b.memory == nil {
		return err
	}
	return errors.Join(err, b.memory.Free())
}

// deregister kills the keys and keeps the memory. It needs the pool's mu.
func (b *Buffer) deregister() error {
	if !b.live {
		return nil
	}
	b.live = false
	return b.reg.Close()
}
