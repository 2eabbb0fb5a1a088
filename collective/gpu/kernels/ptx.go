package kernels

import (
	"bytes"
	"fmt"
	"strings"

	"ringcli/collective/reduce"
)

// types are those that there are kernels for.
var types = []reduce.Type{reduce.Float32, reduce.Float64, reduce.Int32, reduce.Int64}

// PTX is the assembly of all kernels. It asks for the first devices of 64-bit atomics' age and
// an old version of the language, which every newer driver and device takes.
func PTX() []byte {
	var b bytes.Buffer
	b.WriteString(".version 6.0\n.target sm_50\n.address_size 64\n")
	for _, op := range reduce.Ops() {
		for _, t := range types {
			p := program{&b, op, t, t.Size(), fmt.Sprintf(".b%d", 8*t.Size()), fmt.Sprintf(".s%d", 8*t.Size())}
			p.kernel()
		}
	}
	return b.Bytes()
}

// program writes the kernel of one operation over one type.
type program struct {
	to           *bytes.Buffer
	op           reduce.Op
	typ          reduce.Type
	bytes        int    // of an element
	bits, signed string // its type in registers and memory, and as an integer
}

// typed is the type that is computed with.
func (p program) typed() string {
	if p.typ.Float() {
		return fmt.Sprintf(".f%d", 8*p.bytes)
	}
	return p.signed
}

func (p program) line(format string, args ...any) { fmt.Fprintf(p.to, "\t"+format+"\n", args...) }

// kernel has the shape that all of them share. Registers: %rd0 to 2 are where dst, a and b
// begin, %rd3 the elements, %rd4 this thread's number, %rd5 all threads', %rd6 the elements
// before the first whole line, %rd7 the lines, %rd8 the elements in them.
func (p program) kernel() {
	name, _ := Name(p.op, p.typ)
	fmt.Fprintf(p.to, "\n.visible .entry %s(.param .u64 dst, .param .u64 a, .param .u64 b, .param .u64 count, .param .u64 ranks)\n{\n", name)
	p.line(".reg .pred %%p<6>;\n\t.reg .b32 %%r<8>;\n\t.reg .b64 %%rd<24>;")
	lanes := line / p.bytes
	for _, vector := range "xyz" {
		p.line(".reg %s %%%c<%d>;", p.bits, vector, lanes)
	}
	p.line(".reg %s %%t<6>;", p.bits)
	for i, parameter := range []string{"dst", "a", "b", "count", "ranks"} {
		p.line("ld.param.u64 %%rd%d, [%s];", map[bool]int{true: i, false: 9}[i < 4], parameter)
	}
	for i := range 3 {
		p.line("cvta.to.global.u64 %%rd%d, %%rd%d;", i, i)
	}
	p.divisor()
	for _, text := range []string{
		"mov.u32 %r0, %ctaid.x;", "mov.u32 %r1, %ntid.x;", "mov.u32 %r2, %tid.x;", "mov.u32 %r3, %nctaid.x;",
		"mul.wide.u32 %rd4, %r0, %r1;", "cvt.u64.u32 %rd10, %r2;", "add.u64 %rd4, %rd4, %rd10;", "mul.wide.u32 %rd5, %r3, %r1;",
		// Elements before the first line: all, unless the vectors lie alike.
		"mov.u64 %rd6, %rd3;", "mov.u64 %rd7, 0;",
		"xor.b64 %rd10, %rd0, %rd1;", "xor.b64 %rd11, %rd0, %rd2;", "or.b64 %rd10, %rd10, %rd11;",
		fmt.Sprintf("and.b64 %%rd10, %%rd10, %d;", line-1), "setp.ne.u64 %p0, %rd10, 0;", "@%p0 bra split;",
		"neg.s64 %rd10, %rd0;", fmt.Sprintf("and.b64 %%rd10, %%rd10, %d;", line-1),
		fmt.Sprintf("shr.u64 %%rd10, %%rd10, %d;", shift(p.bytes)), "min.u64 %rd6, %rd10, %rd3;",
		"sub.u64 %rd7, %rd3, %rd6;", fmt.Sprintf("shr.u64 %%rd7, %%rd7, %d;", shift(lanes)),
	} {
		p.line("%s", text)
	}
	p.to.WriteString("split:\n")
	p.line("shl.b64 %%rd8, %%rd7, %d;", shift(lanes))
	// Whole lines, from the address behind the elements before them.
	p.line("shl.b64 %%rd10, %%rd6, %d;", shift(p.bytes))
	for i := range 3 {
		p.line("add.u64 %%rd%d, %%rd%d, %%rd10;", 12+i, i)
	}
	p.line("mov.u64 %%rd15, %%rd4;")
	p.to.WriteString("lines:\n")
	p.line("setp.ge.u64 %%p1, %%rd15, %%rd7;\n\t@%%p1 bra rest;\n\tshl.b64 %%rd16, %%rd15, %d;", shift(line))
	for i := range 3 {
		p.line("add.u64 %%rd%d, %%rd%d, %%rd16;", 17+i, 12+i)
	}
	p.line("ld.global.v%d%s %s, [%%rd18];", lanes, p.bits, registers('x', lanes))
	p.line("ld.global.v%d%s %s, [%%rd19];", lanes, p.bits, registers('y', lanes))
	for i := range lanes {
		p.combine(i)
	}
	p.line("st.global.v%d%s [%%rd17], %s;", lanes, p.bits, registers('z', lanes))
	p.line("add.u64 %%rd15, %%rd15, %%rd5;\n\tbra lines;")
	// The elements before them, and behind.
	p.to.WriteString("rest:\n")
	p.line("sub.u64 %%rd11, %%rd3, %%rd8;\n\tmov.u64 %%rd15, %%rd4;")
	p.to.WriteString("elements:\n")
	p.line("setp.ge.u64 %%p2, %%rd15, %%rd11;\n\t@%%p2 bra done;")
	p.line("mov.u64 %%rd16, %%rd15;\n\tsetp.lt.u64 %%p3, %%rd15, %%rd6;\n\t@!%%p3 add.u64 %%rd16, %%rd15, %%rd8;")
	p.line("shl.b64 %%rd16, %%rd16, %d;", shift(p.bytes))
	for i := range 3 {
		p.line("add.u64 %%rd%d, %%rd%d, %%rd16;", 17+i, i)
	}
	p.line("ld.global%s %%x0, [%%rd18];\n\tld.global%s %%y0, [%%rd19];", p.bits, p.bits)
	p.combine(0)
	p.line("st.global%s [%%rd17], %%z0;\n\tadd.u64 %%rd15, %%rd15, %%rd5;\n\tbra elements;", p.bits)
	p.to.WriteString("done:\n\tret;\n}\n")
}

