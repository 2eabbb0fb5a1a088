package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/lines"
	"ringcli/cli/session"
	"ringcli/configs"
)

func TestCommandTable(t *testing.T) {
	for _, where := range []command.Where{command.Process, command.Line} {
		seen := map[string]string{}
		for _, c := range testTable.Rows {
			if c.Where&where == 0 {
				continue
			}
			for _, name := range append([]string{c.Name}, c.Aliases...) {
				if other, taken := seen[name]; taken {
					t.Errorf("%q means %s and %s", name, other, c.Name)
				}
				seen[name] = c.Name
			}
		}
		for _, alias := range []string{"allreduce", "ar", "allgather", "ag", "reducescatter", "rs"} {
			if _, found := seen[alias]; found != (where == command.Line) {
				t.Errorf("%q is known at %d: %v", alias, where, found)
			}
		}
	}
	for _, c := range testTable.Rows {
		if c.Summary == "" || strings.HasSuffix(c.Summary, ".") || len(c.Summary) > 70 {
			t.Errorf("%s: summary is %q", c.Name, c.Summary)
		}
		if c.Where == 0 || c.Run == nil {
			t.Errorf("%s has no place or nothing to run", c.Name)
		}
		if !slices.ContainsFunc(command.Groups, func(g command.Group) bool { return g.ID == c.Group }) {
			t.Errorf("%s: unknown group %q", c.Name, c.Group)
		}
		if (c.Args == "") != (c.CheckArgs == nil) || (c.Args == "") != (len(c.Words) == 0 && c.Complete == nil) {
			t.Errorf("%s: arguments %q are not checked or not completed", c.Name, c.Args)
		}
		fs := pflag.NewFlagSet(c.Name, pflag.ContinueOnError)
		if c.Flags != nil {
			c.Flags(fs) // panics if a name is taken
		}
		configs.AddFlags(fs, append(slices.Clone(c.Settings), "output")...)
		fs.VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" && !f.Hidden {
				t.Errorf("%s --%s has no usage", c.Name, f.Name)
			}
		})
		for line := range strings.Lines(fmt.Sprintf("%s\n%s\n  %-14s %s", c.Long, c.Example, c.Name, c.Summary)) {
			if line = strings.TrimSuffix(line, "\n"); len(line) > 80 {
				t.Errorf("%s: a line of its help is %d wide: %s", c.Name, len(line), line)
			}
		}
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	for _, c := range testTable.Rows {
		if c.Where&command.Process == 0 {
			continue
		}
		code, stdout, stderr := here(t, c.Name, "--help")
		if code != exit.OK || stderr != "" || !strings.Contains(stdout, "Usage:\n  ringcli "+c.Name) {
			t.Errorf("%s --help: exit code %d\n%s%s", c.Name, code, stdout, stderr)
		}
	}
	code, stdout, _ := here(t)
	if code != exit.OK {
		t.Errorf("without arguments: exit code %d", code)
	}
	for _, c := range testTable.Rows {
		if c.Where&command.Process != 0 && !strings.Contains(stdout, "  "+c.Name+" ") {
			t.Errorf("help does not list %s", c.Name)
		}
	}
	_, connect, _ := here(t, "connect", "--help")
	_, listed, _ := here(t, "shell", "-c", "help")
	for _, c := range testTable.Rows {
		if c.Where&command.Line != 0 && !strings.Contains(listed, "\n  "+c.Name+" ") {
			t.Errorf("help does not list %s", c.Name)
		}
	}
	if strings.Contains(connect, session.ParentFlag) {
		t.Errorf("--%s is shown", session.ParentFlag)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range command.Shells {
		code, stdout, stderr := here(t, "completion", shell)
		if code != exit.OK || len(stdout) < 500 {
			t.Errorf("%s: exit code %d, %d bytes, %s", shell, code, len(stdout), stderr)
		}
	}
	for line, want := range map[string][]string{
		"":                           {"connect", "local", "bench", "devices", "config", "version", "completion"},
		"config --output ":           {"table", "json", "csv"},
		"bench ar --output ":         {"table", "csv", "nccl-tests"},
		"local --protocol ":          {"auto", "eager", "rendezvous-write"},
		"bench ":                     {"all-reduce", "p2p"},
		"bench all-reduce --type ":   {"int8", "bfloat16", "float64"},
		"bench all-reduce --op ":     {"sum", "avg"},
		"connect --device ":          {"auto", "soft:lo"},
		"connect --trace ":           {"debug", "wire="},
		"completion ":                {"bash", "fish"},
		"connect --trace-format ":    {"json", "text"},
		"bench all-gather --mtu 10 ": nil,
	} {
		_, stdout, _ := here(t, append([]string{"__complete"}, strings.Split(line, " ")...)...)
		for _, word := range want {
			if !slices.ContainsFunc(strings.Split(stdout, "\n"), func(l string) bool {
				offered, _, _ := strings.Cut(l, "\t")
				return offered == word
			}) {
				t.Errorf("%q does not offer %s:\n%s", line, word, stdout)
			}
		}
	}
}

func TestConfigShowsOrigins(t *testing.T) {
	t.Setenv("RINGCLI_TRAFFIC_CLASS", "96")
	code, stdout, stderr := here(t, "config", "--mtu", "1024", "--output", "json")
	if code != exit.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	want := map[string][2]string{
		"mtu": {"1024", "flag --mtu"}, "traffic-class": {"96", "env RINGCLI_TRAFFIC_CLASS"}, "retry-cnt": {"6", "default"},
	}
	found := 0
	for _, o := range objects(t, stdout) {
		if w, asked := want[o["name"].(string)]; asked {
			found++
			if o["value"] != w[0] || o["origin"] != w[1] {
				t.Errorf("%v, want %v", o, w)
			}
		}
	}
	if found != len(want) {
		t.Errorf("%d of %d settings are shown:\n%s", found, len(want), stdout)
	}
	if _, sample, _ := here(t, "config", "--sample"); sample != configs.Sample() {
		t.Error("--sample is not the sample")
	}
}

func TestDevicesShowsTheSoftDevice(t *testing.T) {
	code, stdout, stderr := here(t, "devices", "--output", "json")
	if code != exit.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	found := map[string]bool{}
	for _, o := range objects(t, stdout) {
		switch {
		case o["provider"] == "soft":
			found["provider"] = true
		case o["device"] == "soft:lo" && o["state"] == "ACTIVE":
			found["port"] = true
		case o["gid"] == "::ffff:127.0.0.1":
			found["gid"] = true
		}
	}
	if len(found) != 3 {
		t.Errorf("found only %v in\n%s", found, stdout)
	}
}

func TestVersion(t *testing.T) {
	code, stdout, _ := here(t, "version", "--output", "json")
	all := objects(t, stdout)
	if code != exit.OK || len(all) != 1 || all[0]["version"] == "" || all[0]["os"] != "linux" {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

// The scripts that the binary carries use the commands that it has.
func TestEmbeddedScripts(t *testing.T) {
	cfg, err := configs.Load(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range configs.ScriptNames() {
		script, err := configs.Script(name)
		if err != nil {
			t.Fatal(err)
		}
		s := session.New(nil, nil, nil, nil, nil)
		s.Config = cfg
		s.Out = s.Printer()
		if err := lines.Check(t.Context(), s, testTable, script, 4); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
