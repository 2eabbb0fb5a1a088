package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"ringcli/cli/exit"
	"ringcli/configs"
)

// counted is a table with one command, and how often its flags were declared.
func counted() (t *Table, declared *int) {
	t, declared = NewTable(), new(int)
	t.Add(Row{
		Name: "work", Aliases: []string{"w"}, Group: GroupShell, Where: Line, Args: "[N]",
		CheckArgs: func(args []string) error {
			if len(args) > 1 {
				return exit.Usagef("work: %d arguments given: expected one", len(args))
			}
			return nil
		},
		Flags: func(fs *pflag.FlagSet) {
			*declared++
			fs.Bool("check", false, "")
			fs.StringSlice("without", []string{"none"}, "")
			NumberFlag(fs, "count", "n", 7, 0, 100, "a count", "")
			SizeFlag(fs, "size", configs.SizeValue(1<<10), "")
		},
	})
	return t, declared
}

// A command's flags are declared once for all lines, and each line finds them as they were declared.
func TestLinesShareDeclaredFlags(t *testing.T) {
	table, declared := counted()
	for _, c := range []struct{ line, want string }{
		{"work", "check=false count=7 size=1K without=[none] given=[] args=[]"},
		{"work --check --count 9 --size 4K --without a,b --without c 1", "check=true count=9 size=4K without=[a b c] given=[check count size without] args=[1]"},
		{"w -n 3", "check=false count=3 size=1K without=[none] given=[count] args=[]"},
		{"work -- --check", "check=false count=7 size=1K without=[none] given=[] args=[--check]"},
		{"work --without d", "check=false count=7 size=1K without=[d] given=[without] args=[]"},
		{"work", "check=false count=7 size=1K without=[none] given=[] args=[]"},
	} {
		got := ""
		err := table.RunLine(t.Context(), io.Discard, strings.Fields(c.line), false, func(_ context.Context, row Row, call Call) error {
			var given []string
			call.Flags.Visit(func(f *pflag.Flag) { given = append(given, f.Name) })
			without, err := call.Flags.GetStringSlice("without")
			got = fmt.Sprintf("check=%t count=%d size=%s without=%v given=%v args=%v", IsOn(call.Flags, "check"), NumberOf(call.Flags, "count"),
				TextOf(call.Flags, "size"), without, given, call.Args)
			if row.Name != "work" || call.Name != "work" {
				t.Errorf("%s: %s, %s", c.line, row.Name, call.Name)
			}
			return err
		})
		if err != nil || got != c.want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", c.line, err, got, c.want)
		}
	}
	if *declared != 1 {
		t.Errorf("the flags were declared %d times, expected once", *declared)
	}
}

// A line with a mistake gets cobra's answer, and the lines after it find clean flags.
func TestLinesWithMistakes(t *testing.T) {
	table, _ := counted()
	none := func(_ context.Context, _ Row, call Call) error {
		if n := NumberOf(call.Flags, "count"); n != 7 {
			return fmt.Errorf("count is %d", n)
		}
		return nil
	}
	for line, want := range map[string]string{
		"work --count 5 --count 500": "expected a count, a whole number from 0 to 100; `help work` lists the flags",
		"work --count 5 a b":         "work: 2 arguments given: expected one",
		"work --no-such":             "unknown flag: --no-such; `help work` lists the flags",
		"wrk":                        "did you mean work?",
		"--check":                    "unknown flag: --check",
	} {
		err := table.RunLine(t.Context(), io.Discard, strings.Fields(line), false, none)
		if err == nil || !strings.Contains(err.Error(), want) || exit.Code(err) != exit.Usage {
			t.Errorf("%s: %v: expected %q", line, err, want)
		}
		if err := table.RunLine(t.Context(), io.Discard, []string{"work"}, false, none); err != nil {
			t.Errorf("after %s: %v", line, err)
		}
	}
	var help strings.Builder
	if err := table.RunLine(t.Context(), &help, []string{"work", "--help"}, false, none); err != nil || !strings.Contains(help.String(), "--without") {
		t.Errorf("--help: %v\n%s", err, help.String())
	}
}

// A line within another, and a line after a job that still reads its flags, have flags of their own.
func TestLinesAtOnceHaveTheirOwnFlags(t *testing.T) {
	table, declared := counted()
	count := func(call Call) int { return NumberOf(call.Flags, "count") }
	var job Call
	err := table.RunLine(t.Context(), io.Discard, []string{"work", "-n", "1"}, true, func(ctx context.Context, _ Row, call Call) error {
		job = call
		return nil
	})
	outer := func(ctx context.Context, _ Row, call Call) error {
		err := table.RunLine(ctx, io.Discard, []string{"work", "-n", "3"}, false, func(_ context.Context, _ Row, inner Call) error {
			if count(inner) != 3 || count(call) != 2 || count(job) != 1 {
				return fmt.Errorf("counts are %d, %d and %d: expected 3, 2 and 1", count(inner), count(call), count(job))
			}
			return nil
		})
		if count(call) != 2 {
			err = errors.Join(err, fmt.Errorf("count is %d after the line within: expected 2", count(call)))
		}
		return err
	}
	for range 3 {
		err = errors.Join(err, table.RunLine(t.Context(), io.Discard, []string{"work", "-n", "2"}, false, outer))
	}
	if err != nil {
		t.Error(err)
	}
	if count(job) != 1 || *declared != 3 {
		t.Errorf("count of the job is %d, declared %d times: expected 1, and 3 times", count(job), *declared)
	}
}

// Whatever a flag of pflag's or ours keeps, reset undoes it.
func TestResetUndoesEveryKindOfFlag(t *testing.T) {
	d := declare(Row{Name: "kinds", Flags: func(fs *pflag.FlagSet) {
		fs.Bool("bool", true, "")
		fs.Int("int", 1, "")
		fs.String("string", "a", "")
		fs.Duration("duration", 1, "")
		fs.StringSlice("slice", nil, "")
		fs.StringArray("array", []string{"x"}, "")
		OptionalFlag[uint32](fs, "optional", 0, 9, "")
	}})
	state := func() (all []any) {
		d.set.VisitAll(func(f *pflag.Flag) { all = append(all, f.Name, f.Value.String(), f.Changed) })
		return append(all, d.set.NFlag(), d.set.NArg(), d.set.Parsed(), d.set.ArgsLenAtDash(), fmt.Sprint(Given[uint32](d.set, "optional")))
	}
	clean := state()
	for range 2 {
		if err := d.set.Parse(strings.Fields("--bool=false --int 2 --string b --duration 2s --slice a --slice b --array y --optional 3 c -- d")); err != nil {
			t.Fatal(err)
		}
		if reflect.DeepEqual(state(), clean) {
			t.Fatal("nothing was given")
		}
		if d.reset(); !reflect.DeepEqual(state(), clean) {
			t.Errorf("after reset %v\nexpected    %v", state(), clean)
		}
	}
}
