//go:build !nodl

package kernels

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ebitengine/purego"

	"ringcli/collective/reduce"
	"ringcli/verbs/memory"
)

// hostKernels are the kernels of kernels.hip as the C compiler makes them for the host.
func hostKernels(t *testing.T) (launch func(name string, grid, block uint32, args *[5]uintptr) int32) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler: install gcc")
	}
	file := filepath.Join(t.TempDir(), "kernels.so")
	if out, err := exec.Command(cc, "-std=gnu11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "testdata/host.c", "-o", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lib, err := purego.Dlopen(file, purego.RTLD_NOW)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = purego.Dlclose(lib) })
	purego.RegisterLibFunc(&launch, lib, "ringcli_launch")
	return launch
}

// special are elements that rules are about: infinities, NaNs with payloads, zeros of both
// signs, subnormals, the least and the greatest.
func special(t reduce.Type) (words []uint64) {
	switch t {
	case reduce.Float32:
		for _, f := range []float32{0, float32(math.Copysign(0, -1)), 1, -1, float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 1e-38} {
			words = append(words, uint64(math.Float32bits(f)))
		}
		return append(words, 0x7fc00000, 0xffc12345, 0x7f800001)
	case reduce.Float64:
		for _, f := range []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 1e-308} {
			words = append(words, math.Float64bits(f))
		}
		return append(words, 0x7ff8000000000000, 0xfff8000000012345, 0x7ff0000000000001)
	}
	return []uint64{0, 1, ^uint64(0), 1 << 31, 1<<31 - 1, 1 << 63, 1<<63 - 1, 0x80000001}
}

// fill writes elements of which each third is special, and the others are any bits.
func fill(r *rand.Rand, b []byte, t reduce.Type) {
	list := special(t)
	for at := 0; at+t.Size() <= len(b); at += t.Size() {
		w := r.Uint64()
		if r.IntN(3) == 0 {
			w = list[r.IntN(len(list))]
		}
		for i := range t.Size() {
			b[at+i] = byte(w >> (8 * i))
		}
	}
}

// TestHostKernels holds the source of HIP's kernels against package reduce, bit for bit: each
// operation and type, vectors that lie alike in lines and that do not, of lengths around lines
// and blocks, in place and not.
func TestHostKernels(t *testing.T) {
	launch := hostKernels(t)
	const room = 1 << 14
	block, err := memory.Alloc(4 * room)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = block.Free() }()
	all := block.Bytes()[:3*room]
	words := memory.Slice[uint64](block.Addr()+3*room, 5) // the arguments
	r := rand.New(rand.NewPCG(1, 2))
	for _, typ := range types {
		size := typ.Size()
		for _, op := range reduce.Ops() {
			name, ok := Name(op, typ)
			if !ok {
				t.Fatalf("no kernel %s", name)
			}
			fill(r, all, typ)
			kept := bytes.Clone(all)
			for _, count := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 1023, room/8 - 3} {
				for _, at := range [][3]int{{0, 0, 0}, {1, 1, 1}, {3, 3, 3}, {0, 1, 0}, {1, 0, 2}, {2, 3, 2}} {
					for _, inPlace := range []bool{false, true} {
						ranks := 1 + r.IntN(9)
						dst, a, b := at[0]*size, room+at[1]*size, 2*room+at[2]*size
						if inPlace {
							dst = b
						}
						copy(all, kept)
						want := bytes.Clone(all)
						reduce.Lookup(typ, op)(want[dst:][:count*size], all[a:][:count*size], all[b:][:count*size])
						if op == reduce.Avg {
							// The kernel divides also by 1, which is exact and leaves a NaN canonical.
							reduce.Finish(typ, op, ranks, want[dst:][:count*size])
						}
						var args [5]uintptr
						for i, w := range (Args{block.Addr() + uint64(dst), block.Addr() + uint64(a), block.Addr() + uint64(b), uint64(count), uint64(ranks)}).Words() {
							words[i] = w
							args[i] = uintptr(block.Addr()) + 3*room + uintptr(8*i)
						}
						if launch(name, uint32(min(Grid(uint64(count*size)), 3)), 32, &args) != 0 {
							t.Fatalf("no kernel %s", name)
						}
						if !bytes.Equal(all, want) {
							t.Fatalf("%s of %d elements at %v, in place %v, %d ranks: %s", name, count, at, inPlace, ranks, firstDifference(all, want))
						}
					}
				}
			}
		}
	}
}

