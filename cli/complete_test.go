package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/schema"
	"ringcli/cli/session"
	"ringcli/cli/shell"
)

// offeredFor returns what the last of the words completes to, as `ringcli
// __complete` has it, without descriptions.
func offeredFor(where command.Where, words ...string) ([]string, cobra.ShellCompDirective) {
	return offeredBy(testTable, where, words...)
}

// offeredBy is offeredFor with a table of one's own.
func offeredBy(table *command.Table, where command.Where, words ...string) ([]string, cobra.ShellCompDirective) {
	root := newRoot(nil, nil)
	if where == command.Line {
		root = &cobra.Command{Use: "line"}
	}
	table.Tree(root, where, func(context.Context, command.Row, command.Call) error { return nil })
	return completions(context.Background(), root, words)
}

// completions asks a tree what the last of the words completes to.
func completions(ctx context.Context, root *cobra.Command, words []string) (list []string, directive cobra.ShellCompDirective) {
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(new(bytes.Buffer))
	root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, words...))
	if err := root.ExecuteContext(ctx); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	typed := ""
	if len(words) > 0 {
		typed = words[len(words)-1]
	}
	if flag, value, found := strings.Cut(typed, "="); found && strings.HasPrefix(flag, "-") {
		typed = value
	}
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if code, found := strings.CutPrefix(line, ":"); found {
			n, err := strconv.Atoi(code)
			if err == nil {
				directive = cobra.ShellCompDirective(n)
				break
			}
		}
		text, _, _ := strings.Cut(line, "\t")
		if strings.HasPrefix(text, typed) || directive&cobra.ShellCompDirectiveFilterFileExt != 0 {
			list = append(list, text)
		}
	}
	return list, directive
}

