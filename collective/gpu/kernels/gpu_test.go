//go:build !nodl

package kernels

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ringcli/collective/reduce"
	"ringcli/verbs/gpu"
	"ringcli/verbs/gpu/gputest"
)

// load returns the kernels as a module of the device's kind.
func load(t *testing.T, d *gpu.Device) *gpu.Module {
	t.Helper()
	image := PTX()
	if d.Place.Kind == gpu.HIP {
		var err error
		if image, err = d.Compile("kernels.hip", HIP); err != nil {
			t.Fatal(err)
		}
	}
	module, err := d.Module(image)
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// onDevice runs every kernel on a device and holds it against package reduce, bit for bit, and says
// how fast one is beside a copy.
func onDevice(t *testing.T, d *gpu.Device) {
	module := load(t, d)
	defer func() { _ = module.Close() }()
	stream, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	const room = 1 << 14
	device, err := d.Alloc(3 * room)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = device.Free() }()
	host, err := d.AllocPinned(3 * room)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = host.Free() }()
	done := func(errs ...error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, err := range append(errs, stream.Wait(ctx)) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	for _, typ := range types {
		for _, op := range reduce.Ops() {
			name, _ := Name(op, typ)
			f, err := module.Function(name)
			if err != nil {
				t.Fatal(err)
			}
			size := typ.Size()
			all := host.Bytes()
			fill(r, all, typ)
			kept := bytes.Clone(all)
			for _, count := range []int{0, 1, 3, 4, 9, 255, room/8 - 3} {
				for _, at := range [][3]int{{0, 0, 0}, {1, 1, 1}, {3, 3, 3}, {0, 1, 0}, {2, 3, 2}} {
					ranks := 1 + r.IntN(9)
					copy(all, kept)
					want := bytes.Clone(all)
					dst, a, b := at[0]*size, room+at[1]*size, 2*room+at[2]*size
					reduce.Lookup(typ, op)(want[dst:][:count*size], all[a:][:count*size], all[b:][:count*size])
					if op == reduce.Avg {
						reduce.Finish(typ, op, ranks, want[dst:][:count*size])
					}
					done(stream.ToDevice(device.Addr(), host.Addr(), len(all)))
					args := Args{device.Addr() + uint64(dst), device.Addr() + uint64(a), device.Addr() + uint64(b), uint64(count), uint64(ranks)}
					done(stream.Launch(f, Grid(uint64(count*size)), Block, args.Words()...))
					clear(all)
					done(stream.FromDevice(host.Addr(), device.Addr(), len(all)))
					if !bytes.Equal(all, want) {
						t.Fatalf("%s of %d elements at %v, %d ranks: %s", name, count, at, ranks, firstDifference(all, want))
					}
				}
			}
		}
	}
}

// speed says how fast a kernel is beside a copy on the device, which moves two bytes for its three.
func speed(t *testing.T, d *gpu.Device) {
	const n, turns = 256 << 20, 20
	module := load(t, d)
	f, err := module.Function("ringcli_sum_float32")
	if err != nil {
		t.Fatal(err)
	}
	stream, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.Alloc(3 * n)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Free() }()
	took := func(do func() error) time.Duration {
		best := time.Hour
		for range 5 {
			begun := time.Now()
			for range turns {
				if err := do(); err != nil {
					t.Fatal(err)
				}
			}
			if err := stream.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(begun)/turns)
		}
		return best
	}
	for size := uint64(8 << 10); size <= n; size *= 32 {
		args := Args{m.Addr(), m.Addr() + n, m.Addr() + 2*n, size / 4, 1}
		copies := took(func() error { return stream.OnDevice(m.Addr(), m.Addr()+n, int(size)) })
		sums := took(func() error { return stream.Launch(f, Grid(size), Block, args.Words()...) })
		t.Logf("%9d bytes: copy %9s, %7.1f GB/s; sum %9s, %7.1f GB/s of memory", size, copies, 2*float64(size)/float64(copies), sums, 3*float64(size)/float64(sums))
	}
}

// TestKernelsOnGPU is onDevice and speed on each real GPU.
func TestKernelsOnGPU(t *testing.T) {
	gputest.Real(t)
	for _, kind := range gpu.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			r, err := gpu.Load(kind)
			if err != nil {
				t.Skip(err)
			}
			for _, d := range r.Devices() {
				t.Logf("%s: %s, %s", d.Place, d.Name, d.Arch)
				onDevice(t, d)
				speed(t, d)
			}
		})
	}
}

// inChild says in which place a child of TestKernelsLaunch runs it.
const inChild = "RINGTEST_KERNELS_ON"

// TestKernelsLaunch is onDevice on gputest's devices: modules, functions and arguments are as the
// runtimes take them.
func TestKernelsLaunch(t *testing.T) {
	if text := os.Getenv(inChild); text != "" {
		place, err := gpu.ParsePlace(text)
		if err != nil {
			t.Fatal(err)
		}
		d, err := gpu.Open(place)
		if err != nil {
			t.Fatal(err)
		}
		onDevice(t, d)
		return
	}
	dir := gputest.Build(t, "testdata/gputest.c")
	for _, place := range []string{"cuda:1", "hip:0"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKernelsLaunch$", "-test.count=1", "-test.v")
		cmd.Env = append(os.Environ(), inChild+"="+place, "LD_LIBRARY_PATH="+dir)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%s: %v\n%s", place, err, out)
		}
	}
}
