package shell

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs/codes"
)

const expectLong = `Compares a field of the last result with a value; if it does not hold, the
command fails with exit code 2, or with --warning with 1, which lets a script go
on. Fields are those of the result's JSON, such as busbw_GBps, wrong or
time_us.p50; what stands after the last "_" may be left out where it is a unit.
If the last command gave several results, all that have the field must hold, or
those that --where names. With --if-there nothing needs to have it: a device
without the counter, a port without a rate.
Values are numbers, with K, M or G for powers of 1024, words, or another field
of the result with a factor, such as 0.5*rate: rate_GBps is that of the slowest
port, possible_GBps what the slowest rank's edges can carry, in software too.`

// relation compares: order is below, at or above 0 as what there is is below, at or
// above the value.
type relation struct {
	sign  string
	holds func(order int) bool
}

// relations are what expect understands, the longer spellings first.
var relations = []relation{
	{"==", func(o int) bool { return o == 0 }},
	{"!=", func(o int) bool { return o != 0 }},
	{">=", func(o int) bool { return o >= 0 }},
	{"<=", func(o int) bool { return o <= 0 }},
	{">", func(o int) bool { return o > 0 }},
	{"<", func(o int) bool { return o < 0 }},
}

// expectation is `expect FIELD RELATION VALUE`.
type expectation struct {
	field string
	relation
	value, where string
}

// concerns tells whether a result is one of those that --where names.
func (e expectation) concerns(fields map[string]any) bool {
	if e.where == "" {
		return true
	}
	name, want, _ := strings.Cut(e.where, "=")
	_, got, found := lookUp(fields, name)
	return found && fmt.Sprint(got) == want
}

// parseExpectation takes the three parts as words of their own or run together,
// as in wrong==0.
func parseExpectation(args []string) (e expectation, err error) {
	text := strings.Join(args, " ")
	for _, r := range relations {
		field, value, found := strings.Cut(text, r.sign)
		e = expectation{field: strings.TrimSpace(field), relation: r, value: strings.TrimSpace(value)}
		if found && e.field != "" && e.value != "" && !strings.ContainsAny(e.field+e.value, "=<>! ") {
			return e, nil
		}
	}
	return e, exit.Usagef("expect %q: expected FIELD RELATION VALUE with one of ==, !=, >=, <=, >, <, such as: expect busbw >= 1.5", text)
}

func checkExpect(args []string) error {
	_, err := parseExpectation(args)
	return err
}

func expectFlags(fs *pflag.FlagSet) {
	fs.String("where", "", "look only at results whose FIELD=VALUE, such as name=out_of_sequence")
	command.Completes(fs, "where", "list", "name=", "bytes=", "protocol=", "rank=", "side=")
	fs.Bool("if-there", false, "pass over results that have no such field, even if that is all of them")
	fs.Bool("warning", false, "fail with exit code 1 instead of 2; a script goes on")
}

