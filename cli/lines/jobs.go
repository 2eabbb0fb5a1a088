package lines

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/failure"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/repl"
)

// JobEvent is the begin of a job, or its end if that is no failure, which is told as one.
type JobEvent struct {
	Command string  `json:"command"` // job
	OK      bool    `json:"ok"`      // it was not stopped
	Job     int     `json:"job" col:"job"`
	State   string  `json:"state" col:"state"` // started, done or stopped
	Line    string  `json:"line" col:"line|last"`
	Seconds float64 `json:"seconds"`       // since it was started
	Why     string  `json:"why,omitempty"` // it was stopped, and how far it had come
}

// Lines implements render.Told.
func (e JobEvent) Lines() []render.Line {
	text := fmt.Sprintf("[%d] %s: %s", e.Job, e.State, e.Line)
	if e.Why != "" {
		text += ": " + e.Why
	}
	return []render.Line{{Text: text, Mood: render.Faint}}
}

// jobError is what a job has ended with.
type jobError struct {
	id   int
	line string
	err  error
}

func (e *jobError) Error() string { return fmt.Sprintf("[%d] %s: %v", e.id, e.line, e.err) }
func (e *jobError) Unwrap() error { return e.err }

// stopped is that of a job that has stopped as it was asked to.
type stopped struct{ error }

func (s stopped) Unwrap() []error { return []error{s.error, repl.ErrStopped} }

// started is JobEvent's state at the begin.
const started = "started"

// background starts a command as a job. What uses the ring has its place in the line from
// now on, so that commands run in the order of their begins, on all ranks.
func background(ctx context.Context, s *session.Session, c command.Row, call command.Call) (err error) {
	if c.Typed && s.Shell == nil { // in a file that a script sources
		return noShell(c)
	}
	if err := c.Background(s.Shell != nil); err != nil {
		return err
	}
	if c.Needs == command.Ready {
		if call.Turn, err = reserve(ctx, s, c); err != nil {
			return err
		}
	}
	job, ring := s.ForJob(), s.Ring
	// Where nobody leads, others have this command in their lines, too.
	others := ring != nil && ring.Size() > 1 && !s.Leads
	quiet := s.OnlyRank0 && !s.Interactive && ring != nil && ring.Rank() > 0
	t := repl.Task{Line: call.Text, Grace: s.StopGrace}
	t.Waits = func() bool { return call.Turn != nil && call.Turn.Waits() }
	t.Stop = func() bool {
		switch {
		case call.Turn == nil:
			return job.AskToStop("")
		case t.Waits() && call.Turn.Doomed(): // it ends with what the ring has failed of
			return true
		case !c.Stops:
			return false
		case others && t.Waits():
			job.Stop.Store(true) // at all ranks' turn
			return true
		case call.Turn.GiveUp():
			return false
		}
		job.Halt(c.Name, "")
		return true
	}
	t.Run = func(ctx context.Context) (any, error) {
		id, _ := repl.JobOf(ctx)
		err := foreground(session.WithJob(ctx, job), job, c, call)
		if err == nil {
			return job.Results, nil
		}
		if waited := t.Waits(); ctx.Err() != nil && call.Turn != nil && (others || !waited) {
			when := ""
			if waited {
				when = " before its turn"
			}
			cancelled := fmt.Errorf("%s: cancelled%s: %w", c.Name, when, context.Cause(ctx))
			if ring.Fail(cancelled); waited { // which does nothing if it has failed
				err = cancelled
			}
		}
		if s.Explain != nil {
			err = s.Explain(ctx, job, err)
		}
		if exit.Code(err) == exit.Interrupted { // as this rank or another has asked
			err = stopped{err}
		}
		return job.Results, &jobError{id, call.Text, err}
	}
	t.Tell = func(j repl.Job) {
		state := string(j.State)
		if !j.Ended() {
			job.Out.Job, state = j.ID, started
		} else if call.Turn != nil {
			defer call.Turn.Leave() // so that ends are told in their order
		}
		if j.State == repl.JobFailed {
			failure.Report(job, c.Name, j.Err, exit.Code(j.Err))
			return
		}
		if out := job.Out.Fork(); !quiet && out.Format() != render.CSV { // which has no place between its rows
			// Where nobody reads it, the next command says so.
			e := JobEvent{Command: "job", OK: j.State != repl.JobStopped, Job: j.ID, State: state, Line: j.Line, Seconds: time.Since(j.Since).Seconds()}
			if at, is := errors.AsType[*jobError](j.Err); is {
				e.Why = at.err.Error()
			}
			_ = out.Print(e)
		}
	}
	s.Jobs.Start(ctx, t)
	return nil
}

// reserve takes a command's place in the line for the ring. The first one makes this process
// a member, so that a job changes nothing of the ring.
func reserve(ctx context.Context, s *session.Session, c command.Row) (*session.Turn, error) {
	turn := s.Turns.Reserve(c.Name)
	if turn.Waits() {
		return turn, nil
	}
	err := turn.Take(ctx, s)
	if err == nil {
		err = s.Ready(ctx)
		turn.Keep()
	}
	if err != nil {
		turn.Leave()
		return nil, told(ctx, s, c, err)
	}
	return turn, nil
}

// Wait waits for a job, or for all if id is 0, and ends with the gravest of what they have
// ended with, which was reported then. Their results are those that expect looks at.
func Wait(ctx context.Context, s *session.Session, id int) error {
	if s.Interactive && len(s.Jobs.List()) > 0 {
		what := "what runs in the background"
		if id != 0 {
			what = fmt.Sprintf("job %d", id)
		}
		defer s.Await(ctx, time.Now(), what)()
	}
	ended, err := s.Jobs.Wait(ctx, id)
	if err != nil && ctx.Err() == nil {
		return exit.Usagef("wait: %w", err)
	}
	if err != nil {
		return err
	}
	var worst error
	for _, j := range ended {
		if results, _ := j.Value.([]render.Record); len(results) > 0 {
			s.Results, s.Fresh = results, true
		}
		if j.State == repl.JobFailed {
			worst = exit.Graver(worst, j.Err)
		}
	}
	if worst != nil {
		return exit.Reported(worst)
	}
	return nil
}
