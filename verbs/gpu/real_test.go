package gpu

import (
	"errors"
	"testing"

	"ringcli/verbs/gpu/gputest"
)

// onGPU runs a test on each real GPU, with a subtest that skips where a runtime has none.
func onGPU(t *testing.T, do func(*testing.T, *Device)) {
	t.Helper()
	gputest.Real(t)
	for _, kind := range Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			r, err := Load(kind)
			if err != nil {
				t.Skip(err)
			}
			for _, d := range r.Devices() {
				t.Run(d.Place.String(), func(t *testing.T) {
					t.Logf("%s, %s, %d MiB, %s, %s %s", d.Name, d.Arch, d.Memory>>20, d.PCI, r.File(), r.Version())
					do(t, d)
				})
			}
		})
	}
}

// TestCopiesOnGPU: what is copied to a GPU and back is what it was, by pinned and by other memory.
func TestCopiesOnGPU(t *testing.T) {
	onGPU(t, func(t *testing.T, d *Device) {
		s, err := d.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 4097, 1 << 20, 256 << 20} {
			m, err := d.Alloc(n)
			if err != nil {
				t.Fatal(err)
			}
			p, err := d.AllocPinned(n)
			if err != nil {
				t.Fatal(err)
			}
			b := p.Bytes()
			for i := range b {
				b[i] = byte(1 + i%251)
			}
			if err := errors.Join(s.ToDevice(m.Addr(), p.Addr(), n), s.Wait(t.Context())); err != nil {
				t.Fatal(err)
			}
			clear(b)
			if err := errors.Join(s.FromDevice(p.Addr(), m.Addr(), n), s.Wait(t.Context())); err != nil {
				t.Fatal(err)
			}
			for i, got := range b {
				if got != byte(1+i%251) {
					t.Fatalf("byte %d of %d is %d, expected %d", i, n, got, 1+i%251)
				}
			}
			if file, offset, err := m.DMABuf(); err != nil {
				t.Logf("%d bytes: %v", n, err)
			} else {
				t.Logf("%d bytes: a dma-buf has them from %d on", n, offset)
				_ = file.Close()
			}
			if err := errors.Join(m.Free(), p.Free()); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
