package diagnose

import (
	"encoding"
	"fmt"
	"slices"
)

// Known is a value of an end, or that it is not known: the zero Known, which is "" as
// text. Of an end that could not be asked for nothing is known.
type Known[T comparable] struct {
	value T
	known bool
}

// Is makes a value known.
func Is[T comparable](v T) Known[T] { return Known[T]{v, true} }

// Is tells whether it is one of some values; what is not known is none.
func (k Known[T]) Is(values ...T) bool { return k.known && slices.Contains(values, k.value) }

func (k Known[T]) String() string {
	if !k.known {
		return ""
	}
	return fmt.Sprint(k.value)
}

// MarshalText implements encoding.TextMarshaler.
func (k Known[T]) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler, for values that do.
func (k *Known[T]) UnmarshalText(b []byte) error {
	if k.known = len(b) > 0; !k.known {
		return nil
	}
	v, ok := any(&k.value).(encoding.TextUnmarshaler)
	if !ok {
		return fmt.Errorf("%q cannot be read as a %T", b, k.value)
	}
	return v.UnmarshalText(b)
}
