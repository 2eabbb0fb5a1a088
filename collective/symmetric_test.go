package collective

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs/memory"
)

// existing are the kinds of memory that is there before a Comm has it.
var existing = []string{"private", "file", "memfd"}

// share shares n bytes of a kind of memory that is there already.
func share(t *testing.T, c *Comm, kind string, n int) (*Buffer, error) {
	const at = 1000 // in a page, of what has a file
	flags, fd, size, how := unix.MAP_SHARED, -1, n+at, InPlace
	whole, _ := memory.RoundUp(uint64(size))
	switch kind {
	case "private":
		flags, how = unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, MayMove
	case "file":
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = f.Close() })
		fd = int(f.Fd())
	case "memfd":
		var err error
		if fd, err = unix.MemfdCreate("test", unix.MFD_CLOEXEC); err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
	}
	if fd >= 0 {
		if err := unix.Ftruncate(fd, int64(size)); err != nil {
			return nil, err
		}
	}
	b, err := unix.Mmap(fd, 0, int(whole), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	fill(b[:size])
	if kind == "private" { // whose pages must be whole
		return c.Share(memory.Addr(b), whole, how)
	}
	shared, err := c.Share(memory.Addr(b)+at, uint64(n), how)
	if err == nil && !bytes.Equal(shared.Bytes(), bytes.Repeat([]byte{poison}, n)) {
		err = errors.New("sharing has changed what memory holds")
	}
	return shared, err
}

// TestShare: every operation among ranks whose memory was there before, of kinds that differ,
// in all ways; and its peers' views.
func TestShare(t *testing.T) {
	const n, count = 3, 50001
	w := newWorld(t, n, ring.Options{Device: shared0}, nil)
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	k.expect(count)
	w.must(func(rank int, c *Comm) (err error) {
		if err = errors.Join(k.send[rank].Free(), k.recv[rank].Free()); err == nil {
			k.send[rank], err = share(t, c, existing[rank], 4*count+guard)
		}
		if err == nil {
			k.recv[rank], err = share(t, c, existing[(rank+1)%n], 4*count+guard)
		}
		if err == nil {
			err = errors.Join(k.send[rank].Mappable(), k.recv[rank].Mappable())
		}
		if err == nil {
			copy(k.send[rank].Bytes(), k.inputs[rank])
		}
		return err
	})
	for _, way := range sharedWays() {
		for _, op := range plan.Operations() {
			if op == OpAllReduce || way.Protocol != ReceiverInitiated {
				k.check(op, count, w.comms[0].elseEager(op, way), op == OpAllReduce)
			}
		}
	}
	w.must(func(rank int, c *Comm) error {
		ctx := context.Background()
		s, err := c.Symmetric(ctx, k.send[rank])
		if err != nil {
			return err
		}
		for peer := range n {
			if view := s.Peer(peer); len(view) != k.send[peer].Len() || !bytes.Equal(view[:4*count], k.inputs[peer]) {
				return fmt.Errorf("rank %d's buffer is not what is seen of it in %d bytes", peer, len(view))
			}
		}
		if err := c.Barrier(ctx); err != nil {
			return err
		}
		s.Peer((rank + 1) % n)[4*count+rank] = byte(rank + 1)
		err = c.Barrier(ctx)
		if left := (rank + n - 1) % n; k.send[rank].Bytes()[4*count+left] != byte(left+1) {
			err = errors.Join(err, fmt.Errorf("what rank %d has written is not there", left))
		}
		return errors.Join(err, c.Barrier(ctx))
	})
	w.must(func(rank int, c *Comm) error {
		left := bytes.Clone(k.send[rank].Bytes())
		data := k.send[rank].Bytes() // outlives it
		if err := errors.Join(k.send[rank].Free(), k.recv[rank].Free()); err != nil {
			return err
		}
		if !bytes.Equal(data, left) {
			return errors.New("freeing has changed what memory holds")
		}
		return c.Barrier(context.Background())
	})
}

// TestShareAgain: memory that is shared twice is given back with the last, and what is Alloc's
// or another Comm's needs no sharing.
func TestShareAgain(t *testing.T) {
	w := newWorld(t, 2, ring.Options{Device: shared0}, nil)
	w.must(func(rank int, c *Comm) error {
		size, _ := memory.RoundUp(100000)
		block, err := memory.Alloc(size)
		if err != nil {
			return err
		}
		defer func() { _ = block.Free() }()
		own, err := c.Alloc(1000)
		if err != nil {
			return err
		}
		a, err := c.Share(block.Addr(), size, MayMove)
		if err != nil {
			return err
		}
		part, err := c.Share(block.Addr()+8, 100, InPlace)
		if err != nil {
			return err
		}
		again, err := c.Share(own.Addr(), 1000, InPlace)
		if err != nil {
			return err
		}
		err = errors.Join(a.Free(), a.Free(), again.Free())
		_, e := c.Symmetric(context.Background(), part)
		own.Bytes()[999] = 1
		return errors.Join(err, e, part.Free(), own.Free())
	})
}

