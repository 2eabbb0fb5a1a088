package reduce_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/collective/reduce/reference"
)

// steps are the operations that kernels are made for, and Avg, which shares one.
var steps = reduce.Ops()

// specials are the bits of elements at the edges: zeros, the smallest and
// largest subnormals and normals, one, infinities, NaNs quiet and signalling,
// of both signs; and the extremes of the integers.
var specials = map[reduce.Type][]uint64{
	reduce.Int8:  {0, 1, 0x7f, 0x80, 0x81, 0xff},
	reduce.Int32: {0, 1, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff},
	reduce.Int64: {0, 1, 1<<63 - 1, 1 << 63, 1<<63 + 1, 1<<64 - 1},
	reduce.Float16: signs(15, 0, 1, 0x3ff, 0x400, 0x3bff, 0x3c00, 0x3c01, 0x4000, 0x7bff,
		0x7c00, 0x7c01, 0x7dff, 0x7e00, 0x7fff),
	reduce.BFloat16: signs(15, 0, 1, 0x7f, 0x80, 0x3f7f, 0x3f80, 0x3f81, 0x4000, 0x7f7f,
		0x7f80, 0x7f81, 0x7fbf, 0x7fc0, 0x7fff),
	reduce.Float32: signs(31, 0, 1, 0x7fffff, 0x800000, 0x3f7fffff, 0x3f800000, 0x3f800001,
		0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fbfffff, 0x7fc00000, 0x7fffffff),
	reduce.Float64: signs(63, 0, 1, 1<<52-1, 1<<52, 0x3ff0000000000000, 0x3ff0000000000001,
		0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff0000000000001, 0x7ff8000000000000,
		0x7fffffffffffffff),
}

func init() {
	specials[reduce.Uint8] = specials[reduce.Int8]
	specials[reduce.Uint32] = specials[reduce.Int32]
	specials[reduce.Uint64] = specials[reduce.Int64]
}

// signs returns each of the bits without and with the sign bit.
func signs(bit int, bits ...uint64) []uint64 {
	for _, b := range bits {
		bits = append(bits, b|1<<bit)
	}
	return bits
}

// put writes the low bytes of bits as one element.
func put(b []byte, bits uint64) {
	var e [8]byte
	binary.LittleEndian.PutUint64(e[:], bits)
	copy(b, e[:])
}

// scatter fills buf with random bits, a quarter of them special elements and,
// of the floats, half with exponents near each other so that sums round.
func scatter(r *rand.Rand, buf []byte, t reduce.Type) {
	size := t.Size()
	for i := 0; i < len(buf); i += size {
		switch r.IntN(4) {
		case 0:
			put(buf[i:i+size], specials[t][r.IntN(len(specials[t]))])
		case 1:
			put(buf[i:i+size], r.Uint64())
		default:
			reference.Fill(buf[i:i+size], t, reduce.Sum, 0, 0, r.Uint64())
		}
	}
}

// expectStep fails the test where got is not a op b.
func expectStep(t *testing.T, typ reduce.Type, op reduce.Op, got, a, b []byte) {
	t.Helper()
	want := make([]byte, len(a))
	reference.Combine(want, a, b, typ, op)
	if wrong, i := reference.Compare(got, want, typ); wrong > 0 {
		size := typ.Size()
		at := func(e []byte) string { return reference.Format(e[i*size:(i+1)*size], typ) }
		t.Fatalf("%d of %d wrong: element %d: %s of %s and %s is %s, want %s",
			wrong, len(a)/size, i, op, at(a), at(b), at(got), at(want))
	}
}

// forEach runs f for the kernel of every set, type and operation as a subtest.
func forEach(t *testing.T, f func(t *testing.T, typ reduce.Type, op reduce.Op, kernel reduce.Kernel)) {
	for _, set := range reduce.Sets() {
		for _, typ := range reduce.Types() {
			for _, op := range steps {
				t.Run(fmt.Sprintf("%s/%s/%s", set.Name, typ, op), func(t *testing.T) {
					f(t, typ, op, set.Kernel(typ, op))
				})
			}
		}
	}
}

func TestKernelShapes(t *testing.T) {
	const guard = 0xa5
	forEach(t, func(t *testing.T, typ reduce.Type, op reduce.Op, kernel reduce.Kernel) {
		r := rand.New(rand.NewPCG(uint64(typ), uint64(op)))
		size := typ.Size()
		const room = 2048 // of an operand: 200 elements of 8 bytes and some
		arena := make([]byte, 3*room)
		for length := range 201 {
			for alias := range 3 {
				for i := range arena {
					arena[i] = guard
				}
				// Each operand starts at a byte address of its own.
				operand := func(i int) []byte {
					from := room*i + 64 + r.IntN(64)
					return arena[from : from+length*size : from+length*size]
				}
				dst, a, b := operand(0), operand(1), operand(2)
				switch alias {
				case 1:
					dst = a
				case 2:
					dst = b
				}
				scatter(r, a, typ)
				scatter(r, b, typ)
				inA, inB, before := bytes.Clone(a), bytes.Clone(b), bytes.Clone(arena)
				kernel(dst, a, b)
				expectStep(t, typ, op, dst, inA, inB)
				copy(dst, before[offset(arena, dst):])
				if !bytes.Equal(arena, before) {
					t.Fatalf("length %d, alias %d: bytes outside dst were written", length, alias)
				}
			}
		}
	})
}

