package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Arg is a named argument: a number, or a text.
type Arg struct {
	Name   string
	Value  uint64
	Text   string
	IsText bool
}

// Args are the arguments of an event in their order. As JSON they are an
// object.
type Args []Arg

// Value returns the number of that name, or 0.
func (a Args) Value(name string) uint64 { return a.named(name).Value }

// Text returns the text of that name, or "".
func (a Args) Text(name string) string { return a.named(name).Text }

func (a Args) named(name string) (arg Arg) {
	if i := slices.IndexFunc(a, func(arg Arg) bool { return arg.Name == name }); i >= 0 {
		arg = a[i]
	}
	return arg
}

// MarshalJSON writes an object with the arguments in their order.
func (a Args) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, arg := range a {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSONString(b, arg.Name)
		b = append(b, ':')
		if arg.IsText {
			b = appendJSONString(b, arg.Text)
		} else {
			b = strconv.AppendUint(b, arg.Value, 10)
		}
	}
	return append(b, '}'), nil
}

func appendJSONString(b []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string can always be marshalled
	return append(b, quoted...)
}

// UnmarshalJSON reads an object of numbers and texts, in its order.
func (a *Args) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("trace: arguments %.60q: want an object", b)
	}
	*a = nil
	for d.More() {
		name, err := d.Token()
		value, next := d.Token()
		if err = cmp.Or(err, next); err != nil {
			return err
		}
		arg := Arg{Name: name.(string)} // the decoder has seen to it
		switch v := value.(type) {
		case string:
			arg.Text, arg.IsText = v, true
		case json.Number:
			if arg.Value, err = strconv.ParseUint(v.String(), 10, 64); err != nil {
				return fmt.Errorf("trace: argument %q is %s: want a whole number of 64 bits", arg.Name, v)
			}
		default:
			return fmt.Errorf("trace: argument %q is %v: want a number or a text", arg.Name, value)
		}
		*a = append(*a, arg)
	}
	return nil
}
