package configs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// isolate hides the files and variables of whoever runs the test, and returns
// the empty directory that is then the current one, and the user's.
func isolate(t *testing.T) (cwd, user string) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "RINGCLI_") {
			t.Setenv(name, "")
		}
	}
	cwd, user = t.TempDir(), t.TempDir()
	t.Chdir(cwd)
	t.Setenv("XDG_CONFIG_HOME", user)
	return cwd, user
}

func parsed(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags
}

func TestPrecedenceAndOrigin(t *testing.T) {
	isolate(t)
	file := write(t, "some.conf", "segment: 64K\ndepth: 8\nmtu: 1024\nQP-Timeout: 16\n")
	t.Setenv("RINGCLI_SEGMENT", "128k")
	t.Setenv("RINGCLI_DEPTH", "16")
	t.Setenv("RINGCLI_MTU", "") // empty is not set
	c, err := Load(parsed(t, "--segment", "1MiB", "--list", "a,b"), file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Value{
		{"segment", uint64(1 << 20), Origin{FromFlag, "segment"}},
		{"list", "a,b", Origin{FromFlag, "list"}},
		{"depth", 16, Origin{FromEnv, "RINGCLI_DEPTH"}},
		{"mtu", 1024, Origin{FromFile, file}},
		{"qp-timeout", 16, Origin{FromFile, file}},
		{"timeout", 30 * time.Second, Origin{}},
	} {
		if got := c.Get(want.Name); got != want {
			t.Errorf("got %v from %v, want %v from %v", got, got.Origin, want, want.Origin)
		}
	}
	if got := c.Get("mtu").Origin.String(); got != "file some.conf" {
		t.Errorf("origin reads %q", got)
	}
	if c.Int("depth") != 16 || c.Size("segment") != 1<<20 || c.String("list") != "a,b" || c.Duration("timeout") != 30*time.Second {
		t.Error("a typed getter differs from Get")
	}
	if !c.IsSet("depth") || c.IsSet("timeout") {
		t.Error("IsSet")
	}
}

// A flag that was not given holds the default, which must not hide the file; one that was
// given its default's value is still a flag that was given. RINGCLI_DEBUG is the trace, too.
func TestWhichSourceWins(t *testing.T) {
	for _, c := range []struct {
		file string
		env  map[string]string
		args []string
		want Value
	}{
		{file: "output: json\n", want: Value{"output", "json", Origin{FromFile, "ringcli.yaml"}}},
		{env: map[string]string{"RINGCLI_OUTPUT": "csv"}, args: []string{"--output", "table"}, want: Value{"output", "table", Origin{FromFlag, "output"}}},
		{env: map[string]string{"RINGCLI_DEBUG": "1"}, want: Value{"trace", "1", Origin{FromEnv, "RINGCLI_DEBUG"}}},
		{env: map[string]string{"RINGCLI_DEBUG": "1", "RINGCLI_TRACE": "off"}, want: Value{"trace", "off", Origin{FromEnv, "RINGCLI_TRACE"}}},
	} {
		t.Run(c.want.Origin.String(), func(t *testing.T) {
			isolate(t)
			write(t, "ringcli.yaml", c.file)
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			cfg, err := Load(parsed(t, c.args...), "")
			if err != nil {
				t.Fatal(err)
			}
			if got := cfg.Get(c.want.Name); got != c.want {
				t.Errorf("got %v from %s", got, got.Origin)
			}
		})
	}
}

func TestEverySettingByFlagEnvAndFile(t *testing.T) {
	for _, s := range Settings {
		t.Run(s.Name, func(t *testing.T) {
			isolate(t)
			text := Value{Value: otherThanDefault(s)}.String()
			check := func(want Source, flags *pflag.FlagSet, file string) {
				t.Helper()
				c, err := Load(flags, file)
				if err != nil {
					t.Fatal(err)
				}
				if v := c.Get(s.Name); v.String() != text || v.Origin.Source != want {
					t.Errorf("got %s from %s, want %s", v, v.Origin, text)
				}
			}
			check(FromFlag, parsed(t, "--"+s.Name, text), "")
			check(FromFile, nil, write(t, "f.yaml", s.Name+": "+text+"\n"))
			t.Setenv(s.Env(), text)
			check(FromEnv, nil, "")
		})
	}
}

// otherThanDefault returns a value that a setting may have instead.
func otherThanDefault(s Setting) any {
	if s.OneOf != nil {
		return s.OneOf[len(s.OneOf)-1]
	}
	switch d := s.Default.(type) {
	case int:
		return int(s.Max) - 1
	case time.Duration:
		return 2 * d
	case uint64:
		return uint64(s.Min)
	}
	return "another"
}

func TestWhichFile(t *testing.T) {
	_, user := isolate(t)
	if c, err := Load(nil, ""); err != nil {
		t.Fatal(err)
	} else if c.File() != "" && c.File() != systemFile {
		t.Errorf("read %s where there is no file", c.File())
	}
	steps := []struct{ path, explicit string }{
		{filepath.Join(user, "ringcli", "config.yaml"), ""},
		{"ringcli.yaml", ""},
	}
	for _, step := range steps {
		write(t, step.path, "depth: 2\n")
		if c, err := Load(nil, ""); err != nil {
			t.Fatal(err)
		} else if c.File() != step.path {
			t.Errorf("read %q, want %q", c.File(), step.path)
		}
	}
	t.Setenv(FileEnvVar, write(t, "by-env.yaml", ""))
	if c, err := Load(nil, ""); err != nil {
		t.Fatal(err)
	} else if c.File() != "by-env.yaml" || c.IsSet("depth") {
		t.Errorf("read %q", c.File())
	}
	if c, err := Load(nil, write(t, "by-flag.yaml", "")); err != nil {
		t.Fatal(err)
	} else if c.File() != "by-flag.yaml" {
		t.Errorf("read %q", c.File())
	}
}

func TestFileForms(t *testing.T) {
	for text, want := range map[string]Value{
		"list: [a, 'b:1', '[::1]:2']": {Name: "list", Value: "a,b:1,[::1]:2"},
		"list:\n- a\n- b\n":           {Name: "list", Value: "a,b"},
		"segment: 65536":              {Name: "segment", Value: uint64(65536)},
		"trace: off":                  {Name: "trace", Value: "off"},
		"trace: 0":                    {Name: "trace", Value: "0"},
		"mtu:":                        {Name: "mtu", Value: 0}, // no value: as if it were not there
		`{"depth": 7}`:                {Name: "depth", Value: 7},
	} {
		if got := load(t, text).Get(want.Name); got.Value != want.Value {
			t.Errorf("%q: got %#v, want %#v", text, got.Value, want.Value)
		}
	}
}

func TestBadInputSaysWhatAndWhere(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		env  [2]string
		args []string
		want string
	}{
		"unknown key":        {file: "qp_timout: 3", want: `configuration: file f.yaml: unknown key "qp_timout", the nearest known is "qp-timeout"`},
		"nested key":         {file: "qp:\n  timeout: 3", want: `configuration: file f.yaml: unknown key "qp.timeout", the nearest known is "qp-timeout"`},
		"value of a file":    {file: "mtu: 9000", want: `configuration: mtu is 9000, expected 0, 256, 512, 1024, 2048 or 4096 (from file f.yaml)`},
		"value of a var":     {env: [2]string{"RINGCLI_DEPTH", "many"}, want: `configuration: depth is "many", expected a whole number from 1 to 16 (from env RINGCLI_DEPTH)`},
		"unknown variable":   {env: [2]string{"RINGCLI_DEVISE", "shm"}, want: `configuration: unknown variable RINGCLI_DEVISE, the nearest known is RINGCLI_DEVICE`},
		"value of a flag":    {args: []string{"--sl", "16"}, want: `configuration: sl is 16, expected a whole number from 0 to 15 (from flag --sl)`},
		"fraction":           {file: "depth: 1.5", want: `configuration: depth is 1.5, expected a whole number from 1 to 16 (from file f.yaml)`},
		"truth as number":    {file: "port: true", want: `configuration: port is true, expected a whole number from 1 to 255 (from file f.yaml)`},
		"map as text":        {file: "device: {}", want: `configuration: device is map[], expected a text that is not empty (from file f.yaml)`},
		"empty text":         {args: []string{"--device="}, want: `configuration: device is "", expected a text that is not empty (from flag --device)`},
		"unknown word":       {file: "protocol: fast", want: `configuration: protocol is "fast", expected auto, eager, rendezvous, rendezvous-write, rendezvous-read, receiver-initiated or direct (from file f.yaml)`},
		"duration sans unit": {file: "timeout: 30", want: `configuration: timeout is 30, expected a duration above zero with its unit, such as 500ms or 30s (from file f.yaml)`},
		"duration below":     {file: "timeout: -1s", want: `configuration: timeout is "-1s", expected a duration above zero with its unit, such as 500ms or 30s (from file f.yaml)`},
		"size too small":     {file: "segment: 1", want: `configuration: segment is 1, expected 0, or a size from 256 to 1G, such as 64K or 1MiB (from file f.yaml)`},
		"size below 1M":      {args: []string{"--log-size", "64K"}, want: `configuration: log-size is "64K", expected a size from 1M to 1024G, such as 16M (from flag --log-size)`},
		"size too great":     {env: [2]string{"RINGCLI_SEGMENT", "99999999999G"}, want: `configuration: segment is "99999999999G", expected 0, or a size from 256 to 1G, such as 64K or 1MiB (from env RINGCLI_SEGMENT)`},
	} {
		t.Run(name, func(t *testing.T) {
			isolate(t)
			file := ""
			if test.file != "" {
				file = write(t, "f.yaml", test.file)
			}
			if test.env[0] != "" {
				t.Setenv(test.env[0], test.env[1])
			}
			_, err := Load(parsed(t, test.args...), file)
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
			if !errors.Is(err, ErrInvalid) {
				t.Error("the error does not wrap ErrInvalid")
			}
		})
	}
}

