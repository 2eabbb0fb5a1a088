package simnet

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"ringcli/verbs"
	"ringcli/verbs/soft/rc"
)

const (
	// firstAddr is where a node's memory begins: far from 0, so that a zero
	// address names nothing.
	firstAddr = 1 << 32
	// guard lies between two regions and belongs to none.
	guard = 4096
)

// Region is registered memory. Key is its lkey and its rkey.
type Region struct {
	Addr   uint64
	Bytes  []byte
	Key    uint32
	Access verbs.Access
}

// SGE names length bytes from an offset on.
func (r *Region) SGE(offset, length int) verbs.SGE {
	return verbs.SGE{Addr: r.Addr + uint64(offset), Length: uint32(length), LKey: r.Key}
}

// Memory is the registered memory of one node. It implements rc.Memory.
type Memory struct {
	byKey  map[uint32]*Region
	byAddr []*Region // ascending
	next   uint64
	keys   uint32
}

// Register adds a region of n zero bytes at an address of Memory's choice, a
// multiple of 4096.
func (m *Memory) Register(n int, access verbs.Access) *Region {
	if m.byKey == nil {
		m.byKey, m.next = make(map[uint32]*Region), firstAddr
	}
	m.keys++
	r := &Region{Addr: m.next, Bytes: make([]byte, n), Key: m.keys<<8 | m.keys&0xff, Access: access}
	m.next += (uint64(n)+guard-1)/guard*guard + guard
	m.byKey[r.Key] = r
	m.byAddr = append(m.byAddr, r)
	return r
}

// Deregister removes a region: from now on nothing may touch it.
func (m *Memory) Deregister(r *Region) {
	delete(m.byKey, r.Key)
	m.byAddr = slices.DeleteFunc(m.byAddr, func(o *Region) bool { return o == r })
}

func (m *Memory) covers(key uint32, addr, length uint64, right verbs.Access) bool {
	r := m.byKey[key]
	return r != nil && r.Access&right == right &&
		addr >= r.Addr && length <= uint64(len(r.Bytes)) && addr-r.Addr <= uint64(len(r.Bytes))-length
}

// Local implements rc.Memory.
func (m *Memory) Local(lkey uint32, addr uint64, length uint32, write bool) bool {
	var right verbs.Access
	if write {
		right = verbs.AccessLocalWrite
	}
	return m.covers(lkey, addr, uint64(length), right)
}

// Remote implements rc.Memory.
func (m *Memory) Remote(rkey uint32, addr uint64, length uint64, right verbs.Access) bool {
	return m.covers(rkey, addr, length, right)
}

// Find returns the region that holds length bytes at addr, or nil.
func (m *Memory) Find(addr, length uint64) *Region {
	i := sort.Search(len(m.byAddr), func(i int) bool { return m.byAddr[i].Addr > addr }) - 1
	if i < 0 {
		return nil
	}
	r := m.byAddr[i]
	if size := uint64(len(r.Bytes)); length > size || addr-r.Addr > size-length {
		return nil
	}
	return r
}

// Bytes views registered memory. It panics outside of it, for then a queue pair
// has done what it must never do.
func (m *Memory) Bytes(addr uint64, length int) []byte {
	r := m.Find(addr, uint64(length))
	if r == nil {
		panic(fmt.Sprintf("simnet: access to %d bytes at %#x, which are not registered", length, addr))
	}
	return r.Bytes[addr-r.Addr:][:length:length]
}

// Carry carries out an order of a queue pair.
func (m *Memory) Carry(o *rc.Order) {
	if o.Kind == rc.Place {
		copy(m.Bytes(o.Addr, len(o.Data)), o.Data)
		return
	}
	word := m.Bytes(o.Addr, 8)
	old := binary.NativeEndian.Uint64(word)
	switch o.Kind {
	case rc.Store64:
		binary.NativeEndian.PutUint64(word, o.Value)
	case rc.FetchAdd:
		*o.Result = old
		binary.NativeEndian.PutUint64(word, old+o.Value)
	case rc.CompSwap:
		*o.Result = old
		if old == o.Value {
			binary.NativeEndian.PutUint64(word, o.Swap)
		}
	}
}
