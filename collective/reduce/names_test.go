package reduce_test

import (
	"strings"
	"testing"

	"ringcli/collective/reduce"
)

func TestParseType(t *testing.T) {
	for name, want := range map[string]reduce.Type{
		"int8": reduce.Int8, "char": reduce.Int8, "uchar": reduce.Uint8, "BYTE": reduce.Uint8,
		"int": reduce.Int32, "INT32": reduce.Int32, "uint": reduce.Uint32, "int64": reduce.Int64,
		"uint64": reduce.Uint64, "half": reduce.Float16, "fp16": reduce.Float16,
		"bf16": reduce.BFloat16, "BFloat16": reduce.BFloat16, "Float": reduce.Float32,
		"fp32": reduce.Float32, "double": reduce.Float64, " FP64 ": reduce.Float64,
	} {
		if got, err := reduce.ParseType(name); err != nil || got != want {
			t.Errorf("ParseType(%q) = %v, %v; want %v", name, got, err, want)
		}
	}
	_, err := reduce.ParseType("float128")
	for _, part := range []string{`"float128"`, "int8", "half", "double"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error for an unknown type lacks %s: %v", part, err)
		}
	}
}

func TestParseOp(t *testing.T) {
	for name, want := range map[string]reduce.Op{
		"sum": reduce.Sum, "SUM": reduce.Sum, "mult": reduce.Prod, "Product": reduce.Prod,
		"mul": reduce.Prod, "min": reduce.Min, "max": reduce.Max, "average": reduce.Avg,
		"mean": reduce.Avg, " avg": reduce.Avg,
	} {
		if got, err := reduce.ParseOp(name); err != nil || got != want {
			t.Errorf("ParseOp(%q) = %v, %v; want %v", name, got, err, want)
		}
	}
	_, err := reduce.ParseOp("xor")
	for _, part := range []string{`"xor"`, "sum", "mult", "mean"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error for an unknown operation lacks %s: %v", part, err)
		}
	}
}

func TestNamesAreUniqueAndComeBack(t *testing.T) {
	size := map[string]int{"int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8,
		"uint64": 8, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
	if len(reduce.Types()) != len(size) {
		t.Errorf("%d types, want %d", len(reduce.Types()), len(size))
	}
	for _, typ := range reduce.Types() {
		if got, err := reduce.ParseType(typ.String()); err != nil || got != typ {
			t.Errorf("%v comes back as %v, %v", typ, got, err)
		}
		if typ.Size() != size[typ.String()] || !typ.Valid() {
			t.Errorf("%v: size %d, want %d; valid %t", typ, typ.Size(), size[typ.String()], typ.Valid())
		}
		if typ.Float() != strings.Contains(typ.String(), "float") {
			t.Errorf("%v: Float is %t", typ, typ.Float())
		}
	}
	for _, op := range reduce.Ops() {
		if got, err := reduce.ParseOp(op.String()); err != nil || got != op || !op.Valid() {
			t.Errorf("%v comes back as %v, %v", op, got, err)
		}
	}
	typ, op := reduce.Type(200), reduce.Op(200)
	if typ.Valid() || op.Valid() || typ.Size() != 0 || typ.String() != "type(200)" || op.String() != "op(200)" {
		t.Errorf("undeclared: %v, %v, size %d", typ, op, typ.Size())
	}
}

func TestChunk(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 8, 1000} {
		for _, count := range []int{0, 1, n - 1, n, n + 1, 1000, 65537, 1 << 40} {
			next := 0
			for r := range n {
				lo, hi := reduce.Chunk(count, n, r)
				if lo != next || hi < lo || hi-lo < count/n || hi-lo > count/n+1 {
					t.Fatalf("Chunk(%d, %d, %d) = [%d, %d), the one before ended at %d", count, n, r, lo, hi, next)
				}
				next = hi
			}
			if next != count {
				t.Fatalf("%d chunks of %d end at %d", n, count, next)
			}
		}
	}
	if lo, hi := reduce.Chunk(10, 4, 1); lo != 2 || hi != 5 {
		t.Errorf("Chunk(10, 4, 1) = [%d, %d), want [2, 5)", lo, hi)
	}
}
