package gpu

import (
	"context"
	"errors"
	"fmt"

	"ringcli/verbs/gpu"
)

// Region is memory of each rank's device that every rank can address: symmetric, though where it
// lies differs.
type Region struct {
	team  *Team
	at    []uint64 // of each rank's first byte, as this rank's device addresses it
	opens []opening
}

// opening is another rank's allocation.
type opening struct {
	rank   int
	handle gpu.Handle
}

// opened counts the regions in it.
type opened struct {
	memory *gpu.Memory
	uses   int
}

// located is where a region lies at a rank.
type located struct {
	Handle []byte `json:"handle"`
	Whole  int    `json:"whole"`  // bytes of the allocation
	Offset uint64 `json:"offset"` // in it
	Bytes  int    `json:"bytes"`
}

// Region makes memory of this rank's device symmetric: n bytes at an address, of this package's
// or anybody's allocation. All ranks call it; n may differ. It fails on all alike. The memory must
// stay until Close has returned.
func (t *Team) Region(ctx context.Context, addr uint64, n int) (*Region, error) {
	own, err := t.locate(addr, n)
	places, err := share(ctx, t, "memory of devices", own, err)
	if err != nil {
		return nil, err
	}
	r := &Region{team: t, at: make([]uint64, t.size)}
	var failed error
	for rank, p := range places {
		if r.at[rank], err = r.open(rank, p, addr); err != nil && failed == nil {
			failed = err
		}
	}
	if _, err := share(ctx, t, "view of devices' memory", "", failed); err != nil {
		return nil, errors.Join(err, r.release())
	}
	return r, nil
}

// locate finds the allocation of memory, and its handle.
func (t *Team) locate(addr uint64, n int) (p located, err error) {
	start, whole, err := t.device.Allocation(addr)
	if err != nil {
		return p, err
	}
	if end := start + uint64(whole); addr+uint64(n) > end {
		return p, fmt.Errorf("memory of %d bytes at %#x of %s: its allocation ends %d bytes behind that: expected memory in one allocation", n, addr, t.device.Place, end-addr)
	}
	if t.size == 1 {
		return located{Bytes: n}, nil // nobody opens it
	}
	h, err := t.device.View(start, whole).Handle()
	return located{h[:], whole, addr - start, n}, err
}

// open is where a rank's memory is for this rank's device.
func (r *Region) open(rank int, p located, own uint64) (uint64, error) {
	t := r.team
	if rank == t.rank {
		return own, nil
	}
	key := opening{rank: rank}
	copy(key.handle[:], p.Handle)
	o := t.opened[key]
	if o == nil {
		m, err := t.device.OpenHandle(key.handle, p.Whole)
		if err != nil {
			return 0, fmt.Errorf("rank %d's: %w", rank, err)
		}
		o = &opened{memory: m}
		t.opened[key] = o
	}
	o.uses++
	r.opens = append(r.opens, key)
	return o.memory.Addr() + p.Offset, nil
}

// release lets go of the others' memory.
func (r *Region) release() (err error) {
	for _, key := range r.opens {
		o := r.team.opened[key]
		if o.uses--; o.uses == 0 {
			delete(r.team.opened, key)
			err = errors.Join(err, o.memory.Free())
		}
	}
	r.opens = nil
	return err
}

// freeMemory is what ranks meet for that have let go of each other's memory.
const freeMemory = "devices' memory that is free"

// Close lets go of the others' memory, and returns when they have let go of this rank's, or
// when the ring has failed. Closing twice is harmless, if all ranks do.
func (r *Region) Close(ctx context.Context) error {
	err := r.release()
	if r.team.size == 1 || r.team.ring.Failed() {
		return err
	}
	_, gone := gather(ctx, r.team, freeMemory, "")
	if r.team.ring.Failed() {
		return err
	}
	return errors.Join(err, gone)
}
