package failure

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs/codes"
	"ringcli/repl"
	"ringcli/ring"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/diagnose"
	"ringcli/trace"
)

// Failure is a command that ended in an error.
type Failure struct {
	Command string `json:"command" col:"command"`
	OK      bool   `json:"ok"` // false
	// Code is what scripts match: `ringcli help failures` lists them, `help CODE` explains one.
	Code     codes.Code `json:"code" col:"code"`
	Error    string     `json:"error" col:"error|last|bad"` // one line: what is wrong, and where
	Fix      string     `json:"fix,omitempty"`              // what to do
	Evidence []string   `json:"evidence,omitempty"`         // what was observed
	ExitCode int        `json:"exit_code" col:"exit code"`
	// Rank is there where one process reports for several ranks, or a launcher has started them.
	Rank *int `json:"rank,omitempty"`
	// Verdict is there if the ring has failed: which rank or edge is at fault, as all ranks
	// that reach each other are told.
	Verdict *ring.Verdict `json:"verdict,omitempty"`
	// Findings are what a diagnosis of both ends found, the likeliest first.
	Findings []SideFinding `json:"findings,omitempty"`
	// Calls is who calls what, where ranks call different operations: those that differ from
	// most come first.
	Calls []ring.Called `json:"calls,omitempty"`
	// Injected is what was done on purpose to the ring: the failure may be a rehearsal's.
	Injected string `json:"injected,omitempty"`
	// Retry is there if connect joins the ring again, for at most so many seconds, and runs
	// its script anew: what it has printed before does not count.
	Retry *float64 `json:"retry_s,omitempty"`
}

// again is an error after which the ring is tried again.
type again struct {
	error
	left time.Duration
}

// Again is an error after which the ring is tried again, for so long.
func Again(err error, left time.Duration) error { return &again{err, left} }

func (a *again) Unwrap() error { return a.error }

// Report says why a command failed, once: as a JSON object among the results if
// they are JSON and can be written, else as a line on standard error. A parent gets the
// object on standard error, to print it with the rank.
func Report(s *session.Session, command string, err error, code int) {
	if errors.Is(err, exit.ErrReported) || code == exit.Pipe || s.Parent != nil && s.Parent.Silent(err) {
		return
	}
	var at *commandError
	if errors.As(err, &at) {
		command = at.command
	}
	found := &explained{}
	_ = errors.As(err, &found) // or it has none
	retry, retries := errors.AsType[*again](err)
	said := codes.Split(err)
	text := said.Result
	var v *ring.Verdict
	if !errors.As(err, &v) {
		v = found.verdict // that this rank has found, or none
	}
	why := Code(err)
	if v != nil {
		why = Code(v)
	}
	f := Failure{Command: command, Code: why, Error: text, Fix: said.Fix, Evidence: said.Evidence, ExitCode: code, Verdict: v, Findings: found.findings, Calls: callsOf(err), Injected: injected(s, code)}
	if retries {
		f.Retry = new(retry.left.Seconds())
	}
	s.Ledger.AddFailure(f, exit.IsShared(err))
	who := ""
	if s.Launcher.Started { // the ranks share a stream, and a launcher may mix their exit codes
		f.Rank = new(s.Config.Int("index"))
		if who = fmt.Sprintf("rank %d: ", *f.Rank); !retries {
			text = fmt.Sprintf("exit %d: %s", code, text)
		}
	}
	if s.Out.Format() == render.JSON {
		out := s.Out
		if s.SpeaksToParent() {
			out = render.New(s.Stderr, render.JSON)
		}
		if out.Print(f) == nil {
			return
		}
	}
	out, mood := render.New(s.Stderr, render.Table), render.Bad
	if code == exit.Warning {
		mood = render.Fair
	}
	_ = out.Complain(mood, who+text) // there is nowhere left to say that it cannot be written
	if said.Fix != "" {
		_ = out.Complain(mood, who+"  fix: "+said.Fix)
	}
	for _, each := range said.Evidence {
		_ = out.Complain(render.Faint, who+"  evidence: "+each)
	}
	for _, f := range Gist(found.findings) {
		_ = out.Complain(mood, fmt.Sprintf("%s  %s, %s: %s%s", who, f.Side, f.Severity, f.Text, f.toDo()))
	}
	if injected(s, code) != "" {
		_ = out.Complain(mood, who+"  "+s.Place.InjectedNote())
	}
	if retries {
		_ = out.Complain(render.Fair, fmt.Sprintf("%sjoining again, for at most %s: the script runs anew then", who, calls.Ago(retry.left)))
	}
}

