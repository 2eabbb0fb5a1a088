package pingpong

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/timing"
	"ringcli/configs"
)

// Runner prints a pingpong as it goes.
type Runner struct {
	Session *session.Session
	Command string // as it was given
	Record  string // the name in its record
	Explain Explanations
}

// Explanations are what is said before something happens or is printed; "" is nothing.
type Explanations struct{ Start, Local, Remote, Figures string }

func (p *Runner) explain(text string) error {
	if text == "" {
		return nil
	}
	return p.Session.Out.Aside(render.Faint, strings.Split(text, "\n")...)
}

// Run takes this end through a pingpong and prints what the stock tool prints.
func (p *Runner) Run(ctx context.Context, o Options) error {
	s := p.Session
	if o.Size < 1 || o.Size > MaxSize {
		return exit.Usagef("%s --size %s: expected 1 to %s", p.Command, configs.FormatSize(uint64(o.Size)), configs.FormatSize(MaxSize))
	}
	if o.MTU == 0 { // both ends need the same, and the stock tool has this one
		o.MTU = DefaultMTU
	}
	watch := timing.New()
	o.RoundTrip = watch.Add
	o.Waiting = func(what string, since time.Time) func() { return s.Await(ctx, since, what) }
	tell := func(format, explanation string) func(Address) error {
		return func(a Address) error { return errors.Join(p.explain(explanation), StockLine(s, format, a)) }
	}
	o.Local, o.Remote = tell(LocalLine, p.Explain.Local), tell(RemoteLine, p.Explain.Remote)
	if err := p.explain(p.Explain.Start); err != nil {
		return err
	}
	r, err := Run(ctx, o)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Command, err)
	}
	r.Command = p.Record
	if watch.Count() > 0 {
		t := watch.Times()
		r.RTT = PingpongRoundTrips{Min: t.Min, P50: t.P50, P90: watch.At(90), P99: t.P99, Max: t.Max}
	}
	return errors.Join(p.explain(p.Explain.Figures), Print(s, r))
}

// The stock tool's lines of the two addresses.
const (
	LocalLine  = "  local address:  %s\n"
	RemoteLine = "  remote address: %s\n"
)

// StockLine prints a line of the stock tool's, for people and for those who look
// for it in the output.
func StockLine(s *session.Session, format string, args ...any) error {
	if s.Out.Format() != render.Table {
		return nil
	}
	return s.Out.Text(fmt.Sprintf(format, args...))
}

// Print shows the result: the lines of the stock tool, and the record.
func Print(s *session.Session, r PingpongResult) error {
	err := errors.Join(
		StockLine(s, "%d bytes in %.2f seconds = %.2f Mbit/sec\n", r.Bytes, r.Seconds, r.MbitPerSec),
		StockLine(s, "%d iters in %.2f seconds = %.2f usec/iter\n", r.Iters, r.Seconds, r.UsecPerIter),
		s.Out.Print(r))
	if err == nil && r.Unacknowledged {
		err = s.Out.Note(render.Faint, "all messages have come; the last one sent was not acknowledged before the peer left")
	}
	return err
}
