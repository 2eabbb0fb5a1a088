// Package configs says what is configured, and where each value came from.
//
// A value is taken from the first of: its flag; its variable RINGCLI_NAME; the
// configuration file; the default. The file is the one given explicitly
// (--config, or RINGCLI_CONFIG), or else the first that exists of
// ./ringcli.yaml, $XDG_CONFIG_HOME/ringcli/config.yaml (~/.config if unset)
// and /etc/ringcli/config.yaml. Only one file is read. A variable RINGCLI_... that is
// set and means nothing is a mistake, as a key of the file is.
package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
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

// SecretsVar is for the ranks that a process starts: what it keeps secret besides.
const SecretsVar = "RINGCLI_SECRETS"

// variables are those that are no settings. The last is package trace's.
var variables = []string{FileEnvVar, TokenVar, SecretsVar, "RINGCLI_TRACE_DIR"}

const systemFile = "/etc/ringcli/config.yaml"

// FoundFileError is what is wrong with a file that nobody named: it lay in one of the
// usual places. What needs no setting of it can do without.
type FoundFileError struct{ error }

func (e *FoundFileError) Unwrap() error { return e.error }

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
	file   string
	values map[string]Value
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
		// They fail where there is nothing to bind.
		_ = v.BindEnv(append([]string{s.Name}, s.variables()...)...)
		if flag := lookupFlag(flags, s.Name); flag != nil {
			_ = v.BindPFlag(s.Name, flag)
		}
	}
	file, named, err := findFile(explicitFile)
	if err == nil && file != "" {
		err = readFile(v, file)
	}
	if err != nil {
		return nil, ofFile(named, err)
	}
	c := &Config{file: file, values: make(map[string]Value, len(Settings))}
	for _, s := range Settings {
		origin := originOf(v, s, flags, file)
		value, err := s.Parse(v.Get(s.Name))
		if err != nil {
			return nil, ofFile(named || origin.Source != FromFile, fmt.Errorf("%w (from %s)", err, origin))
		}
		c.values[s.Name] = Value{Name: s.Name, Value: value, Origin: origin}
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

// originOf asks in viper's own order of precedence.
func originOf(v *viper.Viper, s Setting, flags *pflag.FlagSet, file string) Origin {
	if flag := lookupFlag(flags, s.Name); flag != nil && flag.Changed {
		return Origin{FromFlag, s.Name}
	}
	for _, name := range s.variables() {
		// As viper has it, an empty variable is one that is not set.
		if os.Getenv(name) != "" {
			return Origin{FromEnv, name}
		}
	}
	if v.InConfig(s.Name) {
		return Origin{FromFile, file}
	}
	return Origin{Source: FromDefault}
}

// checkVariables refuses a variable that is ours by its name and means nothing. One
// that is empty is one that is not set, as viper has it.
func checkVariables(environ []string) error {
	known := slices.Clone(variables)
	for _, s := range Settings {
		known = append(known, s.variables()...)
	}
	slices.Sort(environ)
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, envPrefix) && value != "" && !slices.Contains(known, name) {
			return fmt.Errorf("%w: unknown variable %s, the nearest known is %s", ErrInvalid, name, nearest(name, known))
		}
	}
	return nil
}

// ofFile makes an error one of a file that was only found, if it was.
func ofFile(named bool, err error) error {
	if named {
		return err
	}
	return &FoundFileError{err}
}

// readFile reads the configuration file into v.
func readFile(v *viper.Viper, path string) error {
	v.SetConfigFile(path)
	v.SetConfigType("yaml") // whatever the name ends in; JSON is YAML too
	if err := v.ReadInConfig(); err != nil {
		return fmt.Errorf("%w: file %s: %w", ErrInvalid, path, err)
	}
	// Flags, variables and defaults are bound for known names only, so any
	// other key is the file's.
	for _, key := range slices.Sorted(slices.Values(v.AllKeys())) {
		if _, known := Lookup(key); !known {
			return fmt.Errorf("%w: file %s: unknown key %q, the nearest known is %q", ErrInvalid, path, key, nearestSetting(key))
		}
	}
	return nil
}

// findFile returns the configuration file's path, or "" if there is none, and
// whether somebody named it.
func findFile(explicit string) (path string, named bool, err error) {
	origin := "--config"
	if explicit == "" {
		explicit, origin = os.Getenv(FileEnvVar), FileEnvVar
	}
	if explicit != "" {
		if _, err := os.Stat(explicit); err != nil {
			return "", true, fmt.Errorf("%w: file given by %s: %w: expected a readable file, such as `ringcli config --sample` prints", ErrInvalid, origin, err)
		}
		return explicit, true, nil
	}
	for _, path := range SearchPath() {
		_, err := os.Stat(path)
		if err == nil {
			return path, false, nil
		}
		// A directory on the way that this user may not enter hides no file
		// that is meant for this user.
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return "", false, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return "", false, nil
}

// SearchPath returns where a configuration file is looked for if none is
// given, in order.
func SearchPath() []string {
	paths := []string{"ringcli.yaml"}
	// Without a home directory there is no user's file.
	if dir, err := os.UserConfigDir(); err == nil {
		paths = append(paths, filepath.Join(dir, "ringcli", "config.yaml"))
	}
	return append(paths, systemFile)
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
	next := &Config{file: c.file, values: maps.Clone(c.values)}
	next.values[name] = Value{Name: name, Value: v, Origin: Origin{Source: FromShell}}
	return next, next.checkGiven()
}

// File returns the path of the configuration file that was read, or "".
func (c *Config) File() string { return c.file }

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
