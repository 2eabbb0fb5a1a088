package memfd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
)

type viewKey struct {
	id       uint64
	writable bool
}

// view is the peer's memory as it lies here.
type view struct {
	done   chan struct{} // closed when the answer has come; then all below is set, or err
	block  *memory.Block
	addr   uint64
	len    int
	err    error
	viewed bool // View was called for it
	held   int  // Hold less Drop
}

// maxRetired is how many freed views stay mapped as zeros: enough that a reader
// that is in the middle of an operation never loses the memory under it, few
// enough that address space does not grow with each buffer a peer ever had.
const maxRetired = 64

// Map returns where the peer's arena id lies in this process, and its length in
// bytes. A view that is not writable faults when written. The first call for an
// arena asks the peer, until ctx ends; later ones are quick. The
// view is valid until the Peer or the hub is closed; when the owner frees the
// arena, zeros take its place, which stay for a while.
func (p *Peer) Map(ctx context.Context, id uint64, writable bool) (addr uint64, length int, err error) {
	p.mu.Lock()
	v, err := p.view(viewKey{id, writable})
	p.mu.Unlock()
	if err == nil {
		err = p.await(ctx, v)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("map arena %d of %s: %w", id, p.conn.name(), err)
	}
	return v.addr, v.len, nil
}

// Hold is Map for a view to write that stays where it is until Drop, as zeros once the owner
// has freed the arena, however many others it frees.
func (p *Peer) Hold(ctx context.Context, id uint64) (addr uint64, length int, err error) {
	k := viewKey{id, true}
	if addr, length, err = p.Map(ctx, id, k.writable); err != nil {
		return 0, 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.views[k]
	if v == nil || v.block == nil {
		return 0, 0, fmt.Errorf("map arena %d of %s: %w", id, p.conn.name(), errFreed(id))
	}
	v.held++
	return addr, length, nil
}

// Drop undoes Hold.
func (p *Peer) Drop(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := p.views[viewKey{id, true}]; v != nil {
		v.held--
		return
	}
	v := p.held[id]
	if v == nil {
		return // the peer is closed
	}
	if v.held--; v.held == 0 {
		delete(p.held, id)
		p.bury(v.block)
	}
}

// recent is a view to read that View has returned lately. One that was refused has no
// bytes.
type recent struct {
	id    uint64
	bytes []byte
}

// maxRecent is how many views a Peer remembers so; the oldest is forgotten, and found
// again by asking.
const maxRecent = 64

// View is Map for callers that cannot wait, to read: ok is false while the arena is not
// mapped here. Then the peer has been asked, and the hub's OnChange will be called.
func (p *Peer) View(id uint64) (bytes []byte, ok bool) {
	for _, v := range *p.recent.Load() {
		if v.id == id {
			return v.bytes, true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v, err := p.view(viewKey{id, false})
	switch {
	case err != nil: // there never will be one
		return nil, false
	case v.block == nil:
		v.viewed = true
		return nil, false
	}
	return p.remember(id, memory.Bytes(v.addr, v.len)), true
}

// remember adds to what View finds at once. The lock is held.
func (p *Peer) remember(id uint64, bytes []byte) []byte {
	old := *p.recent.Load()
	list := append(slices.Clone(old[max(0, len(old)-maxRecent+1):]), recent{id, bytes})
	p.recent.Store(&list)
	return bytes
}

// view returns the view of k: an earlier one, or one whose answer will come. The lock
// is held.
func (p *Peer) view(k viewKey) (*view, error) {
	v := p.views[k]
	if p.closed || v == nil && p.Gone() {
		return nil, p.Err()
	}
	if v == nil {
		v = &view{done: make(chan struct{})}
		p.views[k] = v
		p.conn.send(message{kind: kindMap, id: k.id, writable: k.writable, fd: -1})
	}
	return v, nil
}

// await waits for a view's answer.
func (p *Peer) await(ctx context.Context, v *view) error {
	begun := time.Now()
	select {
	case <-v.done:
		return v.err
	case <-ctx.Done():
		return fmt.Errorf("awaited its descriptor from %s for %v: %w (is it stopped?)", p.conn.name(), time.Since(begun).Round(time.Millisecond), context.Cause(ctx))
	}
}

// attach maps what the peer has sent a descriptor of.
func (p *Peer) attach(m message) {
	block, err := mapView(m)
	if m.fd >= 0 {
		_ = unix.Close(m.fd)
	}
	p.resolve(viewKey{m.id, m.writable}, block, err)
}

func mapView(m message) (*memory.Block, error) {
	if m.fd < 0 {
		return nil, errors.New("its descriptor did not come through: this process has as many open files as it may; close files or raise the limit (ulimit -n)")
	}
	// A file that can shrink or is too short would kill a process that reads beyond its end. Who
	// shares one that is not ringcli's answers for that, and who reads it has to expect it.
	seals, err := unix.FcntlInt(uintptr(m.fd), unix.F_GET_SEALS, 0)
	if m.text != loose && (err != nil || seals&unix.F_SEAL_SHRINK == 0) {
		return nil, errors.New("its descriptor is not sealed against shrinking; run one version on all ranks")
	}
	var stat unix.Stat_t
	if err := unix.Fstat(m.fd, &stat); err != nil {
		return nil, fmt.Errorf("fstat: %w", err)
	}
	size, ok := memory.RoundUp(m.length)
	if m.text == loose { // whose last page need not be whole
		size = m.length
	}
	if end := m.value + size; !ok || end < size || uint64(stat.Size) < end {
		return nil, fmt.Errorf("its file has %d bytes, want at least %d; run one version on all ranks", stat.Size, end)
	}
	if m.text == loose {
		memory.MayFault.Store(true)
	}
	block, err := memory.MapFile(m.fd, m.value, m.length, m.writable)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, advice(err))
	}
	return block, nil
}

// resolve gives the callers that wait for k its view, or the reason why there is none.
func (p *Peer) resolve(k viewKey, block *memory.Block, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.views[k]
	if v == nil || v.block != nil { // nobody asked, or the peer is closed
		_ = block.Free()
		return
	}
	if err != nil {
		delete(p.views, k)
		if v.err = err; v.viewed {
			p.remember(k.id, nil)
		}
	} else {
		v.block, v.addr, v.len = block, block.Addr(), block.Len()
	}
	close(v.done)
}

// retire takes the views of an arena that its owner has freed. A process that
// still reads them reads zeros.
func (p *Peer) retire(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range []viewKey{{id, false}, {id, true}} {
		v := p.views[k]
		if v == nil || v.block == nil {
			continue // its refusal is on the way
		}
		delete(p.views, k)
		// Where the kernel refuses, the peer's memory stays until the Peer is closed.
		_ = v.block.Blank()
		if v.held > 0 {
			p.held[id] = v
		} else {
			p.bury(v.block)
		}
	}
}

// bury keeps a view that its owner freed for a while. The lock is held.
func (p *Peer) bury(b *memory.Block) {
	p.retired = append(p.retired, b)
	for len(p.retired) > maxRetired {
		_ = p.retired[0].Free()
		p.retired = p.retired[1:]
	}
}
