package transport

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"ringcli/verbs"
	"ringcli/verbs/gpu"
	"ringcli/verbs/memory"
)

// Memory is registered memory: for the transports of one loop that are on one device. It is
// safe for concurrent use.
type Memory struct {
	adapter *adapter
	mr      verbs.MR
	kind    verbs.MemoryKind
	own     verbs.Memory   // nil unless Alloc or AllocOn made it
	region  *gpu.Region    // of AllocOn; nil: the host's
	pin     runtime.Pinner // of a Go slice

	// users is how many transfers hold it, and closing less once it is being closed.
	users   atomic.Int64
	drained chan struct{} // closed when it is being closed and nobody holds it
	drain   sync.Once
	closed  sync.Once
	result  error // of Close
}

// closing is less than users can ever add.
const closing = math.MinInt64 / 2

// rights of the peer, and of the own device: to write where a read arrives.
const rights = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead

// Register registers length bytes at addr, which must stay mapped, readable and writable
// until Close. kind is where they are: verbs.MemoryHost, which includes memory that
// processes share. The error is ErrRegistration, and says why and what to do.
func (t *Transport) Register(addr, length uint64, kind verbs.MemoryKind) (*Memory, error) {
	return t.adapter.register(addr, length, kind)
}

// RegisterSlice registers a slice, which stays where it is, and alive, until Close.
func (t *Transport) RegisterSlice(data []byte) (*Memory, error) {
	m, err := t.adapter.register(memory.Addr(data), uint64(len(data)), verbs.MemoryHost)
	if err == nil {
		m.pin.Pin(&data[0])
	}
	return m, err
}

// Alloc returns zeroed memory of the best kind that the device knows, registered. Close frees
// it.
func (t *Transport) Alloc(length uint64) (*Memory, error) {
	a := t.adapter
	var own verbs.Memory
	var err error
	if length == 0 {
		return nil, failed(ErrInvalidArgument, "allocate 0 bytes: expected one at least")
	}
	if allocator, ok := a.Context.(verbs.Allocator); ok {
		own, err = allocator.AllocMemory(length)
	} else {
		own, err = memory.Alloc(length)
	}
	if err != nil {
		return nil, failed(ErrSystem, "%w", err)
	}
	m, err := a.register(own.Addr(), length, verbs.MemoryHost)
	if err != nil {
		return nil, errors.Join(err, own.Free())
	}
	m.own = own
	return m, nil
}

// AllocOn returns memory of a GPU, registered by the best path to it that there is (gpu.Path). Bytes
// are then what the host and the GPU pass each other: Store takes them to the GPU, Load fetches them.
// Where it is staged, the peer sees and writes memory of the host: Leaving before a transfer from it,
// and Arrived after one into it, or after the peer's notification, bring that and the GPU's together.
func (t *Transport) AllocOn(d *gpu.Device, length uint64) (*Memory, error) {
	a := t.adapter
	if length == 0 || length > a.Attr.MaxMRSize {
		return nil, failed(ErrInvalidArgument, "allocate %d bytes of %s: expected 1 to %d", length, d.Place, a.Attr.MaxMRSize)
	}
	region, err := gpu.NewRegion(a.PD, d, int(length), rights)
	if err != nil {
		return nil, failed(ErrRegistration, "%w", err)
	}
	m := a.adopt(region.MR)
	m.own, m.region = region, region
	return m, nil
}

// Region is the memory as the GPU's, nil where it is the host's.
func (m *Memory) Region() *gpu.Region { return m.region }

func (a *adapter) register(addr, length uint64, kind verbs.MemoryKind) (*Memory, error) {
	what := fmt.Sprintf("register %d bytes at %#x on %s", length, addr, a.Name())
	if kind != verbs.MemoryHost && kind != verbs.MemoryArena {
		return nil, failed(ErrRegistration, "%s: %w: %s: expected memory of the host", what, ErrInvalidArgument, kind)
	}
	if err := verbs.CheckRegion(what, addr, length, rights, a.Attr.MaxMRSize); err != nil {
		return nil, failed(ErrRegistration, "%w: %w: give the address and the length of memory that is mapped", ErrInvalidArgument, err)
	}
	if a.Attr.Software || a.Attr.HostLocal { // others ask the kernel, and lock the pages
		if err := mapped(what, addr, length); err != nil {
			return nil, err
		}
	}
	mr, err := a.PD.RegMR(addr, length, rights)
	if err != nil {
		return nil, failed(ErrRegistration, "%w", err)
	}
	return a.adopt(mr), nil
}