func TestBadFiles(t *testing.T) {
	isolate(t)
	for path, want := range map[string]string{
		"missing.yaml": "given by --config",
		write(t, "broken.yaml", "mtu: [1\ndepth"):     "broken.yaml",
		write(t, "twice.yaml", "mtu: 0\nmtu: 1024\n"): "already defined",
		t.TempDir(): "is a directory",
	} {
		_, err := Load(nil, path)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to say %q", path, err, want)
		}
	}
}

// What needs no setting may do without a file that was only found, but not without one
// that somebody named.
func TestAFileThatWasOnlyFound(t *testing.T) {
	for text, want := range map[string]string{
		"mtu: [1":         "yaml",
		"mtuu: 1024":      `unknown key "mtuu"`,
		"mtu: 1":          "mtu is 1, expected",
		"retry-cnt: many": `retry-cnt is "many", expected`,
	} {
		isolate(t)
		write(t, "ringcli.yaml", text)
		for _, file := range []string{"", "ringcli.yaml"} {
			var found *FoundFileError
			_, err := Load(nil, file)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) || errors.As(err, &found) != (file == "") {
				t.Errorf("%q as %q: %v", text, file, err)
			}
		}
		t.Setenv("RINGCLI_DEPTH", "many")
		t.Setenv("RINGCLI_CONFIG", "")
		t.Chdir(t.TempDir())
		var found *FoundFileError
		if _, err := Load(nil, ""); errors.As(err, &found) || !errors.Is(err, ErrInvalid) {
			t.Errorf("a variable: %v", err)
		}
	}
}

