package session

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ringcli/cli/render"
	"ringcli/ring/bootstrap/calls"
)

const (
	// sayEvery is the pause between two lines of standard error about waits, askEvery
	// that between two questions to the awaited ranks where the line is overwritten.
	sayEvery, askEvery = 10 * time.Second, 2 * time.Second
)

// speaker tells whom the process waits for, and since when.
type speaker struct {
	awaits atomic.Pointer[awaited] // what Await was told; nil: only what Waits have
	left   atomic.Pointer[awaited] // of those, what a cancelled context has ended
	expect atomic.Int64            // how long waits for other ranks last though all is well

	mu       sync.Mutex // held while it is spoken
	progress *Progress  // of whoever speaks now
	said     time.Time  // when a line was written
	asked    time.Time  // when Why was asked, of the wait since
	since    time.Time
	why      string
}

// awaited is what a command waits for that is no rank of a ring.
type awaited struct {
	what  string
	since time.Time
}

// Await tells people, as Speak does, that this process waits for something since then,
// such as "a client on TCP port 1", until the returned function is called.
func (s *Session) Await(ctx context.Context, since time.Time, what string) (end func()) {
	if s.inBackground {
		return func() {}
	}
	p, a := s.speaker, &awaited{what, since}
	p.awaits.Store(a)
	hush := s.Speak()
	return sync.OnceFunc(func() {
		hush()
		p.awaits.CompareAndSwap(a, nil)
		if ctx.Err() != nil {
			p.left.Store(a)
		}
	})
}

// Expect says that waits for other ranks last so long though all is well: until the returned
// function is called they are told of when they last longer.
func (s *Session) Expect(within time.Duration) (end func()) {
	s.speaker.expect.Store(int64(within))
	return func() { s.speaker.expect.Store(0) }
}

// Speak tells people whom this process waits for until the returned function is called:
// after a second in the progress line, where there is a terminal, else in lines on
// standard error. A line in the background has no place on a terminal.
func (s *Session) Speak() (end func()) {
	p := s.speaker
	if s.inBackground || !p.mu.TryLock() {
		return func() {}
	}
	p.progress = s.Progress
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(min(progressEvery, s.SpeakAfter))
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
	onTerminal := p.progress != nil && p.progress.w != nil
	if a := p.awaits.Load(); a != nil && now.Sub(a.since) >= s.SpeakAfter {
		if line := fmt.Sprintf("waiting %s for %s", calls.Ago(time.Since(a.since)), a.what); onTerminal {
			p.progress.Wait(line)
		} else if now.Sub(p.said) >= sayEvery {
			p.said = now
			_, _ = fmt.Fprintln(s.Stderr, line)
		}
		return
	}
	w, ok := s.Waits.Now()
	if !ok || now.Sub(w.Since) < s.SpeakAfter+time.Duration(p.expect.Load()) {
		p.hush()
		return
	}
	// Of ranks that share a terminal rank 0 tells, and the next one of what rank 0 holds up.
	if !onTerminal && (now.Sub(p.said) < sayEvery || s.SpeaksToParent() && (s.Follows || s.Parent.rank > 1 || !w.For(0))) {
		return
	}
	if !onTerminal || w.Since != p.since || now.Sub(p.asked) > askEvery {
		p.why, p.since, p.asked = w.Why(ctx), w.Since, now
		if still, ok := s.Waits.Now(); !ok || still.Since != w.Since || ctx.Err() != nil {
			return // it came meanwhile
		}
	}
	so := calls.Ago(time.Since(w.Since))
	if onTerminal { // which is narrow, and has the command
		p.progress.Wait(fmt.Sprintf("waiting %s for %s: %s", so, w.Who(), p.why))
		return
	}
	p.said = now
	_, _ = fmt.Fprintf(s.Stderr, "waiting %s for %s: %s\n", so, w, render.Tame(p.why))
}

// hush takes the line back.
func (p *speaker) hush() {
	if p.progress != nil && p.progress.w != nil {
		p.progress.Wait("")
	}
}

// Interrupted is an interruption, cause, of what had waited for long, for other ranks or as
// Await was told, which it says; nil if something else was ended.
func (s *Session) Interrupted(cause error) error {
	if a := s.speaker.left.Swap(nil); a != nil && time.Since(a.since) >= s.SpeakAfter {
		return fmt.Errorf("%w; it had waited %s for %s", cause, calls.Ago(time.Since(a.since)), a.what)
	}
	w, ok := s.Waits.GivenUp()
	if !ok || time.Since(w.Since) < s.SpeakAfter {
		return nil
	}
	return fmt.Errorf("%w; it had waited %s for %s", cause, calls.Ago(time.Since(w.Since)), w)
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
	s.Ring.Control().SetActivity(text)
}
