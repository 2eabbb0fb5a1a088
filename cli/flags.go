package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// The values of flags that are no settings. Each says in its error what was
// expected; pflag puts what was given and the flag's name before it.

// number is a whole number within bounds.
type number struct {
	value    int64
	min, max int64
	what     string
}

func (n *number) String() string { return strconv.FormatInt(n.value, 10) }
func (n *number) Type() string   { return "n" }
func (n *number) Set(text string) error {
	v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || v < n.min || v > n.max {
		return fmt.Errorf("expected %s, a whole number from %d to %d", n.what, n.min, n.max)
	}
	n.value = v
	return nil
}

func numberFlag(fs *pflag.FlagSet, name, short string, value, min, max int64, what, usage string) {
	fs.VarP(&number{value, min, max, what}, name, short, usage)
}

// span is a duration that is not negative.
type span time.Duration

func (s *span) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}
func (s *span) Type() string { return "duration" }
func (s *span) Set(text string) error {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || d < 0 {
		return fmt.Errorf("expected a duration of zero or more with its unit, such as 500ms, 30s or 1h")
	}
	*s = span(d)
	return nil
}

// rate is a bandwidth in GB/s.
type rate float64

func (r *rate) String() string {
	if *r == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*r), 'g', -1, 64)
}
func (r *rate) Type() string { return "GB/s" }
func (r *rate) Set(text string) error {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(v >= 0) || v > 1e9 {
		return fmt.Errorf("expected a bandwidth in GB/s (1e9 bytes) of zero or more, such as 1.5")
	}
	*r = rate(v)
	return nil
}

// choice is one value of an enumeration, by its name; nil if there is no default.
type choice[T fmt.Stringer] struct {
	value *T
	kind  string
	all   []T
	parse func(string) (T, error)
}

func (c *choice[T]) String() string {
	if c.value == nil {
		return ""
	}
	return (*c.value).String()
}
func (c *choice[T]) Type() string    { return c.kind }
func (c *choice[T]) Words() []string { return wordsOf(c.all) }
func (c *choice[T]) Set(text string) error {
	v, err := c.parse(text)
	if err == nil {
		c.value = &v
	}
	return err
}

// value returns the value of a flag that was declared with Var, in its type.
func value[T any](fs *pflag.FlagSet, name string) T {
	f := fs.Lookup(name)
	if f == nil {
		panic("cli: flag --" + name + " is not declared")
	}
	v, ok := f.Value.(any).(*T)
	if !ok {
		panic(fmt.Sprintf("cli: flag --%s is a %T", name, f.Value))
	}
	return *v
}

func isOn(fs *pflag.FlagSet, name string) bool {
	on, err := fs.GetBool(name)
	if err != nil {
		panic("cli: " + err.Error())
	}
	return on
}

func textOf(fs *pflag.FlagSet, name string) string { return fs.Lookup(name).Value.String() }
