package repl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestJobs(t *testing.T) {
	p := newTypist(t, Options{}, true)
	ended := p.start(t)
	for _, line := range []string{"echo a &", "wait", "sleep 600 &", "error &", "sleep 601&"} {
		p.editor.typed <- entry{line, nil}
	}
	eventually(t, "jobs 2 and 4 alone run", func() bool {
		jobs := p.Jobs().List()
		return len(jobs) == 2 && jobs[0].ID == 2 && jobs[0].Line == "sleep 600" && !jobs[0].Since.IsZero() && jobs[0].State == JobRuns && jobs[1].ID == 4
	})
	if over, err := p.Jobs().Cancel(3); err != nil || !over {
		t.Errorf("job 3 has ended: %v, %v", over, err)
	}
	if over, err := p.Jobs().Stop(3); err != nil || !over {
		t.Errorf("job 3 has ended: %v, %v", over, err)
	}
	if over, err := p.Jobs().Cancel(2); err != nil || over {
		t.Errorf("job 2 is cancelled: %v, %v", over, err)
	}
	for _, act := range []func(int) (bool, error){p.Jobs().Cancel, p.Jobs().Stop} {
		if _, err := act(7); err == nil || !strings.Contains(err.Error(), "job 7") {
			t.Errorf("there is no job 7: %v", err)
		}
	}
	eventually(t, "job 2 ends", func() bool { return len(p.Jobs().List()) == 1 })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, id := range []int{0, 4} {
		if _, err := p.Jobs().Wait(gone, id); err == nil || !strings.Contains(err.Error(), "job 4 goes on") {
			t.Errorf("waited for job 4: %v", err)
		}
	}
	close(p.editor.typed) // the end stops job 4
	out, errs := p.finish(t, ended)
	out += p.editor.shownAbove()
	for _, want := range []string{"[1] runs: echo a\n", "[1] done: echo a\n", "[2] stopped: sleep 600\n", "[4] stopped: sleep 601\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
	if len(errs) != 1 || errs[0].Error() != "[3] this failed" {
		t.Errorf("reported %v", errs)
	}
}

// Wait returns what each job has ended with: of a job that is named always, of all once.
func TestWaitForJobs(t *testing.T) {
	l := NewJobs(t.Context())
	begin := func(line string, run func(context.Context) (any, error)) {
		l.Start(t.Context(), Task{Line: line, Run: run, Tell: func(Job) {}})
	}
	waited := func(id int) string {
		t.Helper()
		ended, err := l.Wait(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, j := range ended {
			text = append(text, fmt.Sprintf("%d %s %v %v", j.ID, j.State, j.Value, j.Err))
		}
		return strings.Join(text, " ")
	}
	over := make(chan struct{})
	begin("good", func(context.Context) (any, error) { <-over; return 7, nil })
	begin("bad", func(context.Context) (any, error) { return nil, errors.New("no") })
	begin("self", func(ctx context.Context) (any, error) {
		if id, is := JobOf(ctx); !is || id != 3 {
			t.Errorf("job 3 is job %d, %v", id, is)
		}
		close(over)
		_, err := l.Wait(ctx, 3) // itself, which it cannot wait for
		return nil, err
	})
	if got := waited(1); got != "1 done 7 <nil>" {
		t.Errorf("job 1: %s", got)
	}
	if got := waited(3); got != "3 done <nil> <nil>" {
		t.Errorf("job 3: %s", got)
	}
	if got := waited(0); got != "2 failed <nil> no" {
		t.Errorf("all: %s", got)
	}
	if got := waited(0) + waited(1) + waited(2); got != "1 done 7 <nil>2 failed <nil> no" {
		t.Errorf("again: %s", got)
	}
	if _, err := l.Wait(t.Context(), 4); err == nil {
		t.Error("waited for job 4, which was not started")
	}
	for range jobsKept {
		begin("more", func(context.Context) (any, error) { return nil, nil })
	}
	if got := waited(0); strings.Contains(got, "failed") {
		t.Errorf("more: %s", got)
	}
	if _, err := l.Wait(t.Context(), 1); err == nil {
		t.Errorf("job 1 is remembered after %d others", jobsKept)
	}
}

// At the end jobs are asked to stop, the last first, and cancelled if they cannot.
func TestStopAll(t *testing.T) {
	l := NewJobs(t.Context())
	var mu sync.Mutex
	var asked []int
	for id := 1; id <= 3; id++ {
		stop := make(chan struct{})
		task := Task{Line: "work", Tell: func(Job) {}, Waits: func() bool { return id > 1 }, Run: func(ctx context.Context) (any, error) {
			select {
			case <-stop:
				return nil, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}}
		if id != 2 {
			task.Stop = func() bool {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, id)
				close(stop)
				return true
			}
		}
		l.Start(t.Context(), task)
	}
	var states []JobState
	for _, j := range l.List() {
		states = append(states, j.State)
	}
	if !slices.Equal(states, []JobState{JobRuns, JobWaits, JobWaits}) {
		t.Errorf("states %v", states)
	}
	if err := l.StopAll(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(asked, []int{3, 1}) {
		t.Errorf("asked %v", asked)
	}
	if ended, err := l.Wait(t.Context(), 2); err != nil || ended[0].State != JobStopped || !errors.Is(ended[0].Err, ErrStopped) {
		t.Errorf("%v, %v: expected that it was stopped", ended, err)
	}
}

// Jobs that nobody waited for are a script's: its end waits for them, and fails with them.
func TestAScriptWaitsForItsJobs(t *testing.T) {
	p := newTypist(t, Options{}, false)
	if out, _ := p.run(t, "sleep 0.05 &", "echo on"); !strings.Contains(out, "[1] done") {
		t.Errorf("printed %q", out)
	}
	p = newTypist(t, Options{}, false)
	if _, errs := p.run(t, "error &"); len(errs) != 1 || p.LastError() == nil {
		t.Errorf("reported %v; the last error is %v", errs, p.LastError())
	}
	p = newTypist(t, Options{}, false)
	if out, _ := p.run(t, "sleep 600 &", "error"); !strings.Contains(out, "[1] stopped") || p.LastError() == nil {
		t.Errorf("printed %q", out)
	}
	p = newTypist(t, Options{}, false)
	p.editor.typed <- entry{"sleep 600 &", nil}
	close(p.editor.typed)
	ended := p.start(t)
	eventually(t, "the end waits", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.front != nil && p.front.line == "wait" })
	p.interrupt()
	if out, _ := p.finish(t, ended); !strings.Contains(out, "[1] stopped") || !errors.Is(p.LastError(), ErrInterrupted) {
		t.Errorf("printed %q; the last error is %v", out, p.LastError())
	}
}