// injected is what was done on purpose, where that may be why something failed.
func injected(s *session.Session, code int) string {
	if code == exit.Usage {
		return ""
	}
	return s.Place.Injected()
}

// callsOf is who calls what, if that is what went wrong.
func callsOf(err error) []ring.Called {
	var d *ring.DisagreementError
	var v *ring.Verdict
	var commands *session.CommandsError
	switch {
	case errors.As(err, &d):
		return d.Calls
	case errors.As(err, &commands):
		return commands.Calls
	case errors.As(err, &v):
		return v.Calls
	}
	return nil
}

// SideFinding is what a comparison of both ends, or a diagnosis, found.
type SideFinding struct {
	Command          string `json:"command"`
	OK               bool   `json:"ok"` // not a fault
	Side             string `json:"side" col:"side|5"`
	diagnose.Finding `col:"Severity=finding; Attribute=attribute; Text=why, and what to do"`
}

// Adjust implements render.Adjuster.
func (f SideFinding) Adjust(column string, cell *render.Cell) {
	switch column {
	case "finding":
		cell.Mood = map[diagnose.Severity]render.Mood{diagnose.Fault: render.Bad, diagnose.Warning: render.Fair, diagnose.Note: render.Faint}[f.Severity]
	case "why, and what to do":
		cell.Text += f.toDo()
	}
}

func (f SideFinding) toDo() string {
	if f.Fix == "" {
		return ""
	}
	return ": " + f.Fix
}

// FindingsOf keeps the findings that are as bad as least, or worse.
func FindingsOf(command string, side ring.Side, list []diagnose.Finding, least diagnose.Severity) []SideFinding {
	order := []diagnose.Severity{diagnose.Fault, diagnose.Warning, diagnose.Note}
	var kept []SideFinding
	for _, f := range list {
		if slices.Index(order, f.Severity) <= slices.Index(order, least) {
			kept = append(kept, SideFinding{Command: command, OK: f.Severity != diagnose.Fault, Side: side.String(), Finding: f})
		}
	}
	return kept
}

// PrintFindings shows what a comparison or a diagnosis found.
func PrintFindings(s *session.Session, list []SideFinding) error {
	return s.Out.Print(render.Records(list)...)
}

// explained is an error with what a diagnosis of both ends found.
type explained struct {
	error
	findings []SideFinding
	verdict  *ring.Verdict // that followed from the error; nil if none did
}

// ExplainedBy is an error with what was found.
func ExplainedBy(err error, found []SideFinding) error {
	return &explained{error: err, findings: found}
}

func (e *explained) Unwrap() error { return e.error }

// Gist is what a person needs of findings: of each side the first fault, from which
// the others follow; where nothing is a fault, all.
func Gist(list []SideFinding) []SideFinding {
	var first []SideFinding
	for _, f := range list {
		told := slices.ContainsFunc(first, func(other SideFinding) bool { return other.Side == f.Side })
		if f.Severity == diagnose.Fault && !told {
			first = append(first, f)
		}
	}
	if len(first) == 0 {
		return list
	}
	return first
}

