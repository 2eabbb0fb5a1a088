package reduce

import (
	"fmt"
)

// Type is the type of one element of a vector.
type Type uint8

// The element types. The values travel in operation digests between ranks: a
// new type goes to the end.
const (
	Int8 Type = iota
	Uint8
	Int32
	Uint32
	Int64
	Uint64
	Float16  // IEEE 754 binary16
	BFloat16 // the upper half of a binary32
	Float32
	Float64

	numTypes = int(Float64) + 1
)

// types has the name, the size in bytes and the accepted aliases of each type.
// The aliases are those of C on LP64 platforms, of NumPy and of PyTorch.
var types = [numTypes]struct {
	name    string
	size    int
	aliases []string
}{
	Int8:     {"int8", 1, []string{"char", "i8", "int8_t"}},
	Uint8:    {"uint8", 1, []string{"uchar", "byte", "u8", "uint8_t"}},
	Int32:    {"int32", 4, []string{"int", "i32", "int32_t"}},
	Uint32:   {"uint32", 4, []string{"uint", "u32", "uint32_t"}},
	Int64:    {"int64", 8, []string{"long", "i64", "int64_t"}},
	Uint64:   {"uint64", 8, []string{"ulong", "u64", "uint64_t"}},
	Float16:  {"float16", 2, []string{"half", "fp16", "f16"}},
	BFloat16: {"bfloat16", 2, []string{"bf16"}},
	Float32:  {"float32", 4, []string{"float", "fp32", "f32", "single"}},
	Float64:  {"float64", 8, []string{"double", "fp64", "f64"}},
}

// Types returns all element types in the order of their values.
func Types() []Type {
	all := make([]Type, numTypes)
	for i := range all {
		all[i] = Type(i)
	}
	return all
}

// Valid reports whether t is one of the declared types.
func (t Type) Valid() bool { return int(t) < numTypes }

// String returns the type's name, as [ParseType] takes it.
func (t Type) String() string {
	if !t.Valid() {
		return fmt.Sprintf("type(%d)", uint8(t))
	}
	return types[t].name
}

// Size returns the bytes of one element, and 0 for a type that is not declared.
func (t Type) Size() int {
	if !t.Valid() {
		return 0
	}
	return types[t].size
}

// Float reports whether t is one of the floating-point types.
func (t Type) Float() bool { return t >= Float16 && t <= Float64 }

// ParseType returns the type of that name or alias, in any case. The error for
// an unknown name lists the known ones.
func ParseType(name string) (Type, error) {
	i, err := FindName("element type", name, len(types), func(i int) (string, []string) { return types[i].name, types[i].aliases })
	return Type(i), err
}