// adopt makes a Memory of what has been registered.
func (a *adapter) adopt(mr verbs.MR) *Memory {
	m := &Memory{adapter: a, mr: mr, kind: mr.Kind(), drained: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.memories[m] = struct{}{}
	return m
}

// LocalKey is the key for requests of this end (lkey).
func (m *Memory) LocalKey() uint32 { return m.mr.LKey() }

// RemoteKey is what the peer needs beside an address.
func (m *Memory) RemoteKey() RemoteKey {
	return RemoteKey{rkey: m.mr.RKey(), addr: m.mr.Addr(), length: m.mr.Length(), domain: m.adapter.domain}
}

// Device is the device that serves the memory.
func (m *Memory) Device() string { return m.adapter.Name() }

// Kind is where the memory is: verbs.MemoryArena if processes of this host can map it.
func (m *Memory) Kind() verbs.MemoryKind { return m.kind }

// Contains tells whether length bytes at addr are in the memory.
func (m *Memory) Contains(addr, length uint64) bool {
	return within(addr, length, m.mr.Addr(), m.mr.Length())
}

func within(addr, length, base, size uint64) bool {
	return addr >= base && length <= size && addr-base <= size-length
}

// View returns length bytes from an offset on. The error is ErrBounds.
func (m *Memory) View(offset, length uint64) (View, error) {
	if size := m.mr.Length(); offset > size || length > size-offset {
		return View{}, failed(ErrBounds, "view of %d bytes at offset %d: the memory has %d bytes", length, offset, size)
	}
	return View{m, m.mr.Addr() + offset, length}, nil
}

// ViewAt returns length bytes at an address. The error is ErrBounds.
func (m *Memory) ViewAt(addr, length uint64) (View, error) {
	if !m.Contains(addr, length) {
		return View{}, failed(ErrBounds, "view of %d bytes at %#x: the memory has %d bytes at %#x", length, addr, m.mr.Length(), m.mr.Addr())
	}
	return View{m, addr, length}, nil
}

// All is a view of the whole memory.
func (m *Memory) All() View { return View{m, m.mr.Addr(), m.mr.Length()} }

// Bytes are the memory, until Close; see AllocOn of a GPU's.
func (m *Memory) Bytes() []byte {
	if m.region != nil {
		return m.region.Bytes()
	}
	return m.All().Data()
}

// Remote is what a peer must know to write to the memory, or read it, from its first
// byte on.
func (m *Memory) Remote() RemoteBuffer { return RemoteBuffer{m.mr.Addr(), m.RemoteKey()} }

// acquire has a transfer hold the memory; false once it is being closed.
func (m *Memory) acquire() bool {
	if m.users.Add(1) > 0 {
		return true
	}
	m.release()
	return false
}

// release undoes acquire.
func (m *Memory) release() {
	if m.users.Add(-1) == closing {
		m.drain.Do(func() { close(m.drained) })
	}
}

// Close deregisters the memory: its keys are dead when it returns. No transfer can begin any
// more; those that were made hold it, and Close waits for the device to be done with them, for
// as long as a transport lets a peer take (Options.Timeout). Closing twice is harmless.
func (m *Memory) Close() error {
	m.closed.Do(func() {
		if m.users.Add(closing) == closing {
			m.drain.Do(func() { close(m.drained) })
		}
		m.adapter.kick()
		<-m.drained
		m.result = m.mr.Close()
		m.adapter.mu.Lock()
		delete(m.adapter.memories, m)
		m.adapter.mu.Unlock()
		if m.result == nil {
			m.pin.Unpin()
			if m.own != nil {
				m.result = m.own.Free()
			}
		}
	})
	return m.result
}

// View is a part of a Memory.
type View struct {
	memory *Memory
	addr   uint64
	length uint64
}

// Data is the part of its memory's Bytes, until that is closed.
func (v View) Data() []byte {
	if r := v.memory.region; r != nil {
		return r.Bytes()[v.addr-v.memory.mr.Addr():][:v.length]
	}
	return memory.Bytes(v.addr, int(v.length))
}

// Addr is the address of its first byte.
func (v View) Addr() uint64 { return v.addr }

// Len is how many bytes it has.
func (v View) Len() int { return int(v.length) }

// Memory is what it is a part of.
func (v View) Memory() *Memory { return v.memory }

// RemoteKey opens a Memory to its peer, and says where it begins and ends.
type RemoteKey struct {
	rkey         uint32
	addr, length uint64
	domain       uint64
}

// RemoteBuffer is memory of the peer, from an address on. It travels as text.
type RemoteBuffer struct {
	Addr uint64
	Key  RemoteKey
}

// At is the memory from some bytes further on.
func (b RemoteBuffer) At(offset uint64) RemoteBuffer {
	b.Addr += offset
	return b
}

// Len is how many bytes there are from Addr on to the end of the memory.
func (b RemoteBuffer) Len() uint64 {
	if !within(b.Addr, 0, b.Key.addr, b.Key.length) {
		return 0
	}
	return b.Key.length - (b.Addr - b.Key.addr)
}

// String is the text that ParseRemoteBuffer reads: ADDR@RKEY.ADDR.LENGTH.DOMAIN.
func (b RemoteBuffer) String() string {
	return fmt.Sprintf("%#x@%x.%x.%x.%x", b.Addr, b.Key.rkey, b.Key.addr, b.Key.length, b.Key.domain)
}

func (b RemoteBuffer) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

func (b *RemoteBuffer) UnmarshalText(text []byte) (err error) {
	*b, err = ParseRemoteBuffer(string(text))
	return err
}

// ParseRemoteBuffer reads what String has written.
func ParseRemoteBuffer(text string) (RemoteBuffer, error) {
	wrong := failed(ErrInvalidArgument, "%q is no memory of a peer: expected what the String of its RemoteBuffer is", text)
	addr, key, ok := strings.Cut(text, "@")
	parts := strings.Split(key, ".")
	if !ok || len(parts) != 4 {
		return RemoteBuffer{}, wrong
	}
	var numbers [5]uint64
	for i, part := range append([]string{strings.TrimPrefix(addr, "0x")}, parts...) {
		bits := 64
		if i == 1 {
			bits = 32
		}
		n, err := strconv.ParseUint(part, 16, bits)
		if err != nil {
			return RemoteBuffer{}, wrong
		}
		numbers[i] = n
	}
	return RemoteBuffer{numbers[0], RemoteKey{uint32(numbers[1]), numbers[2], numbers[3], numbers[4]}}, nil
}