// TestShareRefused: what cannot be shared is refused with the reason, and harms nothing.
func TestShareRefused(t *testing.T) {
	private, err := memory.Alloc(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = private.Free() }()
	heap := make([]byte, 1<<16)
	w := newWorld(t, 2, ring.Options{Device: shared0}, nil)
	soft := newWorld(t, 2, ring.Options{}, nil)
	taken, err := w.comms[0].Register(private.Addr()+4096, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		c       *Comm
		addr, n uint64
		how     Sharing
		want    string
	}{
		{"private, in place", w.comms[1], private.Addr(), 1 << 16, InPlace, "private memory"},
		{"in part another's", w.comms[1], private.Addr() + 16, 4096, MayMove, "whole pages"},
		{"Go's heap", w.comms[1], memory.Addr(heap), 1 << 16, MayMove, "Go's heap"},
		{"nothing", w.comms[1], 4096, 4096, MayMove, "nothing is mapped"},
		{"no bytes", w.comms[1], private.Addr(), 0, MayMove, "expected 1 or more"},
		{"registered", w.comms[0], private.Addr(), 1 << 16, MayMove, "free that Buffer first"},
		{"no shared memory", soft.comms[0], private.Addr(), 1 << 16, MayMove, "expected shm"},
	} {
		if _, err := test.c.Share(test.addr, test.n, test.how); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want an error of usage with %q", test.name, err, test.want)
		}
	}
	if err := taken.Free(); err != nil {
		t.Error(err)
	}
	k := newKit(w, 1000, reduce.Int32, reduce.Sum)
	k.expect(1000)
	k.check(OpAllReduce, 1000, CallOptions{}, false)
}

// TestSymmetricRefused: where one rank's buffer cannot be mapped none has its peers', all are
// told the same, and operations go on; where ranks share no memory they are told that.
func TestSymmetricRefused(t *testing.T) {
	const n, odd = 3, 1
	w := newWorld(t, n, ring.Options{Device: shared0}, nil)
	k := newKit(w, 1000, reduce.Int32, reduce.Sum)
	k.expect(1000)
	private, err := memory.Alloc(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = private.Free() })
	refused := func(w *world, want string, buffer func(rank int, c *Comm) *Buffer) {
		t.Helper()
		errs := w.each(func(rank int, c *Comm) error {
			_, err := c.Symmetric(context.Background(), buffer(rank, c))
			return err
		})
		for rank, err := range errs {
			if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) || err.Error() != errs[0].Error() {
				t.Errorf("rank %d: %v, want %q", rank, err, want)
			}
		}
	}
	refused(w, "rank 1: its 65536 bytes", func(rank int, c *Comm) *Buffer {
		if rank != odd {
			return k.send[rank]
		}
		b, err := c.Register(private.Addr(), 1<<16)
		if err != nil {
			t.Error(err)
		}
		return b
	})
	refused(w, "rank 1: its 1000 bytes", func(rank int, c *Comm) *Buffer {
		b, err := c.Alloc(1000)
		if err != nil {
			t.Error(err)
		}
		if rank == odd {
			_ = b.Free()
		}
		return b
	})
	k.check(OpAllReduce, 1000, CallOptions{}, false)
	soft := newWorld(t, 2, ring.Options{}, nil)
	refused(soft, "rank 0: rank 1 is reached over soft:lo", func(_ int, c *Comm) *Buffer {
		b, err := c.Alloc(1000)
		if err != nil {
			t.Error(err)
		}
		return b
	})
}

// TestSymmetricAlone: a ring of one has its own.
func TestSymmetricAlone(t *testing.T) {
	w := newWorld(t, 1, ring.Options{}, nil)
	b, err := w.comms[0].Alloc(10)
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.comms[0].Symmetric(t.Context(), b)
	if err != nil || memory.Addr(s.Peer(0)) != b.Addr() {
		t.Error(err)
	}
}

// TestShareShrinks: somebody makes a file shorter that ranks compute on. Operations fail, and
// say why; no process ends.
func TestShareShrinks(t *testing.T) {
	const n, odd, count = 2, 1, 100000
	for _, way := range directWays {
		w := newWorld(t, n, ring.Options{Device: shared0}, nil)
		k := newKit(w, count, reduce.Int32, reduce.Sum)
		k.expect(count)
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		if err := f.Truncate(4 * count); err != nil {
			t.Fatal(err)
		}
		block, err := memory.MapFile(int(f.Fd()), 0, 4*count, true)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = block.Free() }()
		b, err := w.comms[odd].Share(block.Addr(), 4*count, InPlace)
		if err != nil {
			t.Fatal(err)
		}
		run := func(rank int, c *Comm) error {
			from := k.send[rank].Addr()
			if rank == odd {
				from = b.Addr()
			}
			return c.AllReduce(context.Background(), from, k.recv[rank].Addr(), count, k.typ, k.red, way)
		}
		w.must(run)
		if err := f.Truncate(4096); err != nil {
			t.Fatal(err)
		}
		errs := w.each(run)
		if slices.Contains(errs, nil) || !strings.Contains(errors.Join(errs...).Error(), "was its file made shorter?") {
			t.Errorf("%s: %v, want a file that was made shorter", wayName(way), errs)
		}
	}
}
