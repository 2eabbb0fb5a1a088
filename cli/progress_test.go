package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := &Progress{w: &out, now: func() time.Time { return now }}
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
	want := "\rall-reduce 16M: 12/20\rall-reduce 16M: 3/9  \r" + strings.Repeat(" ", 19) + "\r"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNoProgressOffATerminal(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
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
	var out bytes.Buffer
	start := time.Now()
	p := &Progress{w: &out, now: func() time.Time { return start.Add(10 * time.Since(start)) }}
	end := p.Clock("connecting")
	time.Sleep(500 * time.Millisecond) // five seconds of its own
	end()
	if got := out.String(); !regexp.MustCompile(`^\rconnecting: \ds`).MatchString(got) || !strings.HasSuffix(got, " \r") {
		t.Errorf("got %q", got)
	}
}
