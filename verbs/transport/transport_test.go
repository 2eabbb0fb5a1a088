package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/transport"
)

// onLoop is onEach with a loop for both ends.
func onLoop(t *testing.T, test func(t *testing.T, o transport.Options)) {
	onEach(t, func(t *testing.T, o transport.Options) {
		o.Loop = transport.NewLoop()
		t.Cleanup(func() {
			if err := o.Loop.Close(); err != nil {
				t.Error(err)
			}
		})
		test(t, o)
	})
}

// is checks that an error is of a kind, and has all texts.
func is(t testing.TB, err, kind error, texts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%v: expected %v", err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("%v: expected it to speak of %q", err, text)
		}
	}
}

// Connect waits for nobody: the first end has connected before the second has begun to, and it
// may be long before it does. What the first writes meanwhile arrives then.
func TestConnectInSequence(t *testing.T) {
	onEach(t, func(t *testing.T, o transport.Options) {
		a, b := newEnd(t, o), newEnd(t, o)
		urlA, err := a.Bind()
		if err != nil {
			t.Fatal(err)
		}
		urlB, err := b.Bind()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := a.Bind(); again != urlA || err != nil {
			t.Errorf("bound again: %s, %v: expected %s", again, err, urlA)
		}
		if a.Connected() {
			t.Error("connected before Connect")
		}
		if err := a.Connect(t.Context(), urlB); err != nil || !a.Connected() || b.Connected() {
			t.Fatalf("connected: %v, %v, the other %v: expected the first alone", err, a.Connected(), b.Connected())
		}
		from, to := alloc(t, a, 100), alloc(t, b, 100)
		fill(from.Bytes(), 1)
		written := a.Write(t.Context(), from.All(), to.Remote(), true)
		// Longer than a queue pair tries it.
		early, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		is(t, written.Wait(early), transport.ErrDeadline)
		is(t, written.Err(), transport.ErrInProgress)
		if err := b.Connect(t.Context(), urlA); err != nil {
			t.Fatal(err)
		}
		if err := transport.WaitAll(t.Context(), written, b.WaitForWrite(t.Context())); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(from.Bytes(), to.Bytes()) {
			t.Error("other bytes have arrived")
		}
		is(t, a.Connect(t.Context(), urlB), transport.ErrInvalidUsage, "one has one peer")
	})
}

// A notifying write resolves one who waits, in order, whether it comes before or after; others resolve none.
func TestNotifications(t *testing.T) {
	onLoop(t, func(t *testing.T, o transport.Options) {
		a, b := pair(t, o)
		const most = 300 // more than are under way at once
		from, to := alloc(t, a, most), alloc(t, b, most)
		write := func(length int, notify bool) *transport.Future {
			view, err := from.View(0, uint64(length))
			if err != nil {
				t.Fatal(err)
			}
			return a.Write(t.Context(), view, to.Remote(), notify)
		}
		// Half of them are waited for before, and half after.
		var waits []*transport.Future
		for range most / 2 {
			waits = append(waits, b.WaitForWrite(t.Context()))
		}
		var writes []*transport.Future
		for length := range most {
			writes = append(writes, write(length, true), write(length, false))
		}
		if err := transport.WaitAll(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
		for range most / 2 {
			waits = append(waits, b.WaitForWrite(t.Context()))
		}
		for i, f := range waits {
			if err := f.Wait(t.Context()); err != nil || f.Len() != i {
				t.Fatalf("notification %d is of %d bytes, %v: expected as many as its number", i, f.Len(), err)
			}
		}
		// There is none left.
		over := b.WaitForWrite(t.Context())
		if err := transport.WaitAll(t.Context(), write(7, false), write(8, true), over); err != nil || over.Len() != 8 {
			t.Errorf("the next notification is of %d bytes, %v: expected 8", over.Len(), err)
		}
	})
}

// unheard is a context that ends without telling whoever has asked to be told: the goroutine
// that would has not run.
type unheard struct {
	context.Context
	ended atomic.Bool
	done  chan struct{} // is never closed
}

func (u *unheard) Done() <-chan struct{} { return u.done }

func (u *unheard) Err() error {
	if u.ended.Load() {
		return context.Canceled
	}
	return nil
}

// A notification is not lost to somebody who no longer waits.
func TestNotificationAfterCancel(t *testing.T) {
	onLoop(t, func(t *testing.T, o transport.Options) {
		a, b := pair(t, o)
		from, to := alloc(t, a, 1), alloc(t, b, 1)
		ctx := &unheard{Context: t.Context(), done: make(chan struct{})}
		gone := b.WaitForWrite(ctx)
		ctx.ended.Store(true)
		late, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		write := a.Write(late, from.All(), to.Remote(), true)
		if err := transport.WaitAll(late, write, b.WaitForWrite(late)); err != nil {
			t.Errorf("the next one that waits: %v", err)
		}
		is(t, gone.Err(), transport.ErrCanceled)
	})
}

// Reads and batches.
func TestReadAndBatch(t *testing.T) {
	onLoop(t, func(t *testing.T, o transport.Options) {
		a, b := pair(t, o)
		const parts, size = 200, 1000
		from, to, back := alloc(t, a, parts*size), alloc(t, b, parts*size), alloc(t, a, parts*size)
		fill(from.Bytes(), 3)
		var list []transport.Transfer
		for i := range uint64(parts) {
			view, err := from.View(i*size, size)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, transport.Transfer{Local: view, Remote: to.Remote().At((parts - 1 - i) * size), Notify: i == parts-1})
		}
		if err := transport.WaitAll(t.Context(), a.Batch(t.Context(), list...)...); err != nil {
			t.Fatal(err)
		}
		if err := b.WaitForWrite(t.Context()).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range parts {
			if !bytes.Equal(from.Bytes()[i*size:][:size], to.Bytes()[(parts-1-i)*size:][:size]) {
				t.Fatalf("part %d: other bytes have arrived", i)
			}
		}
		read := a.Read(t.Context(), back.All(), to.Remote())
		if err := read.Wait(t.Context()); err != nil || read.Len() != parts*size {
			t.Fatalf("read %d bytes, %v", read.Len(), err)
		}
		if !bytes.Equal(back.Bytes(), to.Bytes()) {
			t.Error("other bytes were read")
		}
		is(t, a.Batch(t.Context(), transport.Transfer{Op: transport.Read, Local: back.All(), Remote: to.Remote(), Notify: true})[0].Err(), transport.ErrInvalidArgument)
	})
}