func TestOffers(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, file := range []string{"hosts", "hosts2", "a.yaml", "script"} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		where command.Where
		line  string
		want  []string // among others
		not   []string
	}{
		{command.Process, "connect --trace ", []string{"debug", "off", "wire=", "ring="}, nil},
		{command.Process, "connect --trace wi", []string{"wire="}, []string{"ring=", "debug"}},
		{command.Process, "connect --trace wire=", []string{"wire=debug", "wire=off"}, []string{"debug"}},
		{command.Process, "connect --trace wire=debug,", []string{"wire=debug,ring="}, []string{"wire=debug,wire=", "wire=debug,debug"}},
		{command.Process, "connect --trace wire=debug,ring=i", []string{"wire=debug,ring=info"}, []string{"wire=debug,ring=debug"}},
		{command.Process, "connect --trace=wire=d", []string{"wire=debug"}, nil},
		{command.Process, "connect --list @h", []string{"@hosts", "@hosts2"}, []string{"@script"}},
		{command.Process, "connect --list node0,node1,node2 --index ", []string{"0", "1", "2"}, []string{"3"}},
		{command.Process, "connect --gid-index ", []string{"0"}, nil},
		{command.Process, "connect --device soft:lo --gid-index ", []string{"0"}, nil},
		{command.Process, "connect --device soft:", []string{"soft:lo"}, []string{"auto"}},
		{command.Process, "connect --cpus ", []string{"auto", "none"}, nil},
		{command.Process, "connect --segment ", []string{"4K", "64K", "1M", "16M"}, nil},
		{command.Process, "connect --mtu ", []string{"1024", "4096"}, nil},
		{command.Process, "connect --mtu 10", []string{"1024"}, []string{"4096"}},
		{command.Process, "connect -c ", []string{"ping", "all-reduce"}, []string{"local"}},
		{command.Process, "bench all-reduce --protocol eager,", []string{"eager,rendezvous-read"}, []string{"eager,eager"}},
		{command.Process, "bench all-reduce --algorithm ", []string{"auto", "ring", "recursive-doubling", "tree", "inbox", "hierarchical", "all"}, nil},
		{command.Process, "bench all-reduce --algorithm ring,", []string{"ring,tree", "ring,inbox"}, []string{"ring,ring"}},
		{command.Process, "bench all-reduce --begin ", []string{"4K"}, nil},
		{command.Process, "bench all-reduce ", nil, []string{"all-reduce", "p2p"}},
		{command.Process, "doctor --", []string{"--list", "--problems", "--ranks"}, []string{"--sl"}},
		{command.Process, "doctor --list node0,node1 --index ", []string{"0", "1"}, []string{"2"}},
		{command.Line, "path --", []string{"--all", "--listen-port", "--source-ports"}, []string{"--sl"}},
		{command.Line, "doctor --", []string{"--problems"}, []string{"--ranks"}},
		{command.Process, "report --", []string{"--out", "--force", "--record", "--list"}, []string{"--recorder", "--sl"}},
		{command.Line, "report --", []string{"--out", "--force", "--recorder"}, []string{"--list"}},
		{command.Process, "query ", []string{"soft:lo"}, nil},
		{command.Process, "query soft:lo ", nil, []string{"soft:lo"}},
		{command.Process, "completion b", []string{"bash"}, []string{"zsh"}},
		{command.Line, "", []string{"ping", "all-reduce", "counters"}, []string{"local"}},
		{command.Line, "all-reduce --type bf", []string{"bfloat16"}, []string{"float32"}},
		{command.Line, "ar --op ", []string{"sum", "max"}, nil},
		{command.Line, "all-reduce --si", []string{"--size"}, []string{"--op"}},
		{command.Line, "all-reduce --protocol rec", []string{"receiver-initiated"}, []string{"eager"}},
		{command.Line, "all-reduce --protocol rendezvous-", []string{"rendezvous-read", "rendezvous-write"}, []string{"eager"}},
		{command.Line, "all-reduce --algorithm ", []string{"auto", "ring", "recursive-doubling", "tree", "inbox", "hierarchical"}, []string{"rd"}},
		{command.Line, "all-reduce --protocol d", []string{"direct"}, []string{"eager"}},
	} {
		got, directive := offeredFor(c.where, strings.Split(c.line, " ")...)
		for _, w := range c.want {
			if !slices.Contains(got, w) {
				t.Errorf("%q does not offer %s: %q", c.line, w, got)
			}
		}
		for _, w := range c.not {
			if slices.Contains(got, w) {
				t.Errorf("%q offers %s: %q", c.line, w, got)
			}
		}
		if directive&cobra.ShellCompDirectiveNoFileComp == 0 {
			t.Errorf("%q offers files, too", c.line)
		}
	}
	for line, want := range map[string]cobra.ShellCompDirective{
		"connect -f ": cobra.ShellCompDirectiveDefault, "connect --config ": cobra.ShellCompDirectiveFilterFileExt,
		"connect --trace w": cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace, "devices ": cobra.ShellCompDirectiveNoFileComp,
	} {
		if _, directive := offeredFor(command.Process, strings.Split(line, " ")...); directive != want {
			t.Errorf("%q: the directive is %d, want %d", line, directive, want)
		}
	}
}

// A flag that takes text says what that completes to, even if it is nothing.
func TestEveryFlagSaysWhatItCompletesTo(t *testing.T) {
	numbers := []string{"n", "int", "uint", "duration", "GB/s", "ratio", "float64"}
	for _, where := range []command.Where{command.Process, command.Line} {
		root := testTable.Tree(newRoot(nil, nil), where, func(context.Context, command.Row, command.Call) error { return nil })
		for _, cmd := range append(root.Commands(), root) {
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				what, args := command.CompletionOf(f)
				declared := len(f.Annotations[command.CompletesKey]) > 0 || what != "nothing" && (what != "words" || len(args) > 0)
				if !declared && !f.Hidden && !slices.Contains(numbers, f.Value.Type()) {
					t.Errorf("%s --%s (%s): completion has nothing to offer: call command.Completes(fs, %q, ...), if only with \"nothing\"", cmd.CommandPath(), f.Name, f.Value.Type(), f.Name)
				}
			})
		}
	}
}

