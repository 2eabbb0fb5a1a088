// Package configs says what is configured, and where each value came from.
//
// A value is taken from the first of: its flag; its variable RINGCLI_NAME; the
// configuration file; the default. The file is the one given explicitly
// (--config, or RINGCLI_CONFIG), or else the first that exists of
// ./ringcli.yaml, $XDG_CONFIG_HOME/ringcli/config.yaml (~/.config if unset)
// and /etc/ringcli/config.yaml. Only one file is read. A variable RINGCLI_... that is
// set and means nothing is a mistake, as a key of the file is.
//
// A file that another user can write or replace (package trust) is not read: a named one is an
// error, another is ignored. A file of the working directory cannot set what names a program, a
// secret or a file to write.
package configs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// ErrInvalid is wrapped by every error of this package.
var ErrInvalid = errors.New("configuration")

// FileEnvVar names the configuration file if --config does not.
const FileEnvVar = "RINGCLI_CONFIG"

// TokenVar holds the secret that the ranks of a ring share. It is no setting: what it
// holds must not show.
const TokenVar = "RINGCLI_TOKEN"

// IndexVar is what a user sets; launchers have variables of their own.
const IndexVar = "RINGCLI_INDEX"

// variables are those that are no settings. The last is package trace's.
var variables = []string{FileEnvVar, TokenVar, "RINGCLI_TRACE_DIR"}

// Source is a kind of place that a value can come from.
type Source uint8

// The sources, from the weakest.
const (
	FromDefault Source = iota
	FromFile
	FromEnv
	FromFlag
	FromShell
)

// Origin is where a value came from.
type Origin struct {
	Source Source
	Name   string // the file's path, the variable, the flag's name; empty otherwise
}

// String returns "default", "file PATH", "env RINGCLI_NAME", "flag --name" or
// "set".
func (o Origin) String() string {
	switch o.Source {
	case FromFile:
		return "file " + o.Name
	case FromEnv:
		return "env " + o.Name
	case FromFlag:
		return "flag --" + o.Name
	case FromShell:
		return "set"
	}
	return "default"
}

// MarshalText lets an Origin appear in JSON as its String.
func (o Origin) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Value is a setting's value in force.
type Value struct {
	Name   string `json:"name"`
	Value  any    `json:"value"` // of the Go type of the setting's Default
	Origin Origin `json:"origin"`
}

// String returns the value as a flag, a variable or a file would hold it.
func (v Value) String() string {
	if size, ok := v.Value.(uint64); ok {
		return FormatSize(size)
	}
	return fmt.Sprint(v.Value)
}

// Config holds a checked value for every setting. It does not change after
// Load; With makes another.
type Config struct {
	file    string
	ignored []error
	foreign map[string]error // by setting: why another program's variable was not read
	values  map[string]Value
}

// Load reads flags, environment and file. Flags that AddFlags has not declared
// are left alone; flags may be nil. An explicit file must exist; empty means
// RINGCLI_CONFIG, then the usual places, where no file need be. Errors wrap
// ErrInvalid: a file that cannot be read, a key or a variable that is not known,
// a value that is not allowed, with its origin; of a file that was only found
// they are a *FoundFileError, unless something else is wrong.
func Load(flags *pflag.FlagSet, explicitFile string) (*Config, error) {
	if err := checkVariables(os.Environ()); err != nil {
		return nil, err
	}
	v := viper.New()
	for _, s := range Settings {
		v.SetDefault(s.Name, s.Default)
		if flag := lookupFlag(flags, s.Name); flag != nil {
			_ = v.BindPFlag(s.Name, flag) // it fails for no flag
		}
	}
	file, named, ignored, err := readConfigFile(v, explicitFile)
	if err != nil {
		return nil, ofFile(named, err)
	}
	c := &Config{file: file, ignored: ignored, foreign: map[string]error{}, values: make(map[string]Value, len(Settings))}
	for _, s := range Settings {
		origin, raw := originOf(v, s, flags, file)
		value, err := s.Parse(raw)
		if err != nil {
			return nil, ofFile(named || origin.Source != FromFile, fmt.Errorf("%w (from %s)", err, origin))
		}
		c.values[s.Name] = Value{Name: s.Name, Value: value, Origin: origin}
		if origin.Source < FromEnv {
			c.readForeign(s)
		}
	}
	return c, c.checkGiven()
}

