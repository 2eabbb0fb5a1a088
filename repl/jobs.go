package repl

import (
	"context"
	"errors"
	"fmt"
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

// job is a Job that runs. done is closed at its end, after err was set.
type job struct {
	Job
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error
}

// jobs is those that run, by ID; the shell's lock guards it.
type jobs struct {
	running []*job
	last    int // the last ID that was given
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
	s.jobs.last++
	ctx, cancel := context.WithCancelCause(s.root)
	j := &job{Job{s.jobs.last, line, time.Now()}, cancel, make(chan struct{}), nil}
	s.jobs.running = append(s.jobs.running, j)
	s.mu.Unlock()
	ctx = context.WithValue(ctx, jobKey{}, j.ID)
	_, _ = fmt.Fprintf(s.outW, "[%d] started: %s\n", j.ID, line)
	go func() {
		defer cancel(nil)
		j.err = s.guard(line, func() error { return s.host.Run(ctx, line) })
		s.mu.Lock()
		s.jobs.running = slices.DeleteFunc(s.jobs.running, func(other *job) bool { return other == j })
		s.mu.Unlock()
		switch {
		case j.err == nil:
			_, _ = fmt.Fprintf(s.outW, "[%d] done: %s\n", j.ID, line)
		case errors.Is(context.Cause(ctx), ErrStopped):
			_, _ = fmt.Fprintf(s.outW, "[%d] stopped: %s\n", j.ID, line)
		default:
			s.report(fmt.Errorf("[%d] %s: %w", j.ID, line, j.err))
		}
		close(j.done)
	}()
	return nil
}

// Jobs returns the jobs that run, in the order of their IDs.
func (s *Shell) Jobs() []Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Job, len(s.jobs.running))
	for i, j := range s.jobs.running {
		list[i] = j.Job
	}
	return list
}

// StopJob ends a job's context, with the cause ErrStopped; it does not wait for
// the job.
func (s *Shell) StopJob(id int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs.running {
		if j.ID == id {
			j.cancel(ErrStopped)
			return nil
		}
	}
	return fmt.Errorf("job %d: none of that number is running", id)
}

// WaitJobs waits for the jobs that run now, as long as the context lets it, and
// returns the error of the first that failed, unless it was stopped.
func (s *Shell) WaitJobs(ctx context.Context) error {
	self, isJob := JobOf(ctx)
	var failed error
	for _, j := range s.running() {
		if isJob && j.ID == self {
			continue
		}
		select {
		case <-j.done:
		case <-ctx.Done():
			return fmt.Errorf("job %d goes on: %w", j.ID, context.Cause(ctx))
		}
		if failed == nil && j.err != nil && !errors.Is(j.err, context.Canceled) {
			failed = fmt.Errorf("[%d] %s: %w", j.ID, j.Line, j.err)
		}
	}
	return failed
}

func (s *Shell) running() []*job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.jobs.running)
}

// stopJobs ends all jobs and waits for them, and names those that go on.
func (s *Shell) stopJobs() {
	running := s.running()
	for _, j := range running {
		j.cancel(ErrStopped)
	}
	deadline := time.NewTimer(jobsGrace)
	defer deadline.Stop()
	for i, j := range running {
		select {
		case <-j.done:
		case <-deadline.C:
			var names []string
			for _, j := range running[i:] {
				names = append(names, fmt.Sprintf("[%d] %s", j.ID, j.Line))
			}
			s.report(fmt.Errorf("jobs that have not ended %s after they were stopped: %s", jobsGrace, strings.Join(names, ", ")))
			return
		}
	}
}
