package collective

import (
	"errors"
	"fmt"
	"slices"

	"ringcli/collective/async"
	"ringcli/configs/usage"
	"ringcli/ring"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// Buffer is memory outside the Go heap that is registered with a Comm, so that
// neighbours may write into it and read from it while an operation runs.
type Buffer struct {
	c       *Comm
	addr, n uint64
	memory  verbs.Memory // of Alloc or Share; nil if it is the user's
	reg     *ring.Registration
	live    bool   // until it is deregistered; guarded by c.mu
	serial  uint32 // see vector
	drain   func() // waits for requests of operations that have ended; nil if there are none
}

// bufferAccess: rendezvous-write needs the one remote right, rendezvous-read the
// other.
const bufferAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead

// Alloc maps n zeroed bytes outside the Go heap and registers them: where ranks
// share a host, such that all of them can reach it. The buffer lives until Free or
// the Comm's Close.
func (c *Comm) Alloc(n uint64) (*Buffer, error) {
	m, err := c.ring.AllocMemory(n)
	if err != nil {
		return nil, err
	}
	b, err := c.register(m.Addr(), n, m)
	if err != nil {
		return nil, errors.Join(err, m.Free())
	}
	return b, nil
}

// Register registers n bytes of the caller's memory at addr, which must lie
// outside the Go heap and stay mapped until Free or the Comm's Close.
func (c *Comm) Register(addr, n uint64) (*Buffer, error) { return c.register(addr, n, nil) }

func (c *Comm) register(addr, n uint64, own verbs.Memory) (*Buffer, error) {
	c.registering.RLock()
	defer c.registering.RUnlock()
	if err := c.Err(); err != nil {
		return nil, fmt.Errorf("register %d bytes: %w", n, err)
	}
	// A region of no bytes is refused by devices; memory of our own has a page at least.
	if n == 0 && own == nil {
		return nil, usage.Errorf("register 0 bytes at %#x: expected 1 or more", addr)
	}
	reg, err := c.ring.RegisterMemory(addr, max(n, 1), bufferAccess)
	if err != nil {
		return nil, err
	}
	b := &Buffer{c: c, addr: addr, n: n, memory: own, reg: reg, live: true}
	c.mu.Lock()
	defer c.mu.Unlock()
	// What has closed or failed meanwhile would never deregister this.
	if err := c.err(); err != nil {
		return nil, fmt.Errorf("register %d bytes: %w", n, errors.Join(err, b.deregister()))
	}
	b.maySerial()
	c.buffers = append(c.buffers, b)
	c.version.Add(1)
	return b, nil
}

// maySerial gives a buffer that others can map its serial number. It needs c.mu.
func (b *Buffer) maySerial() {
	if b.serial == 0 && b.reg.Mappable() {
		b.c.serial++
		b.serial = b.c.serial
	}
}

// mayBeMapped is to be called when the ring has got its device of shared memory: buffers that were there may be
// mapped from now on.
func (c *Comm) mayBeMapped() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.buffers {
		b.maySerial()
	}
}

// Addr returns the address of the first byte.
func (b *Buffer) Addr() uint64 { return b.addr }

// Len returns the number of bytes.
func (b *Buffer) Len() int { return int(b.n) }

// Bytes views the buffer. The slice dies with Free and with the Comm's Close.
func (b *Buffer) Bytes() []byte { return memory.Bytes(b.addr, int(b.n)) }

// Free deregisters the memory, and unmaps it if it came from Alloc; memory of Share is as private
// as it was before, with what it holds. No operation may be using it, which is refused
// of those that were started. Freeing twice is harmless.
func (b *Buffer) Free() error {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	i := slices.Index(b.c.buffers, b)
	if i < 0 { // freed: its memory may be another's by now
		return nil
	}
	if err := b.c.flying.Free(async.Span{Addr: b.addr, Len: b.n}); err != nil {
		return err
	}
	b.c.version.Add(1)
	b.c.buffers = slices.Delete(b.c.buffers, i, i+1)
	return b.release()
}

// release needs c.mu.
func (b *Buffer) release() error {
	if b.drain != nil && b.live {
		b.drain()
	}
	err := b.deregister()
	if b.memory == nil {
		return err
	}
	return errors.Join(err, b.memory.Free())
}

// deregister kills the keys and keeps the memory. It needs c.mu.
func (b *Buffer) deregister() error {
	if !b.live {
		return nil
	}
	b.live = false
	return b.reg.Close()
}

// lookup returns n registered bytes at addr. No bytes need no registration.
func (c *Comm) lookup(what string, addr, n uint64) (vector, error) {
	if n == 0 {
		return vector{base: addr}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.buffers {
		if b.live && addr >= b.addr && n <= b.n && addr-b.addr <= b.n-n {
			return vector{base: addr, keys: b.reg.Keys(), serial: b.serial}, nil
		}
	}
	return vector{}, usage.Errorf("%s buffer: %d bytes at %#x are not registered: expected memory from this Comm's Alloc or Register", what, n, addr)
}