func TestTheTableIsSound(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Settings {
		if seen[s.Name] {
			t.Errorf("%s is there twice", s.Name)
		}
		seen[s.Name] = true
		if s.Usage == "" {
			t.Errorf("%s has no usage", s.Name)
		}
		if value, err := s.Parse(s.Default); err != nil || value != s.Default {
			t.Errorf("the default of %s parses as %#v, %v", s.Name, value, err)
		}
	}
}

func TestGettersPanicOnMisuse(t *testing.T) {
	isolate(t)
	c, err := Load(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, misuse := range map[string]func(){
		"unknown name": func() { c.Get("speed") },
		"other kind":   func() { c.Int("device") },
		"unknown flag": func() { AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError), "speed") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			misuse()
		}()
	}
}

func TestWith(t *testing.T) {
	c, err := Load(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	changed, err := c.With("slot-size", "4K")
	if err != nil {
		t.Fatal(err)
	}
	if v := changed.Get("slot-size"); v.Value != uint64(4096) || v.Origin.String() != "set" || !changed.IsSet("slot-size") {
		t.Errorf("got %+v", v)
	}
	if v := c.Get("slot-size"); v.Value != uint64(256<<10) || c.IsSet("slot-size") {
		t.Errorf("the first Config has changed to %+v", v)
	}
	for name, value := range map[string]string{"mtu": "1500", "slot_sizes": "4K", "timeout": "5"} {
		if _, err := c.With(name, value); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
	if _, err := c.With("slots-size", "4K"); err == nil || !strings.Contains(err.Error(), `"slot-size"`) {
		t.Errorf("%v does not name the nearest", err)
	}
}

// A command may have flags of its own, and declare a setting's flag itself, with more values.
func TestFlagsOfTheCommandsOwn(t *testing.T) {
	isolate(t)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.String("protocol", "", "several")
	check := flags.Bool("check", false, "")
	AddFlags(flags, "protocol", "depth")
	if err := flags.Parse([]string{"--protocol=eager,rendezvous-read", "--depth=2", "--check"}); err != nil {
		t.Fatal(err)
	}
	c, err := Load(flags, "")
	if err != nil {
		t.Fatal(err)
	}
	if c.IsSet("protocol") || c.String("protocol") != "auto" || c.Int("depth") != 2 || !*check {
		t.Errorf("protocol is %q from %s, depth %d", c.String("protocol"), c.Get("protocol").Origin, c.Int("depth"))
	}
}

// Another name of a value is the value, wherever it comes from.
func TestAliases(t *testing.T) {
	isolate(t)
	t.Setenv("RINGCLI_ALGORITHM", "doubling")
	c, err := Load(parsed(t), "")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.String("algorithm"); got != "recursive-doubling" {
		t.Errorf("doubling is %s", got)
	}
	if c, err = c.With("algorithm", "rd"); err != nil || c.String("algorithm") != "recursive-doubling" {
		t.Errorf("rd: %v", err)
	}
	if _, err := c.With("algorithm", "RD!"); !errors.Is(err, ErrInvalid) {
		t.Errorf("RD!: %v", err)
	}
}

// Whatever a file holds, it is settings that are allowed, or an error that says so.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{Sample(), "segment: 64K\n", "segment: {a: b}\n", "segment: [1, 2]\n", "depth: 99999999999999999999\n", "a: &a [*a]\n", "\t", "? x", "mtu: !!binary aGk=\n", "timeout: -1\n"} {
		f.Add([]byte(seed))
	}
	file := filepath.Join(f.TempDir(), "ringcli.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		c, err := Load(nil, file)
		if took := time.Since(begun); took > 10*time.Second {
			t.Fatalf("%q: read after %s", text, took)
		}
		if (c == nil) == (err == nil) || err != nil && !errors.Is(err, ErrInvalid) {
			t.Fatalf("%q: %v, %v", text, c, err)
		}
		if c == nil {
			return
		}
		for _, v := range c.Values() {
			s, _ := Lookup(v.Name)
			if again, err := s.Parse(v.String()); err != nil || again != v.Value {
				t.Errorf("%q: %s is %v, which is read again as %v, %v", text, v.Name, v, again, err)
			}
		}
	})
}