func firstDifference(got, want []byte) string {
	for i := range want {
		if got[i] != want[i] {
			i &^= 7
			return fmt.Sprintf("byte %d: got % x, want % x", i, got[i:i+8], want[i:i+8])
		}
	}
	return "none"
}

// tool is a compiler that a machine may lack: where the environment says, or in the PATH.
func tool(t *testing.T, variable, name, install string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s: %s, or say in %s where it is", name, install, variable)
	}
	return path
}

// TestPTXAssembles has NVIDIA's assembler make code of the kernels for devices old and new.
func TestPTXAssembles(t *testing.T) {
	ptxas := tool(t, "RINGTEST_PTXAS", "ptxas", "install Debian's nvidia-cuda-toolkit (non-free) or CUDA")
	source := filepath.Join(t.TempDir(), "kernels.ptx")
	if err := os.WriteFile(source, PTX(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"sm_50", "sm_70", "sm_80", "sm_90"} {
		out, err := exec.Command(ptxas, "-arch="+arch, "-v", "--warning-as-error", source, "-o", os.DevNull).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", arch, err, out)
		}
		for _, op := range reduce.Ops() {
			for _, typ := range types {
				name, _ := Name(op, typ)
				if !bytes.Contains(out, []byte("'"+name+"'")) {
					t.Errorf("%s: no kernel %s in %s", arch, name, out)
				}
			}
		}
		if n := len(types) * len(reduce.Ops()); bytes.Count(out, []byte("bytes spill stores")) < n {
			t.Errorf("%s: not of all %d kernels what spills: %s", arch, n, out)
		}
		if line := spills(out); line != "" {
			t.Errorf("%s: registers spill: %s: %s", arch, line, out)
		}
	}
}

// spills is the first line of ptxas -v that tells of a kernel whose registers spill.
func spills(out []byte) string {
	for line := range bytes.Lines(out) {
		if bytes.Contains(line, []byte("spill")) && !bytes.Contains(line, []byte(" 0 bytes spill stores, 0 bytes spill loads")) {
			return string(bytes.TrimSpace(line))
		}
	}
	return ""
}

func TestSpillsAreFound(t *testing.T) {
	const none = "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
	for out, want := range map[string]string{
		"ptxas info    : Function properties for a\n" + none + none:                    "",
		none + "    8 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads\n":  "8 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads",
		"    8 bytes stack frame, 0 bytes spill stores, 12 bytes spill loads\n" + none: "8 bytes stack frame, 0 bytes spill stores, 12 bytes spill loads",
		none + "    8 bytes stack frame, 10 bytes spill stores, 0 bytes spill loads":   "8 bytes stack frame, 10 bytes spill stores, 0 bytes spill loads",
	} {
		if got := spills([]byte(out)); got != want {
			t.Errorf("%q spills by %q, expected %q", out, got, want)
		}
	}
}

// TestHIPCompiles has clang make code of the kernels' source for AMD's devices, with vectors
// read and written 16 bytes at a time.
func TestHIPCompiles(t *testing.T) {
	clang := tool(t, "RINGTEST_CLANG", "clang", "install clang 15 or later")
	for _, arch := range []string{"gfx906", "gfx90a", "gfx1030"} {
		args := []string{"-x", "hip", "-O3", "-nogpulib", "-nogpuinc", "--offload-arch=" + arch, "--cuda-device-only", "-include", "testdata/amd.h", "-Wall", "-Wextra", "-Werror", "-S", "-o", "-", "kernels.hip"}
		cmd := exec.Command(clang, args...)
		var failed bytes.Buffer
		cmd.Stderr = &failed
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", arch, err, failed.Bytes())
		}
		for what, want := range map[string]int{".amdhsa_kernel ringcli_": len(types) * len(reduce.Ops()), "store_dwordx4": len(types) * len(reduce.Ops())} {
			if got := bytes.Count(out, []byte(what)); got != want {
				t.Errorf("%s: %d times %s, expected %d", arch, got, what, want)
			}
		}
	}
}
