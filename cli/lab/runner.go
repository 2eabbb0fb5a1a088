package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/trace"
)

// Runner prints a lab as it goes.
type Runner struct {
	Session *session.Session
	Lab     string
	Rank    *int
	Explain bool
	begun   time.Time
	Mark    map[bool]string
	Steps   int // that were taken
	Device  string
	Meaning string
	end     func() // of the progress line
}

var (
	AsciiMarks   = map[bool]string{true: "ok", false: "FAIL"}
	UnicodeMarks = map[bool]string{true: "✓", false: "✗"}
)

// markOf returns the marks that the output can show: a terminal says by its locale
// that it takes UTF-8 (locale(7)); what is no terminal is for grep.
func markOf(s *session.Session) map[bool]string {
	if !trace.IsTerminal(s.Stdout) {
		return AsciiMarks
	}
	locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG"))
	if strings.Contains(strings.ToLower(strings.ReplaceAll(locale, "-", "")), "utf8") {
		return UnicodeMarks
	}
	return AsciiMarks
}

// Begin says what a step is about to do, if that was asked for.
func (r *Runner) Begin(step Step) error {
	if r.Explain && r.Session.Out.Format() == render.Table {
		lines := []string{fmt.Sprintf("%d. %s: %s", step.Number, step.Name, step.Call)}
		if step.Number > 1 {
			if err := r.Session.Out.Text("\n"); err != nil {
				return err
			}
		}
		if err := r.Session.Out.Aside(render.Faint, append(lines, strings.Split(step.Explain, "\n")...)...); err != nil {
			return err
		}
	}
	r.end = r.Session.Progress.Clock("lab %s, step %d, %s", r.Lab, step.Number, step.Name)
	return nil
}

// Done shows what has come of a step.
func (r *Runner) Done(step Step) error {
	r.end()
	if step.Err == nil {
		r.Steps++
	}
	if device := step.Values.Get("device"); device != "" {
		r.Device = device
	}
	record := LabStep{
		Command: "lab", OK: step.Err == nil, Lab: r.Lab, Rank: r.Rank, Step: step.Number, Name: step.Name, Call: step.Call,
		Values: valueMap(step.Values), Peer: valueMap(step.Peer), own: step.Values, peer: step.Peer, mark: r.Mark[step.Err == nil],
	}
	if step.Err != nil {
		record.Error, r.Meaning = step.Err.Error(), ""
		if d, ok := errors.AsType[*Diagnosis](step.Err); ok {
			r.Meaning = d.Meaning
		}
	}
	if r.Explain {
		record.Explain, record.Meaning = oneLine(step.Explain), oneLine(r.Meaning)
	}
	return r.Session.Out.Print(record)
}

func oneLine(text string) string { return strings.ReplaceAll(text, "\n", " ") }

func valueMap(values Values) map[string]string {
	if len(values) == 0 {
		return nil
	}
	m := make(map[string]string, len(values))
	for _, v := range values {
		m[v.Name] = v.Text
	}
	return m
}

// conclude prints the summary, and after a failure what its error means.
func (r *Runner) conclude(ctx context.Context, err error) error {
	if r.end != nil {
		r.end()
	}
	if err == nil || exit.Code(exit.OrInterrupted(ctx, err)) == exit.Critical {
		if printed := r.ExplainFailure(); printed != nil {
			err = errors.Join(err, printed)
		}
		result := LabResult{
			Command: "lab", OK: err == nil, Lab: r.Lab, Rank: r.Rank, Device: r.Device, Steps: r.Steps, Seconds: time.Since(r.begun).Seconds(),
		}
		if printed := r.Session.Out.Print(result); printed != nil {
			err = errors.Join(err, printed)
		}
	}
	if err != nil {
		return fmt.Errorf("lab %s: %w", r.Lab, err)
	}
	return nil
}

// ExplainFailure says what the error of the step that failed means.
func (r *Runner) ExplainFailure() error {
	if !r.Explain || r.Meaning == "" {
		return nil
	}
	return r.Session.Out.Aside(render.Bad, strings.Split(r.Meaning, "\n")...)
}