// divisor has the number of ranks in %t4 as a float, or in %rd9.
func (p program) divisor() {
	if p.op == reduce.Avg && p.typ.Float() {
		p.line("cvt.rn%s.u64 %%t4, %%rd9;", p.typed())
	}
}

// combine computes lane i: z = x op y.
func (p program) combine(i int) {
	x, y, z := fmt.Sprintf("%%x%d", i), fmt.Sprintf("%%y%d", i), fmt.Sprintf("%%z%d", i)
	switch {
	case p.op == reduce.Sum || p.op == reduce.Avg:
		p.line("add%s %s, %s, %s;", p.rounded(""), z, x, y)
	case p.op == reduce.Prod:
		p.line("mul%s %s, %s, %s;", p.rounded(".lo"), z, x, y)
	case p.typ.Float():
		p.ordered(x, y, z)
	default:
		p.line("%s%s %s, %s, %s;", p.op, p.signed, z, x, y)
	}
	if p.op == reduce.Avg {
		p.divide(z)
	}
	if p.typ.Float() {
		p.canonical(x, y, z)
	}
}

// rounded is an operation's suffix: floats round to nearest even, integers keep the low half.
func (p program) rounded(half string) string {
	if p.typ.Float() {
		return ".rn" + p.typed()
	}
	return half + p.signed
}

// ordered is the least or the greatest of two floats that are no NaN. As signed integers, with
// the lower bits of what is negative turned round, floats are in order, and -0 before +0.
func (p program) ordered(x, y, z string) {
	for i, from := range []string{x, y} {
		p.key(fmt.Sprintf("%%t%d", i), from)
	}
	p.line("%s%s %%t0, %%t0, %%t1;", p.op, p.signed)
	p.key(z, "%t0") // is its own inverse
}

func (p program) key(to, from string) {
	p.line("shr%s %%t3, %s, %d;", p.signed, from, 8*p.bytes-1)
	p.line("and%s %%t3, %%t3, %s;", p.bits, map[int]string{4: "0x7fffffff", 8: "0x7fffffffffffffff"}[p.bytes])
	p.line("xor%s %s, %s, %%t3;", p.bits, to, from)
}

// divide has an average of what is a sum. Integers divide in 64 bits, since the ranks need not
// fit the element.
func (p program) divide(z string) {
	switch {
	case p.typ.Float():
		p.line("div.rn%s %s, %s, %%t4;", p.typed(), z, z)
	case p.bytes == 4:
		p.line("cvt.s64.s32 %%rd20, %s;\n\tdiv.s64 %%rd20, %%rd20, %%rd9;\n\tcvt.u32.u64 %s, %%rd20;", z, z)
	default:
		p.line("div.s64 %s, %s, %%rd9;", z, z)
	}
}

// canonical makes the one NaN of what is one, or where an operand was.
func (p program) canonical(x, y, z string) {
	nan := map[int]string{4: "0x7fc00000", 8: "0x7ff8000000000000"}[p.bytes]
	p.line("setp.nan%s %%p4, %s, %s;", p.typed(), x, y)
	p.line("setp.nan%s %%p5, %s, %s;", p.typed(), z, z)
	p.line("or.pred %%p4, %%p4, %%p5;")
	p.line("selp%s %s, %s, %s, %%p4;", p.bits, z, nan, z)
}

// registers are those of a vector, as in {%x0, %x1}.
func registers(vector rune, lanes int) string {
	var names []string
	for i := range lanes {
		names = append(names, fmt.Sprintf("%%%c%d", vector, i))
	}
	return "{" + strings.Join(names, ", ") + "}"
}

// shift is the logarithm of a power of two.
func shift(n int) (bits int) {
	for ; n > 1; n /= 2 {
		bits++
	}
	return bits
}
