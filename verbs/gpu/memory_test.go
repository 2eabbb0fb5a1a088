//go:build !nodl

package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// opened is the first device in a child.
func opened(t *testing.T, kind Kind) *Device {
	t.Helper()
	d, err := Open(Place{Kind: kind})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// What a stream is given comes back at once and runs in order; Wait has a deadline.
func TestStreamsAreAsynchronous(t *testing.T) {
	kind, child := eachKind(t, "RINGTEST_GPU_SLOW=300000") // 0.3 s for each piece of work
	if !child {
		return
	}
	d := opened(t, kind)
	const n = 1 << 16
	m, err := d.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.AllocPinned(2 * n)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		p.Bytes()[i] = byte(i % 251)
	}
	if err := errors.Join(s.ToDevice(m.Addr(), p.Addr(), n), s.FromDevice(p.Addr()+n, m.Addr(), n)); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Done(); done || err != nil {
		t.Errorf("done %v, %v as soon as it was given", done, err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.Wait(short); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "awaited work on "+kind.String()+":0") {
		t.Errorf("%v: expected the deadline", err)
	}
	if err := s.wait(t.Context(), time.Millisecond); !errors.Is(err, verbs.ErrTimeout) {
		t.Errorf("%v: expected the limit", err)
	}
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, b := range p.Bytes()[n:] {
		if b != byte(i%251) {
			t.Fatalf("byte %d is %d, expected %d", i, b, i%251)
		}
	}
	for range 2 { // twice is harmless
		if err := errors.Join(s.Close(), p.Free(), m.Free()); err != nil {
			t.Error(err)
		}
	}
}

// Each call makes its device current on whatever thread it is on.
func TestAnyGoroutineCalls(t *testing.T) {
	kind, child := eachKind(t, "RINGTEST_GPUS=4")
	if !child {
		return
	}
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			d, err := Open(Place{kind, i % 4})
			if err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				m, err := d.Alloc(4096)
				if err != nil {
					t.Error(err)
					return
				}
				s, err := d.NewStream()
				if err != nil {
					t.Error(err)
					return
				}
				p, err := d.AllocPinned(4096)
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(s.ToDevice(m.Addr(), p.Addr(), 4096), s.Wait(t.Context()), s.Close(), m.Free(), p.Free()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// A refusal has the call's own name, the code's, and what package verbs calls it.
func TestRefusalsAreTold(t *testing.T) {
	kind, child := eachKind(t, "RINGTEST_GPU_FAIL=cuMemHostAlloc=2,hipHostMalloc=2,cuStreamCreate=1,hipStreamCreateWithFlags=1")
	if !child {
		return
	}
	d := opened(t, kind)
	_, tooMuch := d.Alloc(1 << 40)
	_, noPinned := d.AllocPinned(4096)
	_, noStream := d.NewStream()
	for i, c := range []struct {
		err       error
		is        error
		cuda, hip string
	}{
		{tooMuch, verbs.ErrNoMemory, "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)", "hipMalloc: hipErrorOutOfMemory (2)"},
		{noPinned, verbs.ErrNoMemory, "cuMemHostAlloc: CUDA_ERROR", "hipHostMalloc: hipError"},
		{noStream, verbs.ErrInvalid, "cuStreamCreate: CUDA_ERROR_INVALID_VALUE (1)", "hipStreamCreateWithFlags: hipErrorInvalidValue (1)"},
	} {
		want := c.cuda
		if kind == HIP {
			want = c.hip
		}
		if !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), want) {
			t.Errorf("%d: %v: expected %q, and %v", i, c.err, want, c.is)
		}
	}
}

// adapter is a protection domain of a device whose driver takes what a test says.
type adapter struct {
	dmaBuf, peer bool
	asked        []string // of libibverbs
}

type domain struct {
	verbs.PD
	a *adapter
}

type region struct {
	verbs.MR
	addr uint64
}

func (r region) Addr() uint64 { return r.addr }

type contextOf struct{ verbs.Context }

func (contextOf) QueryDevice() (verbs.DeviceAttr, error) { return verbs.DeviceAttr{}, nil }
func (contextOf) Device() verbs.Device                   { return nic{} }

type nic struct{ verbs.Device }

func (nic) Name() string { return "ibv:mlx5_0" }

func (d domain) Context() verbs.Context { return contextOf{} }

func (d domain) RegMR(addr, length uint64, _ verbs.Access) (verbs.MR, error) {
	d.a.asked = append(d.a.asked, fmt.Sprintf("ibv_reg_mr %d", length))
	// The host can look at its own memory alone: a device's faults (EFAULT).
	if host := isHost(addr); !host && !d.a.peer {
		return nil, errors.New("bad address")
	}
	return region{addr: addr}, nil
}

func (d domain) RegDMABufMR(fd int, offset, addr, length uint64, _ verbs.Access) (verbs.MR, error) {
	d.a.asked = append(d.a.asked, fmt.Sprintf("ibv_reg_dmabuf_mr %d+%d", offset, length))
	if !d.a.dmaBuf {
		return nil, errors.New("operation not supported")
	}
	// The file is the device's memory, and stays so when it is closed here.
	b, err := memory.MapFile(fd, 0, length, true)
	if err != nil {
		return nil, err
	}
	return region{addr: addr}, b.Free()
}

// isHost tells whether memory can be touched here.
func isHost(addr uint64) bool {
	text, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(text)) {
		var first, last uint64
		var may string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &first, &last, &may); err == nil && addr >= first && addr < last {
			return strings.HasPrefix(may, "rw")
		}
	}
	return false
}

