package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/configs"
)

// parsed is the value of a flag that is no setting; nil if it has no default and was
// not given.
type parsed[T any] struct {
	value *T
	kind  string                  // what the usage calls it; a list's words are joined by commas
	parse func(string) (T, error) // says what was expected; pflag puts what was given before it
	words []string                // that it completes to
	text  func(T) string          // nil: as fmt prints it
}

func (p *parsed[T]) String() string {
	switch {
	case p.value == nil:
		return ""
	case p.text != nil:
		return p.text(*p.value)
	}
	return fmt.Sprint(*p.value)
}
func (p *parsed[T]) Type() string    { return p.kind }
func (p *parsed[T]) Words() []string { return p.words }
func (p *parsed[T]) Set(text string) error {
	v, err := p.parse(text)
	if err == nil {
		p.value = &v
	}
	return err
}

// given returns what a parsed flag holds: what was given, else its default; nil if
// there is neither.
func given[T any](fs *pflag.FlagSet, name string) *T {
	f := fs.Lookup(name)
	if f == nil {
		panic("cli: flag --" + name + " is not declared")
	}
	p, ok := f.Value.(*parsed[T])
	if !ok {
		panic(fmt.Sprintf("cli: flag --%s is a %T", name, f.Value))
	}
	return p.value
}

// value is given, or else the zero value.
func value[T any](fs *pflag.FlagSet, name string) T { return or(given[T](fs, name), *new(T)) }

// or is what a pointer points to, or something else if it is nil.
func or[T any](p *T, other T) T {
	if p == nil {
		return other
	}
	return *p
}

// numberOf is the value of a numberFlag.
func numberOf(fs *pflag.FlagSet, name string) int { return int(value[int64](fs, name)) }

// numberFlag is a whole number within bounds; what says in an error what it is.
func numberFlag(fs *pflag.FlagSet, name, short string, standard, min, max int64, what, usage string) {
	fs.VarP(&parsed[int64]{value: &standard, kind: "n", parse: func(text string) (int64, error) {
		v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil || v < min || v > max {
			return 0, fmt.Errorf("expected %s, a whole number from %d to %d", what, min, max)
		}
		return v, nil
	}}, name, short, usage)
}

// optionalFlag is a number that a step takes in place of its own.
func optionalFlag(fs *pflag.FlagSet, name string, min, max int64, usage string) {
	fs.Var(&parsed[int64]{kind: "n", parse: func(text string) (int64, error) {
		v, err := strconv.ParseInt(strings.TrimSpace(text), 0, 64)
		if err != nil || v < min || v > max {
			return 0, fmt.Errorf("expected a whole number from %d to %d, decimal or 0x", min, max)
		}
		return v, nil
	}}, name, usage)
}

// durationFlag is a duration that is not negative; 0 is no default.
func durationFlag(fs *pflag.FlagSet, name string, standard time.Duration, usage string) {
	p := &parsed[time.Duration]{kind: "duration", parse: func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil || d < 0 {
			return 0, fmt.Errorf("expected a duration of zero or more with its unit, such as 500ms, 30s or 1h")
		}
		return d, nil
	}}
	if standard > 0 {
		p.value = &standard
	}
	fs.Var(p, name, usage)
}

// bandwidthFlag is a bandwidth in GB/s.
func bandwidthFlag(fs *pflag.FlagSet, name, usage string) {
	fs.Var(&parsed[float64]{kind: "GB/s", parse: func(text string) (float64, error) {
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(v >= 0) || v > 1e9 {
			return 0, fmt.Errorf("expected a bandwidth in GB/s (1e9 bytes) of zero or more, such as 1.5")
		}
		return v, nil
	}}, name, usage)
}

// choiceFlag is one value of an enumeration, by its name.
func choiceFlag[T any](fs *pflag.FlagSet, name, kind string, standard *T, all []T, parse func(string) (T, error), usage string) {
	fs.Var(&parsed[T]{value: standard, kind: kind, words: wordsOf(all), parse: parse}, name, usage)
}

// parseList reads several values of an enumeration, separated by commas. what and
// text say which is there twice.
func parseList[T comparable](list, what string, parse func(string) (T, error), text func(T) string) (values []T, err error) {
	for word := range strings.SplitSeq(list, ",") {
		v, err := parse(strings.TrimSpace(word))
		switch {
		case err != nil:
			return nil, err
		case slices.Contains(values, v):
			return nil, fmt.Errorf("expected each %sonce; %s is there twice", what, text(v))
		}
		values = append(values, v)
	}
	return values, nil
}

// isOn is the value of a flag that is on or off.
func isOn(fs *pflag.FlagSet, name string) bool {
	on, err := fs.GetBool(name)
	if err != nil {
		panic("cli: " + err.Error())
	}
	return on
}

// textOf is the text of a flag, whatever its type.
func textOf(fs *pflag.FlagSet, name string) string { return fs.Lookup(name).Value.String() }

// sizeFlag is a number of bytes.
func sizeFlag(fs *pflag.FlagSet, name string, size configs.SizeValue, usage string) {
	fs.Var(&size, name, usage)
}

// sizeOf is the value of a sizeFlag.
func sizeOf(fs *pflag.FlagSet, name string) uint64 {
	return uint64(*fs.Lookup(name).Value.(*configs.SizeValue))
}
