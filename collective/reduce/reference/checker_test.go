package reference

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"ringcli/collective/reduce"
)

func forEach(t *testing.T, f func(t *testing.T, typ reduce.Type, op reduce.Op)) {
	for _, typ := range reduce.Types() {
		for _, op := range reduce.Ops() {
			t.Run(fmt.Sprintf("%s/%s", typ, op), func(t *testing.T) { f(t, typ, op) })
		}
	}
}

func TestFillInPieces(t *testing.T) {
	forEach(t, func(t *testing.T, typ reduce.Type, op reduce.Op) {
		const count = 40
		size := typ.Size()
		whole := make([]byte, count*size)
		Fill(whole, typ, op, 3, 0, 9)
		for lo := range count {
			for hi := lo; hi <= count; hi++ {
				piece := make([]byte, (hi-lo)*size)
				Fill(piece, typ, op, 3, lo, 9)
				if !bytes.Equal(piece, whole[lo*size:hi*size]) {
					t.Fatalf("elements [%d, %d) differ when they are made alone", lo, hi)
				}
			}
		}
	})
}

func TestFillDependsOnRankElementAndSeed(t *testing.T) {
	forEach(t, func(t *testing.T, typ reduce.Type, op reduce.Op) {
		const count = 512
		base, other := make([]byte, count*typ.Size()), make([]byte, count*typ.Size())
		Fill(base, typ, op, 0, 0, 1)
		for name, fill := range map[string]func(){
			"rank":   func() { Fill(other, typ, op, 1, 0, 1) },
			"offset": func() { Fill(other, typ, op, 0, count, 1) },
			"seed":   func() { Fill(other, typ, op, 0, 0, 2) },
		} {
			fill()
			// Two random bytes agree once in 256, odd ones once in 128, as do
			// two bfloat16 near 1.
			if wrong, _ := Compare(other, base, typ); wrong < count*9/10 {
				t.Errorf("another %s changes %d of %d elements", name, wrong, count)
			}
		}
	})
}

func TestFillRanges(t *testing.T) {
	forEach(t, func(t *testing.T, typ reduce.Type, op reduce.Op) {
		size := typ.Size()
		buf := make([]byte, 1<<16)
		Fill(buf, typ, op, 5, 0, 3)
		negative, large := 0, 0
		for i := 0; i < len(buf); i += size {
			bits := load(buf[i : i+size])
			v := math.Abs(decode(typ, bits))
			switch {
			case !typ.Float():
				if op == reduce.Prod && bits%2 == 0 {
					t.Fatalf("%d is even", bits)
				}
				continue
			case op == reduce.Prod && (v < 1-0.17 || v > 1+0.17):
				t.Fatalf("%v is not near 1", v)
			case op != reduce.Prod && (v < 1.0/128 || v >= 2):
				t.Fatalf("%v is out of range", v)
			}
			if v >= 1 {
				large++
			}
			if bits>>(8*size-1) == 1 {
				negative++
			}
		}
		if n := len(buf) / size; typ.Float() && (negative < n*2/5 || negative > n*3/5 || large < n/10) {
			t.Errorf("of %d, %d are negative and %d at least 1", n, negative, large)
		}
	})
}

// The inputs of floats are worth their name only if another order gives other
// bits, and if results stay finite.
func TestInputsAreSensitiveToOrder(t *testing.T) {
	const n, count = 8, 4096
	for _, typ := range []reduce.Type{reduce.Float16, reduce.BFloat16, reduce.Float32, reduce.Float64} {
		for _, op := range []reduce.Op{reduce.Sum, reduce.Prod, reduce.Avg} {
			c := NewChecker(RingOrder, typ, op, n, count, 4)
			inputs := make([][]byte, n)
			for r := range inputs {
				inputs[r] = make([]byte, count*typ.Size())
				c.Fill(r, inputs[r])
			}
			got := make([]byte, count*typ.Size())
			ringOf(got, inputs, typ, op)
			for i := 0; i < len(got); i += typ.Size() {
				if v := decode(typ, load(got[i:i+typ.Size()])); !finite(v) {
					t.Fatalf("%s %s gives %v", typ, op, v)
				}
			}
			inputs[2], inputs[6] = inputs[6], inputs[2]
			ringOf(got, inputs, typ, op)
			if wrong, _ := c.Verify(0, count, got); wrong < count/8 {
				t.Errorf("%s %s: two ranks in other places change %d of %d elements", typ, op, wrong, count)
			}
		}
	}
}

