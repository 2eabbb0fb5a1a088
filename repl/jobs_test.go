package repl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestJobs(t *testing.T) {
	p := newTypist(t, Options{}, true)
	ended := p.start(t)
	for _, line := range []string{"echo a &", "wait", "sleep 600 &", "error &", "sleep 601&"} {
		p.editor.typed <- entry{line, nil}
	}
	eventually(t, "jobs 2 and 4 alone run", func() bool {
		jobs := p.Jobs()
		return len(jobs) == 2 && jobs[0].ID == 2 && jobs[0].Line == "sleep 600" && !jobs[0].Since.IsZero() && jobs[1].ID == 4
	})
	if err := p.StopJob(3); err == nil {
		t.Error("a job that has ended was stopped")
	}
	if err := p.StopJob(2); err != nil {
		t.Error(err)
	}
	eventually(t, "job 2 ends", func() bool { return len(p.Jobs()) == 1 })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.WaitJobs(gone); err == nil || !strings.Contains(err.Error(), "job 4") {
		t.Errorf("waited for job 4: %v", err)
	}
	close(p.editor.typed) // the end stops job 4
	out, errs := p.finish(t, ended)
	out += p.editor.shownAbove()
	for _, want := range []string{"[1] started: echo a\n", "[1] done: echo a\n", "[2] stopped: sleep 600\n", "[4] stopped: sleep 601\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
	if len(errs) != 1 || errs[0].Error() != "[3] error: this failed" {
		t.Errorf("reported %v", errs)
	}
}

func TestWaitTellsFailure(t *testing.T) {
	p := newTypist(t, Options{}, true)
	p.Shell.host = runner(func(ctx context.Context, line string) error {
		if id, ok := JobOf(ctx); ok != strings.HasPrefix(line, "job") || ok && id > 3 {
			t.Errorf("%q runs as job %d, %v", line, id, ok)
		}
		switch line {
		case "wait":
			return p.WaitJobs(ctx)
		case "job good":
			return nil
		}
		return errors.New("no")
	})
	_, errs := p.run(t, "job good &", "job bad &", "job good &", "wait", "wait", "&")
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	want := []string{"[2] job bad: no", "[2] job bad: no", "there is nothing to run in the background: expected a command before &"}
	if !slices.Equal(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}

	p = newTypist(t, Options{}, false)
	p.run(t, "error &", "sleep 0.01")
	eventually(t, "the failure of a job that nobody waited for is the script's", func() bool {
		return p.LastError() != nil
	})
}

// runner is a host that only runs.
type runner func(ctx context.Context, line string) error

func (r runner) Run(ctx context.Context, line string) error { return r(ctx, line) }
func (r runner) Prompt() (string, Mood)                     { return ">", Plain }
func (r runner) Complete(string, int) ([]Candidate, int)    { return nil, 0 }
func (r runner) Repeatable(string) bool                     { return false }
func (r runner) Secret(string) bool                         { return false }