func runExpect(_ context.Context, s *session.Session, call command.Call) error {
	e, _ := parseExpectation(call.Args) // which checkExpect has read
	if e.where = command.TextOf(call.Flags, "where"); e.where != "" && !strings.Contains(e.where, "=") {
		return exit.Usagef("--where %s: expected FIELD=VALUE, such as name=out_of_sequence", e.where)
	}
	code := exit.Critical
	if command.IsOn(call.Flags, "warning") {
		code = exit.Warning
	}
	if len(s.Results) == 0 {
		return exit.Sharedf(exit.Usage, "expect %s: there is no result to look at: run a command that gives one first", e.field)
	}
	known, compared, ifThere := map[string]bool{}, 0, command.IsOn(call.Flags, "if-there")
	for _, r := range s.Results {
		fields, err := fieldsOf(r)
		if err != nil {
			return err
		}
		name, got, found := lookUp(fields, e.field)
		if !e.concerns(fields) {
			continue
		}
		if !found {
			for name := range fields {
				known[name] = true
			}
			continue
		}
		value, found := e.valueIn(fields)
		if !found {
			if ifThere {
				continue
			}
			return exit.Usagef("expect %s %s %s: the result has no such field to compare with: --if-there passes over it", e.field, e.sign, e.value)
		}
		compared++
		holds, err := e.check(name, got, value)
		if err != nil {
			return err
		}
		if !holds {
			command, _ := fields["command"].(string)
			if value != e.value {
				value = e.value + ", which is " + value
			}
			return codes.With(codes.Expectation, exit.Sharedf(code, "expected %s %s %s: %s gave %v%s", name, e.sign, value, command, got, subject(fields)))
		}
	}
	if compared == 0 && ifThere {
		return s.Out.Note(render.Faint, "%s", strings.TrimSpace(fmt.Sprintf("no result to compare with %s %s %s %s", e.field, e.sign, e.value, e.where)))
	}
	if compared == 0 && len(known) == 0 {
		return exit.Sharedf(exit.Usage, "expect: none of the %d last results has %s", len(s.Results), e.where)
	}
	if compared == 0 {
		return exit.Sharedf(exit.Usage, "expect: the last result has no field %q: expected one of %s", e.field, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return s.Out.Note(render.Good, "%s %s %s holds", e.field, e.sign, e.value)
}

// subject tells which of several results is meant.
func subject(fields map[string]any) string {
	var b strings.Builder
	for _, name := range []string{"name", "bytes", "protocol", "rank"} {
		if v, found := fields[name]; found {
			fmt.Fprintf(&b, ", %s %v", name, v)
		}
	}
	return b.String()
}

// valueIn is the value to compare with: in 0.5*rate a part of another field.
func (e expectation) valueIn(fields map[string]any) (value string, found bool) {
	factor, field, product := strings.Cut(e.value, "*")
	if !product {
		return e.value, true
	}
	_, v, _ := lookUp(fields, field)
	number, _ := v.(json.Number)
	have, err := number.Float64()
	part, ok := parseQuantity(factor)
	return strconv.FormatFloat(part*have, 'g', 4, 64), ok && err == nil
}

// check compares what a field holds with a value, as numbers if it is one.
func (e expectation) check(name string, got any, value string) (bool, error) {
	order := 0
	switch v := got.(type) {
	case nil:
		return false, exit.Sharedf(exit.Usage, "expect: %s is not known: the operation ran without --check", name)
	case json.Number:
		have, err := v.Float64()
		want, ok := parseQuantity(value)
		if err != nil || !ok {
			return false, exit.Sharedf(exit.Usage, "expect: %s is the number %s: expected a number to compare it with, not %q", name, v, value)
		}
		order = cmp.Compare(have, want)
	default:
		if e.sign != "==" && e.sign != "!=" {
			return false, exit.Sharedf(exit.Usage, "expect: %s is %v, no number: expected == or !=", name, v)
		}
		order = strings.Compare(fmt.Sprint(v), value)
	}
	return e.holds(order), nil
}

// parseQuantity reads a number that may end in K, M or G.
func parseQuantity(text string) (float64, bool) {
	factor := 1.0
	if last := len(text) - 1; last >= 0 {
		if power := strings.Index(" KMG", strings.ToUpper(text[last:])); power > 0 {
			text, factor = text[:last], math.Pow(1024, float64(power))
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	return v * factor, err == nil && !math.IsNaN(v) // which is neither above nor below anything
}

// fieldsOf is a result as its JSON has it, nested objects by dotted names.
func fieldsOf(r render.Record) (map[string]any, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("expect: %T: %w", r, err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return nil, fmt.Errorf("expect: %T: %w", r, err)
	}
	flat := map[string]any{}
	var add func(prefix string, o map[string]any)
	add = func(prefix string, o map[string]any) {
		for name, v := range o {
			switch v := v.(type) {
			case map[string]any:
				add(prefix+name+".", v)
			case []any: // a field is one value
			default:
				flat[prefix+name] = v
			}
		}
	}
	add("", object)
	return flat, nil
}

// lookUp finds a field by its name, or by its name without the unit: busbw is
// busbw_GBps, and time.p50 is time_us.p50.
func lookUp(fields map[string]any, name string) (full string, value any, found bool) {
	if v, found := fields[name]; found {
		return name, v, true
	}
	for _, full := range slices.Sorted(maps.Keys(fields)) {
		if units.ReplaceAllString(full, "$2") == name {
			return full, fields[full], true
		}
	}
	return "", nil, false
}

var units = regexp.MustCompile(`_(GBps|us|Mpps|mbps)(\.|$)`)

// ExpectRow is `expect`.
func ExpectRow() command.Row {
	return command.Row{
		Name: "expect", Group: command.GroupLook, Where: command.Line, Own: true, Harmless: true,
		Summary: "Fail unless a field of the last result is as it should be",
		Long:    expectLong,
		Example: "  all-reduce --size 16M --check; expect wrong == 0\n  expect --warning busbw >= 1.5",
		Args:    "FIELD RELATION VALUE", Words: []string{"busbw", "algbw", "wrong", "time.p50", "time.p99", "bw"},
		CheckArgs: checkExpect, Flags: expectFlags, Run: runExpect,
	}
}