func TestVerifyAgreesWithRing(t *testing.T) {
	forEach(t, func(t *testing.T, typ reduce.Type, op reduce.Op) {
		size := typ.Size()
		for _, n := range []int{1, 2, 3, 5, 8} {
			for _, count := range []int{0, 1, n - 1, n, n + 1, 1000, 9001} {
				c := NewChecker(RingOrder, typ, op, n, count, 11)
				inputs := make([][]byte, n)
				for r := range inputs {
					inputs[r] = make([]byte, count*size)
					c.Fill(r, inputs[r])
				}
				want := make([]byte, count*size)
				ringOf(want, inputs, typ, op)
				if wrong, first := c.Verify(0, count, want); wrong != 0 {
					t.Fatalf("n %d, count %d: %d wrong: %+v", n, count, wrong, first)
				}
				lo, hi := count/3, count-count/5
				got := make([]byte, (hi-lo)*size)
				c.Expect(lo, hi, got)
				if !bytes.Equal(got, want[lo*size:hi*size]) {
					t.Fatalf("n %d, count %d: Expect(%d, %d) differs", n, count, lo, hi)
				}
				if wrong, first := c.Verify(lo, hi, got); wrong != 0 {
					t.Fatalf("n %d, [%d, %d) of %d: %d wrong: %+v", n, lo, hi, count, wrong, first)
				}
				gathered := make([]byte, count*size)
				for r := range n {
					from, to := reduce.Chunk(count, n, r)
					copy(gathered[from*size:to*size], inputs[r][from*size:])
				}
				if wrong, first := c.VerifyGathered(0, count, gathered); wrong != 0 {
					t.Fatalf("gathered, n %d, count %d: %d wrong: %+v", n, count, wrong, first)
				}
			}
		}
	})
}

func TestVerifyFindsFaults(t *testing.T) {
	forEach(t, func(t *testing.T, typ reduce.Type, op reduce.Op) {
		const n, count, at = 4, 10_007, 7_777
		size := typ.Size()
		c := NewChecker(RingOrder, typ, op, n, count, 1)
		good := make([]byte, count*size)
		c.Expect(0, count, good)

		bad := bytes.Clone(good)
		bad[at*size+size-1] ^= 0x10
		wrong, first := c.Verify(0, count, bad)
		if wrong != 1 || first.Offset != at ||
			first.Got != Format(bad[at*size:(at+1)*size], typ) || first.Want != Format(good[at*size:(at+1)*size], typ) {
			t.Errorf("one flipped bit: %d wrong, first %+v", wrong, first)
		}

		bad = bytes.Clone(good)
		_, end := reduce.Chunk(count, n, 0)
		lo, _ := reduce.Chunk(count, n, 1)
		copy(bad[:end*size], good[lo*size:])
		copy(bad[lo*size:], good[:end*size])
		if wrong, first = c.Verify(0, count, bad); wrong < end || first.Offset > 100 {
			t.Errorf("two swapped chunks of %d: %d wrong, first %+v", end, wrong, first)
		}

		if wrong, first = c.Verify(0, count, good[:at*size]); wrong != count-at || first.Offset != at || first.Got != "nothing" {
			t.Errorf("a short result: %d wrong, first %+v", wrong, first)
		}
		if wrong, _ = c.VerifyGathered(0, count, good); wrong < count/2 {
			t.Errorf("a reduction in place of a gathering: %d wrong", wrong)
		}
		if first.Want == "" || !strings.Contains(first.Want, "0x") {
			t.Errorf("no bits in %+v", first)
		}
	})
}

func TestNoAllocations(t *testing.T) {
	const n, count = 3, 10_000
	forEach(t, func(t *testing.T, typ reduce.Type, op reduce.Op) {
		buf, result := make([]byte, count*typ.Size()), make([]byte, count*typ.Size())
		c := NewChecker(RingOrder, typ, op, n, count, 1)
		c.Expect(0, count, result)
		Fill(buf, typ, op, 0, 0, 1)
		lo, hi := reduce.Chunk(count, n, 0)
		gathered := bytes.Clone(buf[lo*typ.Size() : hi*typ.Size()])
		if got := testing.AllocsPerRun(2, func() {
			c.Fill(1, buf)
			if wrong, first := c.Verify(0, count, result); wrong != 0 {
				t.Fatalf("%d wrong: %+v", wrong, first)
			}
			c.Expect(0, count, buf)
			if wrong, first := c.VerifyGathered(lo, hi, gathered); wrong != 0 {
				t.Fatalf("gathered: %d wrong: %+v", wrong, first)
			}
		}); got != 0 {
			t.Errorf("%v allocations a run", got)
		}
	})
}

func BenchmarkFill(b *testing.B) {
	buf := make([]byte, 64<<10)
	for _, t := range reduce.Types() {
		b.Run(t.String(), func(b *testing.B) {
			b.SetBytes(int64(len(buf)))
			for b.Loop() {
				Fill(buf, t, reduce.Sum, 1, 0, 1)
			}
		})
	}
}

// BenchmarkVerify checks a sum over four ranks, the bytes of one array a second.
func BenchmarkVerify(b *testing.B) {
	for _, t := range reduce.Types() {
		b.Run(t.String(), func(b *testing.B) {
			buf := make([]byte, 64<<10)
			count := len(buf) / t.Size()
			c := NewChecker(RingOrder, t, reduce.Sum, 4, count, 1)
			c.Expect(0, count, buf)
			b.SetBytes(int64(len(buf)))
			for b.Loop() {
				if wrong, first := c.Verify(0, count, buf); wrong != 0 {
					b.Fatalf("%d wrong: %+v", wrong, first)
				}
			}
		})
	}
}