// checkGiven refuses what a setting gives another that this does not take.
func (c *Config) checkGiven() error {
	for _, s := range Settings {
		if s.gives == "" {
			continue
		}
		given := c.Get(s.gives)
		if target := mustLookup(s.gives); !target.allows(given.Value) {
			return fmt.Errorf("%w: %s is %s, by which %s is %s: expected %s there", ErrInvalid, s.Name, c.Get(s.Name), s.gives, given, target.expected())
		}
	}
	return nil
}

// lookupFlag returns the flag of a setting that AddFlags has declared, or nil.
func lookupFlag(flags *pflag.FlagSet, name string) *pflag.Flag {
	if flags != nil {
		if flag := flags.Lookup(name); flag != nil {
			if _, ours := flag.Annotations[settingAnnotation]; ours {
				return flag
			}
		}
	}
	return nil
}

// originOf returns where a setting's value comes from, other programs' variables apart, and the
// value.
func originOf(v *viper.Viper, s Setting, flags *pflag.FlagSet, file string) (Origin, any) {
	if flag := lookupFlag(flags, s.Name); flag != nil && flag.Changed {
		return Origin{FromFlag, s.Name}, v.Get(s.Name)
	}
	for _, name := range s.ownVariables() {
		if text := variable(name); text != "" {
			return Origin{FromEnv, name}, text
		}
	}
	if v.InConfig(s.Name) {
		return Origin{FromFile, file}, v.Get(s.Name)
	}
	return Origin{Source: FromDefault}, s.Default
}

// With returns a Config in which one setting has another value, as the shell's
// `set` gives it. An unknown name or a value that is not allowed is ErrInvalid.
func (c *Config) With(name, value string) (*Config, error) {
	s, known := Lookup(name)
	if !known {
		return nil, fmt.Errorf("%w: unknown setting %q, the nearest known is %q", ErrInvalid, name, nearestSetting(name))
	}
	v, err := s.Parse(value)
	if err != nil {
		return nil, err
	}
	next := &Config{file: c.file, ignored: c.ignored, foreign: c.foreign, values: maps.Clone(c.values)}
	next.values[name] = Value{Name: name, Value: v, Origin: Origin{Source: FromShell}}
	return next, next.checkGiven()
}

// Values returns all values in force, in the order of Settings.
func (c *Config) Values() []Value {
	list := make([]Value, 0, len(Settings))
	for _, s := range Settings {
		list = append(list, c.Get(s.Name))
	}
	return list
}

// Get returns a value with its origin. Like the typed getters it panics if
// there is no such setting; they panic also if it is of another type: both are
// a programmer's errors.
func (c *Config) Get(name string) Value {
	mustLookup(name)
	v := c.values[name]
	if v.Origin.Source > FromDefault {
		return v
	}
	for i := range Settings {
		s := &Settings[i]
		if s.gives != name {
			continue
		}
		if own := c.values[s.Name]; own.Origin.Source > FromDefault {
			v.Value, v.Origin = s.give(own.Value, c.values["slots"].Value.(int)), own.Origin
		}
	}
	return v
}

// IsSet tells whether the value came from anywhere but the default.
func (c *Config) IsSet(name string) bool { return c.Get(name).Origin.Source != FromDefault }

// String returns the value of a setting that is a string.
func (c *Config) String(name string) string { return get[string](c, name) }

// Int returns the value of a setting that is an int.
func (c *Config) Int(name string) int { return get[int](c, name) }

// Duration returns the value of a setting that is a duration.
func (c *Config) Duration(name string) time.Duration { return get[time.Duration](c, name) }

// Size returns the value of a setting that is a size, in bytes.
func (c *Config) Size(name string) uint64 { return get[uint64](c, name) }

func get[T any](c *Config, name string) T {
	value, ok := c.Get(name).Value.(T)
	if !ok {
		panic(fmt.Sprintf("configs: setting %q is a %T, not a %T", name, c.Get(name).Value, value))
	}
	return value
}

// nearestSetting returns the setting's name with the fewest edits from the key.
func nearestSetting(key string) string { return nearest(strings.ReplaceAll(key, "_", "-"), Names()) }

func nearest(key string, known []string) string {
	return slices.MinFunc(known, func(a, b string) int { return EditDistance(key, a) - EditDistance(key, b) })
}

// EditDistance is Levenshtein's: insertions, deletions and replacements.
func EditDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		distance := row[0]
		row[0]++
		for j := range len(b) {
			if a[i] != b[j] {
				distance = 1 + min(distance, row[j], row[j+1])
			}
			distance, row[j+1] = row[j+1], distance
		}
	}
	return row[len(b)]
}
