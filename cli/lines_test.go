package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/lines"
	"ringcli/configs"
)

// scriptOf is a script of so many lines, distinct ones or the same again and again.
func scriptOf(count int, distinct bool) string {
	var b strings.Builder
	for i := range count {
		n := 1
		if distinct {
			n += i
		}
		_, _ = fmt.Fprintf(&b, "all-reduce --check --count %d\nexpect wrong == %d\n", n, n)
	}
	return b.String()
}

func checked(t testing.TB) (check func(script string)) {
	t.Helper()
	i := newInvocation(nil, io.Discard, io.Discard, nil, nil)
	var err error
	if i.Config, err = configs.Load(nil, os.DevNull); err != nil {
		t.Fatal(err)
	}
	return func(script string) {
		if err := lines.Check(t.Context(), i.Session, i.table, script, 1); err != nil {
			t.Fatal(err)
		}
	}
}

// A script is checked before the ring is joined, while the peers wait: a line makes no commands
// and flags anew, which are thousands of allocations.
func TestCheckOfALineIsCheap(t *testing.T) {
	const count = 500
	check := checked(t)
	for _, c := range []struct {
		distinct bool
		most     float64
	}{{true, 40}, {false, 8}} {
		script := scriptOf(count/2, c.distinct)
		check(script) // declares the flags
		if each := testing.AllocsPerRun(5, func() { check(script) }) / count; each > c.most {
			t.Errorf("distinct %t: %.0f allocations a line: expected %.0f or fewer", c.distinct, each, c.most)
		}
	}
}

func BenchmarkCheckOfALine(b *testing.B) {
	for _, distinct := range []bool{true, false} {
		b.Run(fmt.Sprintf("distinct=%t", distinct), func(b *testing.B) {
			b.ReportAllocs()
			check := checked(b)
			script := scriptOf(b.N/2+1, distinct)
			b.ResetTimer()
			check(script)
		})
	}
}

// The lines of a script share the flags of a command: none keeps what a line before has given it.
func TestEveryFlagOfALineIsReset(t *testing.T) {
	values := []string{"true", "0", "2", "100", "5000", "5GB/s", "3K", "1s", "0x7", "cuda:0", "left", "a", "0.5", "rank:0", "80%", "1:2", "::1", "write,read", "delay=1ms"}
	for _, c := range testTable.Rows {
		if c.Where&command.Line == 0 || c.Name == "help" {
			continue
		}
		c.CheckArgs = func([]string) error { return nil }
		table := command.NewTable()
		table.Add(c, command.Row{Name: "other", Group: command.GroupShell, Where: command.Line}) // help is in this group
		// state is what the flags are for a line with these words; given says that the line was run.
		state := func(words ...string) (all []string, flags map[string][]string, given bool) {
			flags = map[string][]string{}
			_ = table.RunLine(t.Context(), io.Discard, append([]string{c.Name}, words...), false, func(_ context.Context, _ command.Row, call command.Call) error {
				call.Flags.VisitAll(func(f *pflag.Flag) {
					all = append(all, fmt.Sprintf("%s %q %t %v", f.Name, f.Value, f.Changed, reflect.ValueOf(f.Value).Elem()))
					_, flags[f.Name] = command.CompletionOf(f)
				})
				given = call.Flags.NFlag() > 0
				return nil
			}) // an error is that a flag takes no such value
			return all, flags, given
		}
		clean, flags, _ := state()
		for flag, words := range flags {
			takes := func(value string) bool { _, _, given := state("--" + flag + "=" + value); return given }
			if !slices.ContainsFunc(slices.Concat(words, values), takes) {
				t.Errorf("%s --%s takes none of %q: add a value that it takes", c.Name, flag, values)
			}
			if after, _, _ := state(); !slices.Equal(after, clean) {
				t.Errorf("%s --%s leaves a trace:\n%q\nexpected\n%q", c.Name, flag, after, clean)
			}
		}
	}
}