// The best path that there is is taken, and it is told why no better one was.
func TestPathsToTheMemory(t *testing.T) {
	kind, child := eachKind(t)
	if !child {
		return
	}
	d := opened(t, kind)
	const n = 5000
	for _, c := range []struct {
		dmaBuf, peer bool
		path         Path
		why          []string
	}{
		{true, true, PathDMABuf, nil},
		{false, true, PathPeer, []string{"dma-buf: operation not supported"}},
		{false, false, PathStaged, []string{"dma-buf: operation not supported", "peer memory: bad address"}},
	} {
		a := &adapter{dmaBuf: c.dmaBuf, peer: c.peer}
		r, err := NewRegion(domain{a: a}, d, n, verbs.AccessLocalWrite)
		if err != nil {
			t.Fatal(err)
		}
		if r.Path != c.path || len(r.Why) != len(c.why) || len(a.asked) != len(c.why)+1 {
			t.Errorf("path %q, since %v, after %q: expected %q", r.Path, r.Why, a.asked, c.path)
		}
		for i, want := range c.why {
			if i < len(r.Why) && !strings.HasPrefix(r.Why[i].Error(), want) {
				t.Errorf("%v: expected %q", r.Why[i], want)
			}
		}
		if device := r.MR.Addr() == r.Addr(); device == (c.path == PathStaged) {
			t.Errorf("%s: the region is at %#x, the memory at %#x", c.path, r.MR.Addr(), r.Addr())
		}
		// What is stored leaves, and what arrives is loaded.
		for i := range n {
			r.Bytes()[i] = byte(i % 13)
		}
		if err := r.Store(t.Context(), 0, n); err != nil {
			t.Fatal(err)
		}
		clear(r.Bytes())
		if err := r.Leaving(t.Context(), 10, 100); err != nil {
			t.Fatal(err)
		}
		if staged := r.Bytes()[10] == 10 && r.Bytes()[109] == 109%13 && r.Bytes()[9] == 0 && r.Bytes()[110] == 0; staged != (c.path == PathStaged) {
			t.Errorf("%s: bytes of the host that leave: %v", c.path, r.Bytes()[8:12])
		}
		if err := errors.Join(r.Arrived(t.Context(), 0, n), r.Free(), r.Free()); err != nil {
			t.Error(err)
		}
	}
}

// Before version 7 of ROCm HIP exports no dma-buf, and HSA does.
func TestDMABufByHSA(t *testing.T) {
	kind, child := eachKind(t)
	if !child || kind != HIP {
		return
	}
	d := opened(t, kind)
	d.runtime.calls[callHandleForRange] = 0
	const n = 5000
	a := &adapter{dmaBuf: true}
	r, err := NewRegion(domain{a: a}, d, n, verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	if r.Path != PathDMABuf || len(r.Why) != 0 || len(a.asked) != 1 || a.asked[0] != "ibv_reg_dmabuf_mr 0+5000" {
		t.Errorf("path %q, since %v, after %q: expected dma-buf", r.Path, r.Why, a.asked)
	}
	// Memory within an allocation is so far from its beginning, and memory of nobody is refused.
	file, offset, err := d.View(r.Addr()+123, 77).DMABuf()
	if err != nil || offset != 123 {
		t.Errorf("offset %d, %v: expected 123", offset, err)
	}
	const refused = "dma-buf of 5000 bytes of hip:0: hsa_amd_portable_export_dmabuf: status 0x1001"
	if _, _, err := d.View(r.Addr()+123, n).DMABuf(); err == nil || err.Error() != refused {
		t.Errorf("%v: expected %q", err, refused)
	}
	if err := errors.Join(file.Close(), r.Free()); err != nil {
		t.Error(err)
	}
}
