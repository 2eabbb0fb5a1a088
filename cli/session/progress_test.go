package session

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := &Progress{w: &out, now: func() time.Time { return now }, terminal: func() int { return 0 }}
	p.Begin("all-reduce %s", "16M")
	p.Step("%d/20", 1)
	now = now.Add(time.Second)
	p.Step("%d/20", 2)
	if out.Len() > 0 {
		t.Fatalf("before two seconds: %q", out.String())
	}
	now = now.Add(time.Second)
	p.Step("%d/20", 12)
	p.Step("%d/20", 13) // too soon
	now = now.Add(time.Second)
	p.Step("%d/9", 3)
	p.End()
	p.End()
	want := "\rall-reduce 16M: 12/20\rall-reduce 16M: 3/9  \r" + strings.Repeat(" ", 21+echoRoom) + "\r"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A line that a terminal breaks could not be overwritten.
func TestProgressFitsTheTerminal(t *testing.T) {
	var out bytes.Buffer
	columns, now := 30, time.Unix(0, 0)
	p := &Progress{w: &out, now: func() time.Time { return now }, terminal: func() int { return columns }}
	p.Begin("all-reduce 16M rendezvous-write")
	now = now.Add(progressAfter)
	p.Step("%d/%d", 12345678, 12345678)
	columns = 20 // made narrower
	now = now.Add(progressEvery)
	p.Step("%d", 1)
	p.End()
	shown := strings.Split(out.String(), "\r")
	if shown[1] != "all-reduce 16M rendezvous"[:25] || shown[2] != "all-reduce 16M " {
		t.Errorf("got %q", shown)
	}
	if last := shown[len(shown)-2]; last != strings.Repeat(" ", 15+echoRoom) {
		t.Errorf("cleared with %q: expected all that the terminal has but its last column", last)
	}
}

func TestNoProgressOffATerminal(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out)
	p.now = func() time.Time { return time.Unix(1<<40, 0) }
	p.Begin("x")
	p.Step("y")
	p.End()
	if out.Len() > 0 {
		t.Errorf("wrote %q", out.String())
	}
	var none *Progress
	none.Begin("x")
	none.Step("y")
	none.End()
	none.Clock("x")()
}

func TestProgressClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &Progress{w: &out, now: time.Now, terminal: func() int { return 0 }}
		end := p.Clock("connecting")
		time.Sleep(5 * time.Second)
		end()
		end() // as a deferred call may
		if got := out.String(); !regexp.MustCompile(`^\rconnecting: 2s`).MatchString(got) || !strings.HasSuffix(got, " \r") {
			t.Errorf("got %q", got)
		}
	})
}
