package repl

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Job is a line that runs in the background.
type Job struct {
	ID    int
	Line  string
	Since time.Time
}

// job is a Job that runs. done is closed once its end was announced.
type job struct {
	Job
	cancel context.CancelCauseFunc
	done   chan struct{}
}

type jobKey struct{}

// JobOf returns the ID of the job that a line runs as.
func JobOf(ctx context.Context) (id int, ok bool) {
	id, ok = ctx.Value(jobKey{}).(int)
	return id, ok
}

// background starts a job.
func (s *Shell) background(line string) error {
	if line == "" {
		return errors.New("there is nothing to run in the background: expected a command before &")
	}
	s.mu.Lock()
	s.lastJob++
	ctx, cancel := context.WithCancelCause(s.root)
	j := &job{Job{s.lastJob, line, time.Now()}, cancel, make(chan struct{})}
	s.jobs = append(s.jobs, j)
	s.mu.Unlock()
	ctx = context.WithValue(ctx, jobKey{}, j.ID)
	_, _ = fmt.Fprintf(s.out, "[%d] started: %s\n", j.ID, line)
	go func() {
		defer cancel(nil)
		err := s.guard(line, func() error { return s.host.Run(ctx, line) })
		stopped := errors.Is(context.Cause(ctx), ErrStopped)
		if err != nil {
			err = fmt.Errorf("[%d] %s: %w", j.ID, line, err)
		}
		s.mu.Lock()
		s.jobs = slices.DeleteFunc(s.jobs, func(other *job) bool { return other == j })
		if s.jobFailed == nil && !stopped {
			s.jobFailed = err
		}
		s.mu.Unlock()
		switch {
		case err == nil:
			_, _ = fmt.Fprintf(s.out, "[%d] done: %s\n", j.ID, line)
		case stopped:
			_, _ = fmt.Fprintf(s.out, "[%d] stopped: %s\n", j.ID, line)
		default:
			s.options.OnError(err)
		}
		close(j.done)
	}()
	return nil
}

// Jobs returns the jobs that run, in the order of their IDs.
func (s *Shell) Jobs() []Job {
	var list []Job
	for _, j := range s.running() {
		list = append(list, j.Job)
	}
	return list
}

// StopJob ends a job's context, with the cause ErrStopped; it does not wait for
// the job.
func (s *Shell) StopJob(id int) error {
	for _, j := range s.running() {
		if j.ID == id {
			j.cancel(ErrStopped)
			return nil
		}
	}
	return fmt.Errorf("job %d: none of that number is running", id)
}

// WaitJobs waits for the jobs that run now, as long as the context lets it, and
// returns the first failure of a job since it was last called; being stopped is
// none.
func (s *Shell) WaitJobs(ctx context.Context) error {
	self, isJob := JobOf(ctx)
	for _, j := range s.running() {
		if isJob && j.ID == self {
			continue
		}
		select {
		case <-j.done:
		case <-ctx.Done():
			return fmt.Errorf("job %d goes on: %w", j.ID, context.Cause(ctx))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := s.jobFailed
	s.jobFailed = nil
	return failed
}

func (s *Shell) running() []*job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.jobs)
}

// stopJobs ends all jobs and waits for them, and names those that go on.
func (s *Shell) stopJobs() {
	running := s.running()
	asked := false
	for _, j := range running {
		if s.root.Err() == nil && s.options.StopJob != nil && s.options.StopJob(j.ID) {
			asked = true
		} else {
			j.cancel(ErrStopped)
		}
	}
	left := ended(running, jobsGrace)
	if asked && len(left) > 0 {
		for _, j := range left {
			j.cancel(ErrStopped)
		}
		left = ended(left, jobsGrace)
	}
	if len(left) > 0 {
		var names []string
		for _, j := range left {
			names = append(names, fmt.Sprintf("[%d] %s", j.ID, j.Line))
		}
		s.options.OnError(fmt.Errorf("jobs that have not ended %s after they were stopped: %s", jobsGrace, strings.Join(names, ", ")))
	}
}

// ended waits for jobs and returns those that have not ended by then.
func ended(jobs []*job, within time.Duration) (left []*job) {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for i, j := range jobs {
		select {
		case <-j.done:
		case <-deadline.C:
			return jobs[i:]
		}
	}
	return nil
}

// exitInterrupted is the exit code of a process that Ctrl-C ended (128 + SIGINT,
// as shells have it).
const exitInterrupted = 130

// foreground is the line that runs, which Ctrl-C is for. The shell's lock guards
// it.
type foreground struct {
	line       string
	cancel     func()
	interrupts int
	leave      *time.Timer // nil until the process is to be left
}

// foreground runs what the user waits for.
func (s *Shell) foreground(ctx context.Context, line string, run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	front := &foreground{line: line, cancel: func() { cancel(ErrInterrupted) }}
	s.mu.Lock()
	s.front = front
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.front = nil
		if front.leave != nil {
			front.leave.Stop()
		}
		s.mu.Unlock()
	}()
	return s.guard(line, func() error { return run(ctx) })
}

// guard turns a panic into an error.
func (s *Shell) guard(line string, run func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Line: line, Value: value, Stack: debug.Stack()}
		}
	}()
	return run()
}

// interrupt is Ctrl-C, or SIGINT from elsewhere.
func (s *Shell) interrupt() {
	s.mu.Lock()
	front := s.front
	if front == nil {
		s.mu.Unlock()
		s.editor.interrupt()
		return
	}
	if s.lent {
		s.mu.Unlock()
		return
	}
	front.interrupts++
	n := front.interrupts
	s.mu.Unlock()
	if n == 3 {
		s.leaveLater(exitInterrupted)
	}
	s.options.Interrupt(n, front.cancel)
}

// leaveLater leaves the process if the line that runs has not ended by then.
func (s *Shell) leaveLater(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	front := s.front
	if front == nil || front.leave != nil {
		return
	}
	front.leave = time.AfterFunc(s.patience, func() {
		_, _ = fmt.Fprintf(s.err, "%q has not ended %s after it was told to: leaving it, and the program\n", front.line, s.patience)
		if s.term != nil {
			_ = s.term.restore() // the last that is done
		}
		s.exit(code)
	})
}