// commandDir is a directory with a `ringcli` in it, for PATH.
func commandDir(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s=1 GORACE=atexit_sleep_ms=0 exec %s \"$@\"\n", asProgram, self)
	if err := os.WriteFile(filepath.Join(dir, "ringcli"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The script for bash, with the words as readline breaks them, without and with
// the package bash-completion.
func TestBashCompletion(t *testing.T) {
	t.Parallel()
	bash, dir := need(t, "bash"), commandDir(t)
	work := t.TempDir()
	for _, file := range []string{"hosts", "a.yaml", "a.txt"} {
		if err := os.WriteFile(filepath.Join(work, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cases := []struct {
		line  string
		words []string // after "ringcli", as readline breaks them
		want  string   // replaces the last of them
	}{
		{"ringcli conn", []string{"conn"}, "connect"},
		{"ringcli connect --dev", []string{"connect", "--dev"}, "--device"},
		{"ringcli connect --device soft:l", []string{"connect", "--device", "soft", ":", "l"}, "lo"},
		{"ringcli connect --output=js", []string{"connect", "--output", "=", "js"}, "json"},
		{"ringcli connect --output js", []string{"connect", "--output", "js"}, "json"},
		{"ringcli connect --trace wire=deb", []string{"connect", "--trace", "wire", "=", "deb"}, "debug"},
		{"ringcli connect --trace wire=debug,rin", []string{"connect", "--trace", "wire", "=", "debug,rin"}, `debug\,ring=`},
		{"ringcli connect --list @ho", []string{"connect", "--list", "@", "ho"}, "@hosts"},
		// With the package, bash does not break words at @.
		{"ringcli connect --list @ho", []string{"connect", "--list", "@ho"}, "@hosts"},
		{"ringcli connect --config a.y", []string{"connect", "--config", "a.y"}, "a.yaml"},
		{"ringcli bench all-reduce --type bf", []string{"bench", "all-reduce", "--type", "bf"}, "bfloat16"},
		{"ringcli connect -f soa", []string{"connect", "-f", "soa"}, "soak"},
		{"ringcli examples slurm-p", []string{"examples", "slurm-p"}, "slurm-prolog"},
	}
	var script strings.Builder
	for i, c := range cases {
		fmt.Fprintf(&script, "COMP_WORDS=(ringcli"+strings.Repeat(" %q", len(c.words))+")\n", anySlice(c.words)...)
		fmt.Fprintf(&script, "COMP_LINE=%q COMP_POINT=%d COMP_CWORD=%d COMP_TYPE=9 COMPREPLY=()\n", c.line, len(c.line), len(c.words))
		fmt.Fprintf(&script, "__start_ringcli 2>/dev/null\necho \"%d ${COMPREPLY[*]}\"\n", i)
	}
	for name, source := range map[string]string{"alone": "", "with bash-completion": "/usr/share/bash-completion/bash_completion"} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(source); source != "" && err != nil {
				t.Skipf("NOT TESTED: %v", err)
			}
			head := "source <(ringcli completion bash)\n"
			if source != "" {
				head = "source " + source + "\n" + head
			}
			cmd := exec.Command(bash, "--norc", "--noprofile", "-c", head+script.String())
			cmd.Dir = work
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for i, c := range cases {
				if slices.Contains(c.words, "@") && source != "" {
					continue
				}
				if want := fmt.Sprintf("%d %s\n", i, c.want); !strings.Contains(string(out), want) {
					t.Errorf("%s: want %s in\n%s", c.line, want, out)
				}
			}
		})
	}
}

func anySlice(words []string) []any {
	list := make([]any, len(words))
	for i, w := range words {
		list[i] = w
	}
	return list
}

// A person at bash who presses Tab.
func TestTabInBash(t *testing.T) {
	t.Parallel()
	bash, dir, work := need(t, "bash"), commandDir(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(work, "hosts"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := newTmux(t, "PS1=$ ", "PATH="+dir+":"+os.Getenv("PATH"))
	m.windows++
	m.do(t, "new-session", "-d", "-x", "100", "-y", "40", "-c", work, "-s", "tab", bash, "--norc", "--noprofile")
	p := &pane{t: t, m: m, id: "tab"}
	shows := func(want string) {
		t.Helper()
		p.await(want, func(screen string) bool { return strings.Contains(screen, want) })
	}
	p.text("source <(ringcli completion bash) && echo rea''dy")
	p.keys("Enter")
	shows("ready")
	for _, c := range [][2]string{
		{"ringcli dev", "ringcli devices "},
		{"ringcli connect --device soft:l", "--device soft:lo "},
		{"ringcli connect --list @ho", "--list @hosts"},
		{"ringcli connect --trace wire=debug,rin", `--trace wire=debug\,ring=`},
		{"ringcli bench all-reduce --type bf", "--type bfloat16 "},
	} {
		p.text(c[0])
		p.keys("Tab")
		p.text("#") // shows where the cursor stands
		shows(c[1] + "#")
		p.keys("C-u") // not Ctrl-C, which may flush what is typed next
	}
}

// What other shells say about their scripts.
func TestCompletionScriptsParse(t *testing.T) {
	for shell, flags := range map[string][]string{"bash": {"-n"}, "zsh": {"-n"}, "fish": {"-n"}} {
		t.Run(shell, func(t *testing.T) {
			path := need(t, shell)
			_, script, _ := here(t, "completion", shell)
			file := filepath.Join(t.TempDir(), "script")
			if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(path, append(flags, file)...).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// fish can be asked without a terminal.
func TestFishCompletion(t *testing.T) {
	fish, dir := need(t, "fish"), commandDir(t)
	cmd := exec.Command(fish, "--no-config", "-c", "ringcli completion fish | source; complete -C 'ringcli connect --device soft:'; complete -C 'ringcli connect --trace wire=d'")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "soft:lo") || !strings.Contains(string(out), "wire=debug") {
		t.Errorf("%v\n%s", err, out)
	}
}

// zsh completes in its line editor alone; that the script loads and says what it
// completes can be asked without.
func TestZshCompletion(t *testing.T) {
	zsh, dir := need(t, "zsh"), commandDir(t)
	cmd := exec.Command(zsh, "-f", "-c", "autoload -U compinit && compinit -u -D && source <(ringcli completion zsh) && print -r -- $_comps[ringcli] && whence -w _ringcli")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "_ringcli\n_ringcli: function\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSchemaCommand(t *testing.T) {
	if code, stdout, stderr := here(t, "schema"); code != exit.OK || stdout != schema.JSON || stderr != "" {
		t.Errorf("exit code %d, %d bytes, %s", code, len(stdout), stderr)
	}
}

// In our own shell, files are listed by us, and what is replaced is the word's
// last part.
func TestCompletionInTheShell(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, file := range []string{"page.html", "page.txt", "script.ring"} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("pages", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		from int
		want []string
	}{
		{"bench all-reduce --html pa", 24, []string{"page.html", "pages/"}},
		{"source scr", 7, []string{"script.ring"}},
		{"ping; all-reduce --type bf", 24, []string{"bfloat16"}},
		{"all-reduce --type=bf", 18, []string{"bfloat16"}},
		{"trace wi", 6, []string{"wire="}},
		{"trace wire=debug,ring=i", 6, []string{"wire=debug,ring=info"}},
		{"trace me", 6, []string{"merge"}},
		{"trace recorder o", 15, []string{"on", "off"}},
		{"trace merge page", 12, []string{"page.html", "page.txt", "pages/"}},
		{"rtr --side l", 11, []string{"left"}},
		{"ping nothing", 5, nil},
	} {
		list, from := shell.Complete(session.New(nil, nil, nil, nil, nil), testTable, c.line)
		var got []string
		for _, candidate := range list {
			if strings.HasPrefix(candidate.Text, c.line[c.from:]) {
				got = append(got, candidate.Text)
			}
		}
		if from != c.from || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q from %d, want %q from %d", c.line, got, from, c.want, c.from)
		}
	}
}
