package repl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// JobState is how far a job is.
type JobState string

// The states of a job.
const (
	JobWaits   JobState = "waits" // for its turn
	JobRuns    JobState = "runs"
	JobDone    JobState = "done"
	JobFailed  JobState = "failed"
	JobStopped JobState = "stopped" // as it was asked to, or since its context was ended
)

// Job is a command in the background.
type Job struct {
	ID    int
	Line  string
	Since time.Time
	State JobState
	Err   error // what it ended with; nil while it is under way
	Value any   // what it returned
}

// Ended tells whether it is over.
func (j Job) Ended() bool { return j.State != JobWaits && j.State != JobRuns }

// Task is what a job does.
type Task struct {
	Line string
	// Run runs it, on a goroutine of its own, under a context that JobOf knows.
	Run func(ctx context.Context) (value any, err error)
	// Waits tells whether it waits for its turn; nil: it never does.
	Waits func() bool
	// Stop asks it to end by itself, and tells whether it will, within Grace; nil: it cannot.
	Stop  func() bool
	Grace time.Duration
	// Tell is called when the job has begun, before Start returns, and when it has ended,
	// before anybody who waits for it goes on.
	Tell func(Job)
}

// job is a Job. The lock of Jobs guards its fields but those that never change.
type job struct {
	Job
	task   Task // never changes, as the following
	cancel context.CancelCauseFunc
	done   chan struct{} // closed once its end was told
	told   bool          // its failure was returned by Wait or Failures
}

// jobsKept is how many jobs that have ended can be waited for yet.
const jobsKept = 100

// Jobs are the commands in the background. All methods may be called from any goroutine.
type Jobs struct {
	mu   sync.Mutex // guards what follows
	root context.Context
	list []*job // by ID, of those that have ended the last jobsKept
	last int    // the last ID that was given
}

// NewJobs returns Jobs whose contexts end with ctx.
func NewJobs(ctx context.Context) *Jobs { return &Jobs{root: ctx} }

type jobKey struct{}

// JobOf returns the ID of the job that a command runs as.
func JobOf(ctx context.Context) (id int, ok bool) {
	id, ok = ctx.Value(jobKey{}).(int)
	return id, ok
}

// Start begins a job. Of ctx it has the values alone. The job's number is in the context
// that Run gets, and what Tell is told.
func (l *Jobs) Start(ctx context.Context, t Task) {
	l.mu.Lock()
	l.last++
	ctx, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), jobKey{}, l.last))
	root := l.root
	j := &job{Job: Job{ID: l.last, Line: t.Line, Since: time.Now(), State: JobRuns}, task: t, cancel: cancel, done: make(chan struct{})}
	for i, ended := 0, len(l.list)-jobsKept; i < len(l.list) && ended >= 0; {
		if l.list[i].Ended() {
			l.list = slices.Delete(l.list, i, i+1)
			ended--
		} else {
			i++
		}
	}
	l.list = append(l.list, j)
	l.mu.Unlock()
	unroot := context.AfterFunc(root, func() { cancel(context.Cause(root)) })
	t.Tell(l.look(j))
	go func() {
		defer close(j.done)
		defer cancel(nil)
		defer unroot()
		var value any
		err := guard(t.Line, func() (err error) {
			value, err = t.Run(ctx)
			return err
		})
		state := JobDone
		switch {
		case errors.Is(err, ErrStopped), err != nil && ctx.Err() != nil:
			state = JobStopped
		case err != nil:
			state = JobFailed
		}
		l.mu.Lock()
		j.State, j.Err, j.Value = state, err, value
		l.mu.Unlock()
		t.Tell(l.look(j))
	}()
}

// look is a job as it stands.
func (l *Jobs) look(j *job) Job {
	l.mu.Lock()
	now := j.Job
	l.mu.Unlock()
	if now.State == JobRuns && j.task.Waits != nil && j.task.Waits() {
		now.State = JobWaits
	}
	return now
}

// List returns the jobs that are under way, in the order of their IDs.
func (l *Jobs) List() (list []Job) {
	for _, j := range l.underWay() {
		list = append(list, l.look(j))
	}
	return list
}

func (l *Jobs) underWay() (list []*job) {
	for _, j := range l.all() {
		if !j.over() {
			list = append(list, j)
		}
	}
	return list
}

// over tells whether a job has ended and that was told.
func (j *job) over() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

func (l *Jobs) all() []*job {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

func (l *Jobs) find(id int) (*job, error) {
	for _, j := range l.all() {
		if j.ID == id {
			return j, nil
		}
	}
	return nil, fmt.Errorf("job %d: there is none of that number: `jobs` lists them", id)
}

// Wait waits for a job, or for all that are under way if id is 0, as long as ctx lets it,
// and returns those as they have ended: all others that have failed since they were last
// returned come before, if id is 0. The error is that they go on, or that there is none.
func (l *Jobs) Wait(ctx context.Context, id int) (ended []Job, err error) {
	wanted := l.all()
	if id != 0 {
		j, err := l.find(id)
		if err != nil {
			return nil, err
		}
		wanted = []*job{j}
	}
	self, isJob := JobOf(ctx)
	for _, j := range wanted {
		if isJob && j.ID == self {
			continue
		}
		over := j.over()
		if !over {
			select {
			case <-j.done:
			case <-ctx.Done():
				return nil, fmt.Errorf("job %d goes on: %w", j.ID, context.Cause(ctx))
			}
		}
		l.mu.Lock()
		if id != 0 || !over || j.State == JobFailed && !j.told {
			j.told = true
			ended = append(ended, j.Job)
		}
		l.mu.Unlock()
	}
	return ended, nil
}

// Cancel ends a job's context, with the cause ErrStopped; it does not wait for the job. It
// tells whether the job had ended.
func (l *Jobs) Cancel(id int) (ended bool, err error) {
	j, err := l.find(id)
	if err != nil {
		return false, err
	}
	ended = l.look(j).Ended() // before it, or it might have ended by that
	j.cancel(ErrStopped)
	return ended, nil
}

// Stop asks a job to end by itself, and cancels one that cannot. It tells whether the job
// had ended.
func (l *Jobs) Stop(id int) (ended bool, err error) {
	j, err := l.find(id)
	if err != nil {
		return false, err
	}
	if now := l.look(j); now.Ended() {
		return true, nil
	}
	if j.task.Stop == nil || !j.task.Stop() {
		j.cancel(ErrStopped)
	}
	return false, nil
}

// StopAll ends all jobs and waits for them. Its error names those that go on.
func (l *Jobs) StopAll() error {
	running := l.underWay()
	l.mu.Lock()
	root := l.root
	l.mu.Unlock()
	var grace time.Duration
	for _, j := range slices.Backward(running) { // one that waits does not begin meanwhile
		if root.Err() == nil && j.task.Stop != nil && j.task.Stop() {
			grace = max(grace, j.task.Grace)
		} else {
			j.cancel(ErrStopped)
		}
	}
	left := within(running, grace)
	for _, j := range left {
		j.cancel(ErrStopped)
	}
	left = within(left, jobsGrace)
	if len(left) == 0 {
		return nil
	}
	var names []string
	for _, j := range left {
		names = append(names, fmt.Sprintf("[%d] %s", j.ID, j.Line))
	}
	return fmt.Errorf("jobs that have not ended %s after they were stopped: %s", jobsGrace, strings.Join(names, ", "))
}

// within waits for jobs and returns those that have not ended by then.
func within(jobs []*job, within time.Duration) (left []*job) {
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
