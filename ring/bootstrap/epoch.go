package bootstrap

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"ringcli/ring/bootstrap/oob"
	"ringcli/trace"
)

// History is what a process remembers of the rings that it was in. The Controls that it
// opens one after the other share it, so that what an earlier ring left behind, or
// somebody who has kept it, is refused by the next. The zero value is ready.
type History struct {
	mu      sync.Mutex
	last    uint32   // epoch, of any ring
	epochs  []uint32 // guarded by mu, as last and below
	callers []string // instances of neighbours in these
	leader  *Vigil   // over rank 0 of the last of these, or of the first that is to come
}

// remembered bounds a History: more rings than a day of trying has.
const remembered = 4096

// keep appends to what is remembered.
func keep[T any](list []T, values ...T) []T {
	list = append(list, values...)
	return slices.Delete(list, 0, max(0, len(list)-remembered))
}

// Last is the epoch of the last ring, 0 if there was none.
func (h *History) Last() uint32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// next returns an epoch that none of the rings had: it follows the last one, and the
// first is random, since the process that led before may be another.
func (h *History) next() uint32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.last + 1
	for h.last == 0 && e <= 1 || e == 0 || slices.Contains(h.epochs, e) {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails
		e = binary.LittleEndian.Uint32(b[:])
	}
	h.last, h.epochs = e, keep(h.epochs, e)
	return e
}

// take remembers an epoch, and reports whether it was new.
func (h *History) take(epoch uint32) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Contains(h.epochs, epoch) {
		return false
	}
	h.last, h.epochs = epoch, keep(h.epochs, epoch)
	return true
}

// met remembers the neighbours of a ring, which do not call again as who they were, and
// who is its rank 0.
func (h *History) met(leader *Vigil, instances ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leader, h.callers = leader, keep(h.callers, instances...)
}

// awaits remembers who is to be rank 0 of the first ring.
func (h *History) awaits(leader *Vigil) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leader == nil {
		h.leader = leader
	}
}

// Leader watches rank 0 of the last ring whose ranks have all met, also if it failed before
// it was ready. Before the first of these it watches who answers at rank 0's address, for a
// Control that follows; nil is nobody.
func (h *History) Leader() *Vigil {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leader
}

func (h *History) knows(instance string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.callers, instance)
}

// epochs tells frames of this ring from those of another, as far as History knows those.
type epochs struct {
	own   *node
	ring  atomic.Uint32 // which rank 0 chooses in Exchange and every frame and header carries; 0 before
	stale atomic.Uint64 // frames of another one
}

// open chooses the ring's epoch, at rank 0.
func (e *epochs) open() {
	if e.ring.Load() == 0 {
		e.ring.Store(e.own.cfg.History.next())
	}
}

// staleError is a frame of another epoch that ends its connection.
type staleError struct{ text string }

func (e *staleError) Error() string { return e.text }

// current tells whether a frame is of this ring, whose epoch an info from the left brings.
// Until that has come, and from who has yet to hear it, signs of life and ends have none.
func (e *epochs) current(l *connection, f *oob.Frame) (bool, error) {
	own := e.ring.Load()
	switch f.Type {
	case TypeHeartbeat, TypeVerdict, TypeReject, TypeGoodbye:
		if own == 0 || f.Epoch == 0 {
			return true, nil
		}
	case TypeInfo:
		if own != 0 || l.side != left {
			break
		}
		if f.Epoch == 0 || !e.own.cfg.History.take(f.Epoch) {
			text := fmt.Sprintf("rank %d's info is of epoch %d, which this process has seen before: expected a new one; connect anew", f.Sender, f.Epoch)
			return false, &staleError{text}
		}
		e.ring.Store(f.Epoch)
		return true, nil
	}
	if own != 0 && f.Epoch == own {
		return true, nil
	}
	e.stale.Add(1)
	trace.Debug(trace.Bootstrap, "frame of another epoch dropped", slog.String("type", string(f.Type)), slog.Int("sender", f.Sender),
		slog.Uint64("epoch", uint64(f.Epoch)), slog.Uint64("expected", uint64(own)))
	return false, nil
}