// TestRCCL: RCCL's names and variables give other settings their values where those have none of
// their own; what is not set leaves all as it is, and what would give a wrong value is refused.
func TestRCCL(t *testing.T) {
	defaults := map[string]string{
		"use-ring-all-reduce": "auto", "use-tree-all-reduce": "auto", "tree-threshold-bytes": "1M", "num-channels": "1", "enable-debug": "false",
		"buffer-size": "4M", "channels": "1", "slots": "16", "slot-size": "256K", "trace": "warn",
	}
	for name, c := range map[string]struct {
		env  map[string]string
		with [][2]string
		want map[string]string
		fail string
		// foreign is why a variable is not read: the values are the defaults.
		foreign string
	}{
		"nothing": {},
		"variables": {
			env:  map[string]string{"RCCL_NCHANNELS": "4", "RCCL_BUFFSIZE": "1048576", "RCCL_DEBUG": "INFO"},
			want: map[string]string{"num-channels": "4", "channels": "4", "buffer-size": "1M", "slot-size": "64K", "enable-debug": "true", "trace": "info"},
		},
		"NCCL's level":               {env: map[string]string{"NCCL_DEBUG": "INFO"}, want: map[string]string{"enable-debug": "true", "trace": "info"}},
		"NCCL's level in lower case": {env: map[string]string{"NCCL_DEBUG": "info"}, want: map[string]string{"enable-debug": "true", "trace": "info"}},
		"another in any case":        {env: map[string]string{"RCCL_DEBUG": "Warn"}, want: map[string]string{}},
		"a value in any case":        {env: map[string]string{"RINGCLI_ENABLE_DEBUG": "True"}, want: map[string]string{"enable-debug": "true", "trace": "info"}},
		"RCCL's level before it": {
			env:  map[string]string{"NCCL_DEBUG": "INFO", "RCCL_DEBUG": "WARN"},
			want: map[string]string{},
		},
		"ringcli's names of them": {
			env:  map[string]string{"RINGCLI_NUM_CHANNELS": "2", "RINGCLI_USE_TREE_ALL_REDUCE": "true", "RCCL_NCHANNELS": "3", "RCCL_DEBUG": "WARN"},
			want: map[string]string{"num-channels": "2", "channels": "2", "use-tree-all-reduce": "true"},
		},
		"own names first": {
			env:  map[string]string{"RCCL_NCHANNELS": "4", "RINGCLI_CHANNELS": "2", "RINGCLI_SLOT_SIZE": "4K", "RCCL_BUFFSIZE": "1M", "RCCL_DEBUG": "INFO", "RINGCLI_DEBUG": "debug"},
			want: map[string]string{"num-channels": "4", "channels": "2", "buffer-size": "1M", "slot-size": "4K", "enable-debug": "true", "trace": "debug"},
		},
		"set": {
			with: [][2]string{{"slots", "8"}, {"buffer-size", "4M"}, {"num-channels", "5"}},
			want: map[string]string{"slots": "8", "slot-size": "512K", "num-channels": "5", "channels": "5"},
		},
		"slots too small":    {env: map[string]string{"RCCL_BUFFSIZE": "4K", "RINGCLI_SLOTS": "64"}, fail: "buffer-size is 4K, by which slot-size is 64"},
		"no channels":        {env: map[string]string{"RCCL_NCHANNELS": "0"}, foreign: `num-channels is "0"`},
		"no level of RCCL's": {env: map[string]string{"RCCL_DEBUG": "LOUD"}, foreign: `enable-debug is "LOUD"`},
		"no level of NCCL's": {env: map[string]string{"NCCL_DEBUG": "LOUD"}, foreign: `enable-debug is "LOUD"`},
		"slots set too small": {
			env: map[string]string{"RCCL_BUFFSIZE": "64K"}, with: [][2]string{{"slots", "1024"}}, fail: "by which slot-size is 64",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range c.env {
				t.Setenv(variable, value)
			}
			config, err := Load(nil, os.DevNull)
			for _, w := range c.with {
				if err == nil {
					config, err = config.With(w[0], w[1])
				}
			}
			if c.fail != "" {
				if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.fail) {
					t.Errorf("%v: expected %q", err, c.fail)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if errs := errors.Join(config.Foreign()...); (errs == nil) != (c.foreign == "") || errs != nil && !strings.Contains(errs.Error(), c.foreign) {
				t.Errorf("%v: expected %q", errs, c.foreign)
			}
			for setting, value := range defaults {
				want, changed := c.want[setting]
				if !changed {
					want = value
				}
				if got := config.Get(setting).String(); got != want {
					t.Errorf("%s is %s (%s), want %s", setting, got, config.Get(setting).Origin, want)
				}
			}
		})
	}
}
