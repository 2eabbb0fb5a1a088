package command

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/render"
	"ringcli/configs"
)

// Parsed is the value of a flag that is no setting; nil if it has no default and was
// not given.
type Parsed[T any] struct {
	Value       *T
	Kind        string                  // what the usage calls it; a list's words are joined by commas
	Parse       func(string) (T, error) // says what was expected; pflag puts what was given before it
	Completions []string                // that it completes to
	Text        func(T) string          // nil: as fmt prints it
}

func (p *Parsed[T]) String() string {
	switch {
	case p.Value == nil:
		return ""
	case p.Text != nil:
		return p.Text(*p.Value)
	}
	return fmt.Sprint(*p.Value)
}
func (p *Parsed[T]) Type() string    { return p.Kind }
func (p *Parsed[T]) Words() []string { return p.Completions }
func (p *Parsed[T]) copyTo(v reflect.Value) {
	v.Set(reflect.ValueOf(p.Value))
}
func (p *Parsed[T]) Set(text string) error {
	v, err := p.Parse(text)
	if err == nil {
		p.Value = &v
	}
	return err
}

// Given returns what a parsed flag holds: what was given, else its default; nil if
// there is neither.
func Given[T any](fs *pflag.FlagSet, name string) *T {
	return fs.Lookup(name).Value.(*Parsed[T]).Value
}

// Value is given, or else the zero value.
func Value[T any](fs *pflag.FlagSet, name string) T { return Or(Given[T](fs, name), *new(T)) }

// Or is what a pointer points to, or something else if it is nil.
func Or[T any](p *T, other T) T {
	if p == nil {
		return other
	}
	return *p
}

// NumberOf is the value of a NumberFlag.
func NumberOf(fs *pflag.FlagSet, name string) int { return int(Value[int64](fs, name)) }

// NumberFlag is a whole number within bounds; what says in an error what it is.
func NumberFlag(fs *pflag.FlagSet, name, short string, standard, min, max int64, what, usage string) {
	fs.VarP(&Parsed[int64]{Value: &standard, Kind: "n", Parse: func(text string) (int64, error) {
		return wholeNumber(text, 10, min, max, "expected "+what+", a whole number from %d to %d")
	}}, name, short, usage)
}

// OptionalFlag is a number that takes the place of another.
func OptionalFlag[T int | uint32 | uint64](fs *pflag.FlagSet, name string, min, max int64, usage string) {
	fs.Var(&Parsed[T]{Kind: "n", Parse: func(text string) (T, error) {
		v, err := wholeNumber(text, 0, min, max, "expected a whole number from %d to %d, decimal or 0x")
		return T(v), err
	}}, name, usage)
}

func wholeNumber(text string, base int, min, max int64, expected string) (int64, error) {
	v, err := strconv.ParseInt(strings.TrimSpace(text), base, 64)
	if err != nil || v < min || v > max {
		return 0, fmt.Errorf(expected, min, max)
	}
	return v, nil
}

// Fill puts the flags that were given into a struct's fields, which are pointers and
// whose tag "flag" names them. Flags that the command does not have stay nil.
func Fill[T any](fs *pflag.FlagSet, into *T) {
	v := reflect.ValueOf(into).Elem()
	for i := range v.NumField() {
		if f := fs.Lookup(v.Type().Field(i).Tag.Get("flag")); f != nil {
			f.Value.(interface{ copyTo(reflect.Value) }).copyTo(v.Field(i))
		}
	}
}

// DurationFlag is a duration that is not negative; 0 is no default.
func DurationFlag(fs *pflag.FlagSet, name string, standard time.Duration, usage string) {
	p := &Parsed[time.Duration]{Kind: "duration", Parse: func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil || d < 0 {
			return 0, fmt.Errorf("expected a duration of zero or more with its unit, such as 500ms, 30s or 1h")
		}
		return d, nil
	}}
	if standard > 0 {
		p.Value = &standard
	}
	fs.Var(p, name, usage)
}

// ChoiceFlag is one value of an enumeration, by its name.
func ChoiceFlag[T any](fs *pflag.FlagSet, name, kind string, standard *T, all []T, parse func(string) (T, error), usage string) {
	fs.Var(&Parsed[T]{Value: standard, Kind: kind, Completions: render.Words(all), Parse: parse}, name, usage)
}

// IsOn is the value of a flag that is on or off.
func IsOn(fs *pflag.FlagSet, name string) bool {
	on, err := fs.GetBool(name)
	if err != nil {
		panic("cli: " + err.Error())
	}
	return on
}

// TextOf is the text of a flag, whatever its type.
func TextOf(fs *pflag.FlagSet, name string) string { return fs.Lookup(name).Value.String() }

// SizeFlag is a number of bytes.
func SizeFlag(fs *pflag.FlagSet, name string, size configs.SizeValue, usage string) {
	fs.Var(&size, name, usage)
}

// SizeOf is the value of a SizeFlag.
func SizeOf(fs *pflag.FlagSet, name string) uint64 {
	return uint64(*fs.Lookup(name).Value.(*configs.SizeValue))
}