// The last bytes of an allocation, where the pointer checks of -race see any
// step beyond, and of a mapping outside the heap, where the next page faults.
func TestKernelAtTheEndOfMemory(t *testing.T) {
	const room = 64 // bytes, a size class of the allocator
	var mapped [3][]byte
	for i := range mapped {
		mapped[i] = lastBytes(t, room)
	}
	forEach(t, func(t *testing.T, typ reduce.Type, op reduce.Op, kernel reduce.Kernel) {
		r := rand.New(rand.NewPCG(9, 9))
		for _, heap := range []bool{true, false} {
			for length := 0; length <= room; length += typ.Size() {
				memory := mapped
				if heap {
					memory = [3][]byte{make([]byte, room), make([]byte, room), make([]byte, room)}
				}
				dst, a, b := memory[0][room-length:], memory[1][room-length:], memory[2][room-length:]
				scatter(r, a, typ)
				scatter(r, b, typ)
				kernel(dst, a, b)
				expectStep(t, typ, op, dst, a, b)
				reduce.Finish(typ, op, 3, dst)
			}
		}
	})
}

// lastBytes maps memory whose last n bytes it returns; the page that follows
// them cannot be read.
func lastBytes(t *testing.T, n int) []byte {
	t.Helper()
	page := os.Getpagesize()
	m, err := syscall.Mmap(-1, 0, 2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mprotect(m[page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return m[page-n : page : page]
}

// offset returns where within arena the slice begins.
func offset(arena, slice []byte) int {
	for i := range arena {
		if len(slice) > 0 && &arena[i] == &slice[0] {
			return i
		}
	}
	return 0
}

func TestKernelEveryPairOfSpecials(t *testing.T) {
	forEach(t, func(t *testing.T, typ reduce.Type, op reduce.Op, kernel reduce.Kernel) {
		size := typ.Size()
		var a, b []byte
		for _, x := range specials[typ] {
			for _, y := range specials[typ] {
				a, b = append(a, make([]byte, size)...), append(b, make([]byte, size)...)
				put(a[len(a)-size:], x)
				put(b[len(b)-size:], y)
			}
		}
		got, swapped := make([]byte, len(a)), make([]byte, len(a))
		kernel(got, a, b)
		expectStep(t, typ, op, got, a, b)
		kernel(swapped, b, a)
		if !bytes.Equal(got, swapped) {
			t.Fatal("the order of the two operands changes the result")
		}
	})
}

// Small types are tried with every value on one side.
func TestKernelEveryValue(t *testing.T) {
	forEach(t, func(t *testing.T, typ reduce.Type, op reduce.Op, kernel reduce.Kernel) {
		size := typ.Size()
		if size > 2 {
			t.Skip("more than 65536 values")
		}
		r := rand.New(rand.NewPCG(3, 4))
		values := 1 << (8 * size)
		a, b, got := make([]byte, values*size), make([]byte, values*size), make([]byte, values*size)
		for i := range values {
			put(a[i*size:(i+1)*size], uint64(i))
		}
		for range 6 {
			scatter(r, b, typ)
			kernel(got, a, b)
			expectStep(t, typ, op, got, a, b)
		}
	})
}

// The 16-bit floats are tried with every value on one side and many single ones
// on the other; the plain kernels, held against the reference above, say what
// the others must give.
func TestKernelsAgreeOnEveryValue(t *testing.T) {
	sets := reduce.Sets()
	if len(sets) == 1 {
		t.Skip("this build or processor has the plain kernels alone")
	}
	const bytesEach = 2 << 16
	a, b, want, got := make([]byte, bytesEach), make([]byte, bytesEach), make([]byte, bytesEach), make([]byte, bytesEach)
	for i := range 1 << 16 {
		put(a[2*i:2*i+2], uint64(i))
	}
	r := rand.New(rand.NewPCG(10, 11))
	for _, typ := range []reduce.Type{reduce.Float16, reduce.BFloat16} {
		others := specials[typ]
		for range 32 {
			others = append(others, r.Uint64N(1<<16))
		}
		for _, other := range others {
			for i := 0; i < len(b); i += 2 {
				put(b[i:i+2], other)
			}
			for _, op := range steps {
				sets[0].Kernel(typ, op)(want, a, b)
				sets[1].Kernel(typ, op)(got, a, b)
				if wrong, i := reference.Compare(got, want, typ); wrong > 0 {
					t.Fatalf("%s %s of %#04x and %#04x is %s, want %s", typ, op, i, other,
						reference.Format(got[2*i:2*i+2], typ), reference.Format(want[2*i:2*i+2], typ))
				}
			}
		}
	}
}

// An operand that is too short is a panic, not a read of what lies behind it.
func TestKernelShortOperand(t *testing.T) {
	forEach(t, func(t *testing.T, typ reduce.Type, op reduce.Op, kernel reduce.Kernel) {
		long, short := make([]byte, 512), make([]byte, 512)[:504]
		for _, operands := range [][2][]byte{{long, short}, {short, long}} {
			func() {
				defer func() {
					if recover() == nil {
						t.Error("no panic")
					}
				}()
				kernel(long, operands[0], operands[1])
			}()
		}
	})
}

func TestKernelRandom(t *testing.T) {
	forEach(t, func(t *testing.T, typ reduce.Type, op reduce.Op, kernel reduce.Kernel) {
		r := rand.New(rand.NewPCG(1, 2))
		// From an odd address, and longer by nothing, a few bytes, or more than a
		// register than what a kernel may do in one go.
		length := 256<<10 + []int{0, 8, 40}[int(op)%3]
		place := func() []byte { return make([]byte, length+1)[1:] }
		a, b, got := place(), place(), place()
		scatter(r, a, typ)
		scatter(r, b, typ)
		kernel(got, a, b)
		expectStep(t, typ, op, got, a, b)
	})
}

func TestFinish(t *testing.T) {
	forEach(t, func(t *testing.T, typ reduce.Type, op reduce.Op, _ reduce.Kernel) {
		r := rand.New(rand.NewPCG(5, 6))
		arena := make([]byte, 4096+8)
		for _, n := range []int{1, 2, 3, 4, 7, 8, 127, 128, 129, 255, 256, 257, 1000, 65521} {
			buf := arena[n%8:][:4096]
			scatter(r, buf, typ)
			in := bytes.Clone(buf)
			want := bytes.Clone(buf)
			reference.Finish(want, typ, op, n)
			reduce.Finish(typ, op, n, buf)
			if wrong, i := reference.Compare(buf, want, typ); wrong > 0 {
				size := typ.Size()
				at := func(e []byte) string { return reference.Format(e[i*size:(i+1)*size], typ) }
				t.Fatalf("%d wrong: %s over %d ranks is %s, want %s", wrong, at(in), n, at(buf), at(want))
			}
			if op != reduce.Avg && !bytes.Equal(in, buf) {
				t.Fatalf("%s over %d ranks was changed", op, n)
			}
		}
	})
}

func TestNoAllocations(t *testing.T) {
	forEach(t, func(t *testing.T, typ reduce.Type, op reduce.Op, kernel reduce.Kernel) {
		a, b, dst := make([]byte, 4096), make([]byte, 4096), make([]byte, 4096)
		if n := testing.AllocsPerRun(10, func() {
			kernel(dst, a, b)
			reduce.Finish(typ, op, 3, dst)
		}); n != 0 {
			t.Errorf("%v allocations a run", n)
		}
	})
}

// FuzzKernel holds every kernel against the reference on arbitrary operands,
// in place and not, at an arbitrary address.
func FuzzKernel(f *testing.F) {
	for typ, list := range specials {
		var a, b []byte
		for i, bits := range list {
			a, b = binary.LittleEndian.AppendUint64(a, bits), binary.LittleEndian.AppendUint64(b, list[len(list)-1-i])
		}
		for op := range steps {
			f.Add(uint8(typ), uint8(op), uint8(typ), a, b)
		}
	}
	f.Fuzz(func(t *testing.T, typeByte, opByte, start uint8, a, b []byte) {
		typ := reduce.Types()[int(typeByte)%len(reduce.Types())]
		op := steps[int(opByte)%len(steps)]
		length := min(len(a), len(b)) / typ.Size() * typ.Size()
		a, b = a[:length], b[:length]
		place := func() []byte { return make([]byte, length+16)[start%16:][:length] }

		for _, set := range reduce.Sets() {
			kernel := set.Kernel(typ, op)
			dst := place()
			kernel(dst, a, b)
			expectStep(t, typ, op, dst, a, b)
			copy(dst, a)
			kernel(dst, dst, b)
			expectStep(t, typ, op, dst, a, b)
			copy(dst, b)
			kernel(dst, a, dst)
			expectStep(t, typ, op, dst, a, b)
		}
	})
}
