package reduce

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
	Naming
	size int
}{
	Int8:     {Naming{"int8", []string{"char", "i8", "int8_t"}}, 1},
	Uint8:    {Naming{"uint8", []string{"uchar", "byte", "u8", "uint8_t"}}, 1},
	Int32:    {Naming{"int32", []string{"int", "i32", "int32_t"}}, 4},
	Uint32:   {Naming{"uint32", []string{"uint", "u32", "uint32_t"}}, 4},
	Int64:    {Naming{"int64", []string{"long", "i64", "int64_t"}}, 8},
	Uint64:   {Naming{"uint64", []string{"ulong", "u64", "uint64_t"}}, 8},
	Float16:  {Naming{"float16", []string{"half", "fp16", "f16"}}, 2},
	BFloat16: {Naming{"bfloat16", []string{"bf16"}}, 2},
	Float32:  {Naming{"float32", []string{"float", "fp32", "f32", "single"}}, 4},
	Float64:  {Naming{"float64", []string{"double", "fp64", "f64"}}, 8},
}

var typeNames = Names[Type]{"element type", "type(%d)", numTypes, func(t Type) Naming { return types[t].Naming }}

// Types returns all element types in the order of their values.
func Types() []Type { return typeNames.All() }

// Valid reports whether t is one of the declared types.
func (t Type) Valid() bool { return int(t) < numTypes }

// String returns the type's name, as [ParseType] takes it.
func (t Type) String() string { return typeNames.Text(t) }

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
func ParseType(name string) (Type, error) { return typeNames.Parse(name) }