// Explain asks both ends why a command of the ring failed. What is the user's
// own doing, or mistake, needs no diagnosis.
func Explain(ctx context.Context, s *session.Session, command string, err error) error {
	if err == nil || s.Ring == nil || ctx.Err() != nil || exit.Code(err) != exit.Critical || exit.IsShared(err) {
		return err
	}
	var told *explained
	var stall *ring.StallError
	var v *ring.Verdict
	switch {
	case errors.As(err, &told): // by the command itself
		return err
	case errors.Is(err, repl.ErrStopped): // another command in the background was cancelled
		return withVerdict(s, err)
	case errors.As(err, &stall) && stall.Kind.Decided(), errors.As(err, &v) && v.FromEvidence() && v.Kind != bootstrap.KindIsolated:
		return withVerdict(s, err) // both ends were asked, and do not answer any more; a port that is down isolates
	}
	var list []SideFinding
	edges := []ring.EdgeID{ring.Left.Edge(), ring.Right.Edge()}
	var failed *ring.CompletionError
	switch {
	case !errors.As(err, &failed):
	case failed.Edge.IsMesh():
		edges = []ring.EdgeID{failed.Edge}
	default:
		edges[failed.Edge.Side()] = failed.Edge
	}
	for _, id := range edges {
		list = append(list, FindingsOf(command, id.Side(), s.Ring.Ends().Diagnose(ctx, id, err), diagnose.Warning)...)
	}
	return withVerdict(s, WithNews(err, list))
}

// withVerdict adds to an error that failed the ring what all ranks were told.
func withVerdict(s *session.Session, err error) error {
	v := s.Ring.Failure().Verdict()
	if v == nil || errors.As(err, new(*ring.Verdict)) || !errors.Is(err, s.Ring.Err()) {
		return err
	}
	var told *explained
	if !errors.As(err, &told) {
		told = &explained{error: err}
		err = told
	}
	told.verdict = v
	return err
}

// WithNews adds to an error those findings that say more than it does: that nothing
// was found is none, and a verdict on the ring says itself what it is.
func WithNews(err error, list []SideFinding) error {
	list = slices.DeleteFunc(list, func(f SideFinding) bool {
		return f.Attribute == "cause" && f.Severity != diagnose.Fault || f.Tells != nil &&
			(sameVerdict(f.Tells, err) || f.Attribute == "ring" && within(err, f.Tells))
	})
	if len(list) == 0 {
		return err
	}
	return &explained{error: err, findings: list}
}

// sameVerdict tells whether two errors come from one verdict on the ring.
func sameVerdict(a, b error) bool {
	var first, second *ring.Verdict
	return errors.As(a, &first) && errors.As(b, &second) && reflect.DeepEqual(first, second)
}

// within tells whether what told says has all of err in it.
func within(err, told error) bool {
	if errors.Is(told, err) {
		return true
	}
	joined, several := err.(interface{ Unwrap() []error })
	return several && !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !within(e, told) })
}

// commandError says which command of a line failed.
type commandError struct {
	command string
	error
}

// InCommand says which command of a line failed.
func InCommand(command string, err error) error { return &commandError{command, err} }

func (e *commandError) Unwrap() error { return e.error }

// KeepRecord writes the flight recorder to a file when a command of the ring has
// failed, and says where. Mistakes, interruptions and output that cannot be written are no
// failures of the ring.
func KeepRecord(s *session.Session, command string, err error) {
	if err == nil || s.Ring == nil || exit.Code(err) != exit.Critical || Code(err) == codes.Output {
		return
	}
	var v *bootstrap.Verdict
	if errors.As(err, &v) && v.Kind == bootstrap.KindCanceled {
		return // at another rank
	}
	path, failed := trace.DumpOnFailure(command + ": " + err.Error())
	if failed != nil {
		trace.Warn(trace.Repl, "the flight recorder was not kept: "+failed.Error())
		return
	}
	if path != "" {
		lines := []string{fmt.Sprintf("flight recorder: %s (ringcli trace show prints it, trace merge puts the ranks' together)", path)}
		if code := Code(err); code != codes.Failed {
			lines[0] += fmt.Sprintf("; help %s says more of the cause", code)
		}
		if width := render.Width(s.Stderr); width > 0 {
			lines = render.Folded(lines[0], width)
		}
		_, _ = fmt.Fprintln(s.Stderr, strings.Join(lines, "\n"))
	}
}
