package doctor

import (
	"fmt"
	"slices"
	"strings"

	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/configs"
	"ringcli/configs/codes"
	"ringcli/ring/diagnose"
	"ringcli/verbs/cpu"
)

// Verdict is what a check comes to.
type Verdict string

// The verdicts, from the gravest.
const (
	Fail Verdict = "FAIL" // no ring will come up, or none that is of use
	Warn Verdict = "WARN" // it works, but slower or at a risk
	Skip Verdict = "SKIP" // it does not apply here, or cannot be seen
	Pass Verdict = "PASS"
)

// Verdicts are all of them, from the gravest.
var Verdicts = []Verdict{Fail, Warn, Skip, Pass}

// Preflight is one check of a node, or what some ranks of a ring found alike.
type Preflight struct {
	Command  string     `json:"command"`
	OK       bool       `json:"ok"`              // no failure, and no warning but of a clock
	Ranks    []int      `json:"ranks,omitempty"` // that found it, where all ranks of a ring looked
	Check    string     `json:"check"`
	Of       string     `json:"of"` // the device, port or host that was looked at; empty: the node
	Verdict  Verdict    `json:"verdict"`
	Code     codes.Code `json:"code,omitempty"` // of the failure that it would lead to
	Value    string     `json:"value"`
	Expected string     `json:"expected"` // empty where all is well
	// Fix is a command that mends it; what follows # says what else does.
	Fix string `json:"fix"`
}

// clockChecks are of clocks, which mislead readers of logs and no ring: their warnings leave the exit
// code as it is.
var clockChecks = []string{"clock", "clocks"}

// well tells whether the check passed or was skipped.
func (p Preflight) well() bool { return p.Verdict == Pass || p.Verdict == Skip }

// Counts says how many checks came to what: "20 passed, 20 skipped, 1 warning, 0 failed".
func Counts(verdicts []Verdict) string {
	n := map[Verdict]int{}
	for _, v := range verdicts {
		n[v]++
	}
	warnings := "warnings"
	if n[Warn] == 1 {
		warnings = "warning"
	}
	return fmt.Sprintf("%d passed, %d skipped, %d %s, %d failed", n[Pass], n[Skip], n[Warn], warnings, n[Fail])
}

// finding makes a row; what is well says no more than its value.
func finding(v Verdict, check, of, value string) Preflight {
	ok := v == Pass || v == Skip || v == Warn && slices.Contains(clockChecks, check)
	return Preflight{Command: name, OK: ok, Check: check, Of: of, Verdict: v, Value: value}
}

func pass(check, of, format string, args ...any) Preflight {
	return finding(Pass, check, of, fmt.Sprintf(format, args...))
}

func skip(check, of, format string, args ...any) Preflight {
	return finding(Skip, check, of, fmt.Sprintf(format, args...))
}

// failed is a check that an error ended.
func failed(check, of string, err error, expected, fix string) Preflight {
	return finding(Fail, check, of, err.Error()).but(diagnose.FailureCode(err), expected, fix)
}

// but says what it should be.
func (p Preflight) but(code codes.Code, expected, fix string) Preflight {
	p.Code, p.Expected, p.Fix = code, expected, fix
	return p
}

var moods = map[Verdict]render.Mood{Pass: render.Good, Warn: render.Fair, Fail: render.Bad, Skip: render.Faint}

// Row implements render.Tabular: where all ranks looked, their column comes first.
func (p Preflight) Row() ([]render.Column, []render.Cell) {
	head, row := render.Select(p, "Verdict=verdict|7; Check=check|15; Of=of|8|dash; Value=found, expected, and what mends it")
	row[0].Mood = moods[p.Verdict]
	last := &row[len(row)-1]
	if p.Expected != "" {
		last.Text += ": expected " + p.Expected
	}
	if p.Fix != "" {
		last.Text += ": " + p.Fix
	}
	if p.Verdict == Skip {
		last.Mood = render.Faint
	}
	if p.Ranks != nil {
		head = slices.Insert(head, 0, render.Column{Name: "ranks", Left: true, Width: 5})
		row = slices.Insert(row, 0, render.Cell{Text: cpu.FormatList(p.Ranks)})
	}
	return head, row
}

// verdict is the error that a preflight ends in: nil if all is well. Where all ranks have
// it, each says so.
func verdict(rows []Preflight) error {
	counted := map[Verdict][]string{}
	var all []Verdict
	code := exit.OK
	for _, p := range rows {
		all = append(all, p.Verdict)
		if !p.OK {
			code = exit.Worse(code, map[Verdict]int{Fail: exit.Critical, Warn: exit.Warning}[p.Verdict])
		}
		what := p.Check
		if p.Of != "" {
			what += " of " + p.Of
		}
		if p.Ranks != nil {
			what += " at rank " + cpu.FormatList(p.Ranks)
		}
		counted[p.Verdict] = append(counted[p.Verdict], what)
	}
	if code == exit.OK {
		return nil
	}
	return codes.With(codes.Preflight, exit.Sharedf(code, "%s: %s", name, Summary(all, counted)))
}

// Summary names the checks that failed and those that warn, and says how many came to what.
func Summary(all []Verdict, names map[Verdict][]string) string {
	var parts []string
	for _, of := range []struct {
		Verdict
		what string
	}{{Fail, "failed"}, {Warn, "warnings"}} {
		if list := names[of.Verdict]; len(list) > 0 {
			parts = append(parts, of.what+": "+strings.Join(list, ", "))
		}
	}
	return strings.Join(parts, "; ") + " (" + Counts(all) + ")"
}

// IsVerdict tells whether an error is what a preflight came to.
func IsVerdict(err error) bool {
	code, _ := codes.Of(err)
	return code == codes.Preflight
}

// size writes bytes for people.
func size(n uint64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return configs.FormatSize(n)
}