// Many goroutines write and wait at once, both ways over one connection.
func TestManyGoroutines(t *testing.T) {
	onLoop(t, func(t *testing.T, o transport.Options) {
		const writers, rounds, size = 32, 50, 4096
		a, b := pair(t, o)
		var wg sync.WaitGroup
		for side, ends := range [][2]*transport.Transport{{a, b}, {b, a}} {
			from, to := alloc(t, ends[0], writers*size), alloc(t, ends[1], writers*size)
			fill(from.Bytes(), side)
			for i := range uint64(writers) {
				wg.Go(func() {
					for range rounds {
						view, err := from.View(i*size, size)
						if err != nil {
							t.Error(err)
							return
						}
						write := ends[0].Write(t.Context(), view, to.Remote().At(i*size), true)
						if err := transport.WaitAll(t.Context(), ends[1].WaitForWrite(t.Context()), write); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			defer func() {
				if !bytes.Equal(from.Bytes(), to.Bytes()) {
					t.Errorf("side %d: other bytes have arrived", side)
				}
			}()
		}
		wg.Wait()
	})
}

// A thousand transports on one loop: each pair moves something.
func TestThousand(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	for _, device := range []string{"shm", "soft:lo"} {
		t.Run(device, func(t *testing.T) {
			const pairs, size = 500, 64
			o := transport.Options{Device: device, Depth: 8}
			if device != "shm" {
				o.Local = freshAddress(t)
			}
			o.Loop = transport.NewLoop()
			first, err := transport.New(o) // what all share
			if err != nil {
				t.Fatal(err)
			}
			if _, err := first.Bind(); err != nil {
				t.Fatal(err)
			}
			descriptors, resident := usage(t)
			ends := make([][2]*transport.Transport, pairs)
			for i := range ends {
				a, err := transport.New(o)
				if err != nil {
					t.Fatal(err)
				}
				b, err := transport.New(o)
				if err != nil {
					t.Fatal(err)
				}
				ends[i] = [2]*transport.Transport{a, b}
				join(t, a, b)
			}
			from, err := first.Alloc(size)
			if err != nil {
				t.Fatal(err)
			}
			to, err := first.Alloc(pairs * size)
			if err != nil {
				t.Fatal(err)
			}
			fill(from.Bytes(), 9)
			var futures []*transport.Future
			for i, e := range ends {
				futures = append(futures, e[0].Write(t.Context(), from.All(), to.Remote().At(uint64(i*size)), true), e[1].WaitForWrite(t.Context()))
			}
			if err := transport.WaitAll(t.Context(), futures...); err != nil {
				t.Fatal(err)
			}
			for i := range ends {
				if !bytes.Equal(to.Bytes()[i*size:][:size], from.Bytes()) {
					t.Fatalf("pair %d: other bytes have arrived", i)
				}
			}
			d, r := usage(t)
			t.Logf("%d transports: %.3f descriptors and %d KiB of memory each", 2*pairs, float64(d-descriptors)/(2*pairs), (r-resident)/(2*pairs)>>10)
			if err := o.Loop.Close(); err != nil {
				t.Error(err)
			}
			if left, _ := usage(t); left > descriptors {
				t.Errorf("%d descriptors are open, %d were", left, descriptors)
			}
		})
	}
}

// readable waits until a descriptor is.
func readable(t *testing.T, fd int) {
	t.Helper()
	list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for deadline := time.Now().Add(10 * time.Second); ; {
		n, err := unix.Poll(list, 100)
		switch {
		case n > 0:
			return
		case err != nil && !errors.Is(err, unix.EINTR):
			t.Fatal(err)
		case time.Now().After(deadline):
			t.Fatal("the descriptor is not readable after 10 s")
		}
	}
}

// usage is how many descriptors this process has, and how many bytes of memory.
func usage(t *testing.T) (descriptors, bytes int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return len(list), pages * os.Getpagesize()
}

// Bounds are checked at both ends.
func TestBounds(t *testing.T) {
	onLoop(t, func(t *testing.T, o transport.Options) {
		a, b := pair(t, o)
		from, to := alloc(t, a, 1000), alloc(t, b, 1000)
		for _, c := range [][2]uint64{{0, 1001}, {1000, 1}, {1, 1000}, {1 << 63, 1 << 63}, {5, ^uint64(0)}} {
			_, err := from.View(c[0], c[1])
			is(t, err, transport.ErrBounds)
			is(t, err, transport.ErrInvalidArgument, "1000 bytes")
			_, err = from.ViewAt(from.All().Addr()+c[0], c[1])
			is(t, err, transport.ErrBounds)
		}
		at := from.All().Addr()
		if !from.Contains(at, 1000) || !from.Contains(at+1000, 0) || from.Contains(at-1, 1) || from.Contains(at+999, 2) {
			t.Error("Contains is wrong about 1000 bytes")
		}
		// Here, by what the key says.
		is(t, a.Write(t.Context(), from.All(), to.Remote().At(1), false).Err(), transport.ErrBounds, "1000 bytes")
		is(t, a.Read(t.Context(), from.All(), to.Remote().At(^uint64(0))).Err(), transport.ErrBounds)
		if n := to.Remote().At(900).Len(); n != 100 {
			t.Errorf("%d bytes are left from 900 on: expected 100", n)
		}
		if err := a.Write(t.Context(), from.All(), to.Remote(), false).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		// There, by what is registered: the key is forged to be of more.
		text := to.Remote().String()
		forged, err := transport.ParseRemoteBuffer(strings.Replace(text, ".3e8.", ".7d0.", 1))
		if err != nil || forged.String() == text {
			t.Fatal(forged, err)
		}
		err = a.Write(t.Context(), from.All(), forged.At(500), false).Wait(t.Context())
		is(t, err, transport.ErrRefused)
		is(t, err, transport.ErrRemote, "refused")
		is(t, b.WaitForWrite(t.Context()).Wait(t.Context()), transport.ErrRefused, "refused here")
	})
}

// Memory of another than the peer is not written to.
func TestWrongPeer(t *testing.T) {
	onEach(t, func(t *testing.T, o transport.Options) {
		a, b := pair(t, o)
		c := newEnd(t, o)
		from, to, other := alloc(t, a, 10), alloc(t, b, 10), alloc(t, c, 10)
		is(t, a.Write(t.Context(), from.All(), other.Remote(), false).Err(), transport.ErrWrongPeer, b.Peer())
		is(t, a.Write(t.Context(), other.All(), to.Remote(), false).Err(), transport.ErrInvalidArgument, "register it with this transport")
		is(t, a.Write(t.Context(), transport.View{}, to.Remote(), false).Err(), transport.ErrInvalidArgument, "without a view")
	})
}

// What ends a transfer before it is over, and what it leaves alone.
func TestCancel(t *testing.T) {
	onEach(t, func(t *testing.T, o transport.Options) {
		a, b := newEnd(t, o), newEnd(t, o)
		from, to := alloc(t, a, 10), alloc(t, b, 10)
		is(t, a.Write(t.Context(), from.All(), to.Remote(), false).Err(), transport.ErrNotConnected)
		is(t, a.WaitForWrite(t.Context()).Err(), transport.ErrNotConnected)
		urls := [2]string{}
		for i, end := range []*transport.Transport{a, b} {
			var err error
			if urls[i], err = end.Bind(); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Connect(t.Context(), urls[1]); err != nil {
			t.Fatal(err)
		}
		// The peer is not there: all of it waits.
		cause := errors.New("no longer wanted")
		canceled, cancel := context.WithCancelCause(t.Context())
		late, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer stop()
		byContext := a.Write(canceled, from.All(), to.Remote(), true)
		byDeadline := a.Write(late, from.All(), to.Remote(), true)
		byHand := a.Write(t.Context(), from.All(), to.Remote(), true)
		byHand.Cancel()
		is(t, byHand.Err(), transport.ErrCanceled)
		cancel(cause)
		is(t, byContext.Wait(t.Context()), transport.ErrCanceled, cause.Error())
		is(t, byContext.Err(), cause)
		is(t, byContext.Err(), context.Canceled)
		is(t, byDeadline.Wait(t.Context()), transport.ErrDeadline)
		is(t, byDeadline.Err(), context.DeadlineExceeded)
		is(t, a.Write(canceled, from.All(), to.Remote(), true).Err(), transport.ErrCanceled)
		if err := b.Connect(t.Context(), urls[0]); err != nil {
			t.Fatal(err)
		}
		// Who no longer waits leaves its turn to the next; the writes that were canceled do not come.
		gone, turn := b.WaitForWrite(t.Context()), b.WaitForWrite(t.Context())
		gone.Cancel()
		view, err := from.View(0, 3)
		if err != nil {
			t.Fatal(err)
		}
		if err := transport.WaitAll(t.Context(), a.Write(t.Context(), view, to.Remote(), true), turn); err != nil || turn.Len() != 3 {
			t.Errorf("%d bytes, %v: expected 3", turn.Len(), err)
		}
		is(t, gone.Err(), transport.ErrCanceled)
		select {
		case <-gone.Done():
		default:
			t.Error("a future that is resolved is not done")
		}
	})
}

// Close resolves everything, and memory is held until the device is done with it.
func TestCloseAmidWrites(t *testing.T) {
	onEach(t, func(t *testing.T, o transport.Options) {
		const size = 1 << 20
		a, b := pair(t, o)
		from, to := alloc(t, a, size), alloc(t, b, size)
		if err := a.Write(t.Context(), from.All(), to.Remote(), false).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		var futures []*transport.Future
		for range 200 {
			futures = append(futures, a.Write(t.Context(), from.All(), to.Remote(), true))
		}
		waiter := a.WaitForWrite(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := from.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		made := 0
		for i, f := range futures {
			select {
			case <-f.Done():
			default:
				t.Fatalf("write %d is not resolved", i)
			}
			if f.Err() == nil {
				made++
				continue
			}
			is(t, f.Err(), transport.ErrClosed)
		}
		is(t, waiter.Err(), transport.ErrClosed)
		is(t, a.WaitForWrite(t.Context()).Err(), transport.ErrClosed)
		is(t, a.Err(), transport.ErrClosed)
		is(t, a.Write(t.Context(), from.All(), to.Remote(), true).Err(), transport.ErrClosed)
		_, err := a.Bind()
		is(t, err, transport.ErrClosed)
		// What was made is told before the goodbye.
		for range made {
			if err := b.WaitForWrite(t.Context()).Wait(t.Context()); err != nil {
				t.Fatalf("%v: expected %d notifications", err, made)
			}
		}
		is(t, b.WaitForWrite(t.Context()).Wait(t.Context()), transport.ErrPeerClosed, a.Peer())
		t.Logf("%d of %d writes were made", made, len(futures))
	})
}

// A loop is told of by a descriptor, and by channels.
func TestLoop(t *testing.T) {
	onLoop(t, func(t *testing.T, o transport.Options) {
		a, b := pair(t, o)
		fd, err := o.Loop.Descriptor()
		if err != nil {
			t.Fatal(err)
		}
		from, to := alloc(t, a, 100), alloc(t, b, 100)
		want := map[*transport.Future]bool{}
		for range 100 {
			want[a.Write(t.Context(), from.All(), to.Remote(), true)] = true
			want[b.WaitForWrite(t.Context())] = true
		}
		for len(want) > 0 {
			readable(t, fd)
			list := o.Loop.Completed()
			if len(list) == 0 {
				t.Fatal("it is readable, and nothing is completed")
			}
			for _, f := range list {
				if err := f.Err(); err != nil || !want[f] {
					t.Fatalf("completed: %v, asked for: %v", err, want[f])
				}
				delete(want, f)
			}
		}
		if again, err := o.Loop.Descriptor(); again != fd || err != nil || len(o.Loop.Completed()) > 0 {
			t.Errorf("another descriptor %d, %v: expected %d", again, err, fd)
		}
		// Nobody polls but the loop.
		f := b.WaitForWrite(t.Context())
		a.Write(t.Context(), from.All(), to.Remote(), true)
		<-f.Done()
	})
}

// What is lost on the way is sent again.
func TestLoss(t *testing.T) {
	t.Parallel()
	faults, err := verbs.ParseFaults("soft: loss 2%, reorder 1%")
	if err != nil {
		t.Fatal(err)
	}
	a, b := pair(t, transport.Options{Device: "soft:lo", Local: freshAddress(t), Faults: faults})
	const parts, size = 50, 64 << 10
	from, to := alloc(t, a, parts*size), alloc(t, b, parts*size)
	fill(from.Bytes(), 11)
	var futures []*transport.Future
	for i := range uint64(parts) {
		view, err := from.View(i*size, size)
		if err != nil {
			t.Fatal(err)
		}
		futures = append(futures, a.Write(t.Context(), view, to.Remote().At(i*size), true), b.WaitForWrite(t.Context()))
	}
	if err := transport.WaitAll(t.Context(), futures...); err != nil || !bytes.Equal(from.Bytes(), to.Bytes()) {
		t.Errorf("other bytes have arrived, %v", err)
	}
	_, err = transport.New(transport.Options{Device: "shm", Faults: faults})
	is(t, err, transport.ErrInvalidArgument, "only soft devices")
}

// Memory that cannot be registered: why, and what to do.
func TestRegister(t *testing.T) {
	onLoop(t, func(t *testing.T, o transport.Options) {
		a, b := pair(t, o)
		block, err := memory.Alloc(8192)
		if err != nil {
			t.Fatal(err)
		}
		kind := alloc(t, a, 1).Kind()
		m, err := a.Register(block.Addr(), 8192, kind)
		if err != nil {
			t.Fatal(err)
		}
		if m.LocalKey() == 0 || !strings.HasPrefix(m.Served(), "NUMA node ") && !strings.HasPrefix(m.Served(), "the host, ") || !strings.Contains(m.Served(), m.Device()) {
			t.Errorf("key %#x, %s", m.LocalKey(), m.Served())
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		is(t, a.Write(t.Context(), m.All(), alloc(t, b, 8192).Remote(), true).Err(), transport.ErrClosed)
		_, err = a.Register(0, 10, kind)
		is(t, err, transport.ErrRegistration, "give the address")
		is(t, err, transport.ErrInvalidArgument)
		_, err = a.Register(block.Addr(), 0, kind)
		is(t, err, transport.ErrRegistration)
		_, err = a.Register(block.Addr(), 1<<46, kind)
		is(t, err, transport.ErrRegistration)
		_, err = a.RegisterSlice(nil)
		is(t, err, transport.ErrRegistration)
		_, err = a.Alloc(0)
		is(t, err, transport.ErrInvalidArgument)
		if err := block.Free(); err != nil {
			t.Error(err)
		}
		_, err = a.Register(uint64(4096), 8192, kind)
		is(t, err, transport.ErrRegistration, "nothing is mapped at 0x1000")
		// Rights: a file that is mapped to be read.
		f, err := os.Open("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		text, err := memory.MapFile(int(f.Fd()), 0, 4096, false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Register(text.Addr(), 4096, kind)
		is(t, err, transport.ErrRegistration, "permission", "PROT_WRITE")
		if err := text.Free(); err != nil {
			t.Error(err)
		}
		// A Go slice.
		slice := make([]byte, 10000)
		fill(slice, 5)
		own, err := a.RegisterSlice(slice)
		if err != nil {
			t.Fatal(err)
		}
		to := alloc(t, b, 10000)
		if err := a.Write(t.Context(), own.All(), to.Remote(), false).Wait(t.Context()); err != nil || !bytes.Equal(slice, to.Bytes()) {
			t.Errorf("of a slice other bytes have arrived, %v", err)
		}
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	})
}

// What is no URL to connect to.
func TestURLs(t *testing.T) {
	t.Parallel()
	soft, shm := newEnd(t, transport.Options{Device: "soft:lo", Local: freshAddress(t)}), newEnd(t, transport.Options{Device: "shm"})
	urlSoft, err := soft.Bind()
	if err != nil {
		t.Fatal(err)
	}
	urlSHM, err := shm.Bind()
	if err != nil {
		t.Fatal(err)
	}
	other := func(url, from, to string) string { // of another process
		return regexp.MustCompile("domain=[0-9a-f]+").ReplaceAllString(strings.Replace(url, from, to, 1), "domain=1")
	}
	is(t, soft.Connect(t.Context(), urlSHM), transport.ErrURL, "shared memory is at one end alone")
	is(t, shm.Connect(t.Context(), urlSoft), transport.ErrURL, "shared memory is at one end alone")
	is(t, shm.Connect(t.Context(), urlSHM), transport.ErrURL, "own URL")
	is(t, shm.Connect(t.Context(), other(urlSHM, "boot=", "boot=x")), transport.ErrURL, "two hosts", "take soft")
	is(t, soft.Connect(t.Context(), other(urlSoft, "RoCE+v2", "RoCE+v1")), transport.ErrURL, "GID types")
	is(t, soft.Connect(t.Context(), other(urlSoft, "link=Ethernet", "link=InfiniBand")), transport.ErrURL, "links differ")
	for _, c := range [][2]string{
		{"http://example.org/", `begins with "http"`}, {"", "begins with"}, {"%", "escape"}, {strings.Replace(urlSoft, "v=1", "v=2", 1), "run the same at both ends"},
		{strings.Replace(urlSoft, "mtu=", "mtu=1", 1), "path MTU"}, {strings.Replace(urlSoft, "qpn=", "qpn=x", 1), "qpn"}, {"rdma://127.0.0.1:1/?v=1", "no device"},
		{strings.Replace(urlSoft, "qpn=", "none=", 1), "queue pair"}, {strings.Replace(urlSoft, "domain=", "domain=z", 1), "domain"},
	} {
		is(t, soft.Connect(t.Context(), c[0]), transport.ErrURL, c[1], "Bind")
	}
	is(t, newEnd(t, transport.Options{Device: "shm"}).Connect(t.Context(), urlSHM), transport.ErrInvalidUsage, "before Bind")
	for _, text := range []string{"", "1", "0x1@2.3.4", "0x1@2.3.4.5.6", "0x1@100000000.3.4.5", "g@1.2.3.4"} {
		_, err := transport.ParseRemoteBuffer(text)
		is(t, err, transport.ErrInvalidArgument)
	}
	var b transport.RemoteBuffer
	if err := b.UnmarshalText([]byte("0x10@1.8.20.fedcba9876543210")); err != nil || b.Len() != 24 || b.String() != "0x10@1.8.20.fedcba9876543210" {
		t.Errorf("%v, %v", b, err)
	}
}

// Without RDMA nothing is taken in its place, and what could be is named.
func TestSupported(t *testing.T) {
	t.Parallel()
	ok, reason := transport.Supported()
	if reason == "" {
		t.Error("there is no reason")
	}
	t.Logf("%v: %s", ok, reason)
	if ok {
		end := newEnd(t, transport.Options{})
		if device, why := end.Device(); !strings.Contains(reason, device) || !strings.Contains(why, device) {
			t.Errorf("%s was taken, since %s: expected one of %s", device, why, reason)
		}
	} else {
		_, err := transport.New(transport.Options{})
		is(t, err, transport.ErrUnsupported, reason, "soft", "shm")
	}
	_, err := transport.New(transport.Options{Device: "soft:nothing"})
	is(t, err, transport.ErrInvalidArgument, "soft:nothing")
	for _, o := range []transport.Options{{Depth: -1}, {Timeout: -1}, {Port: -1}} {
		_, err := transport.New(o)
		is(t, err, transport.ErrInvalidArgument, "expected")
	}
	_, err = transport.New(transport.Options{Device: "shm", Port: 2})
	is(t, err, transport.ErrInvalidArgument, "port 2")
}
