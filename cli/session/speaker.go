package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ringcli/cli/exit"
	"ringcli/ring/bootstrap"
)

// SpeakAfter is how long a wait for other ranks lasts before people are told; tests have
// another.
var SpeakAfter = time.Second

const (
	// sayEvery is the pause between two lines of standard error about waits, askEvery
	// that between two questions to the awaited ranks where the line is overwritten.
	sayEvery, askEvery = 10 * time.Second, 2 * time.Second
)

// speaker tells whom the process waits for, and since when.
type speaker struct {
	mu       sync.Mutex // held while it is spoken
	progress *Progress  // of whoever speaks now
	said     time.Time  // when a line was written
	asked    time.Time  // when Why was asked, of the wait since
	since    time.Time
	why      string
}

// Speak tells people whom this process waits for until the returned function is called:
// after a second in the progress line, where there is a terminal, else in lines on
// standard error. A line in the background has no place on a terminal.
func (s *Session) Speak() (end func()) {
	p := s.speaker
	if s.Interactive && s.Progress == nil || !p.mu.TryLock() {
		return func() {}
	}
	p.progress = s.Progress
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(min(progressEvery, SpeakAfter))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				p.look(ctx, s, now)
			}
		}
	}()
	return sync.OnceFunc(func() {
		cancel()
		<-ended
		p.hush()
		p.mu.Unlock()
	})
}

// look tells of the wait that goes on, if one has for long enough.
func (p *speaker) look(ctx context.Context, s *Session, now time.Time) {
	w, ok := s.Waits.Now()
	if !ok || now.Sub(w.Since) < SpeakAfter {
		p.hush()
		return
	}
	onTerminal := p.progress != nil && p.progress.w != nil
	if !onTerminal && (now.Sub(p.said) < sayEvery || s.SpeaksToParent() && !w.For(0)) {
		return
	}
	if !onTerminal || w.Since != p.since || now.Sub(p.asked) > askEvery {
		p.why, p.since, p.asked = w.Why(ctx), w.Since, now
		if still, ok := s.Waits.Now(); !ok || still.Since != w.Since || ctx.Err() != nil {
			return // it came meanwhile
		}
	}
	so := bootstrap.Ago(time.Since(w.Since))
	if onTerminal { // which is narrow, and has the command
		p.progress.Wait(fmt.Sprintf("waiting %s for %s: %s", so, w.Who(), p.why))
		return
	}
	p.said = now
	_, _ = fmt.Fprintf(s.Stderr, "waiting %s for %s: %s\n", so, w, p.why)
}

// hush takes the line back.
func (p *speaker) hush() {
	if p.progress != nil && p.progress.w != nil {
		p.progress.Wait("")
	}
}

// Interrupted is the interruption of what had waited for long for other ranks, which it
// says; nil if Ctrl-C ended something else.
func (s *Session) Interrupted() error {
	w, ok := s.Waits.GivenUp()
	if !ok || time.Since(w.Since) < SpeakAfter {
		return nil
	}
	return fmt.Errorf("%w; it had waited %s for %s", exit.ErrInterrupted, bootstrap.Ago(time.Since(w.Since)), w)
}

// Does has other ranks that wait for this one told what it does: a command, or, "", that
// it is idle.
func (s *Session) Does(command string) {
	if s.Ring == nil {
		return
	}
	text := "in " + command
	switch {
	case command != "":
	case s.Follows:
		text = "idle, it follows rank 0"
	case s.Interactive && s.Shell != nil:
		text = "idle at its prompt"
	default:
		text = "between two commands"
	}
	s.Ring.SetActivity(text)
}
