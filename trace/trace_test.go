//go:build !notrace

package trace

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// step is how the layers trace: the neighbour is no constant.
//
//go:noinline
func step(neighbour int) {
	if Enabled(Ring) {
		Debug(Ring, "connected to neighbour", slog.Int("neighbour", neighbour), slog.String("device", "soft:lo"))
	}
}

func TestOffCostsNoAllocation(t *testing.T) {
	restore(t)
	if err := Set("debug,ring=info,wire=off"); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { step(3) }); n != 0 {
		t.Errorf("%v allocations with the guard, want 0", n)
	}
	if n := testing.AllocsPerRun(1000, func() {
		Debug(Ring, "no guard", slog.Int("neighbour", 3))
		Error(Wire, "no guard", slog.Int("psn", 3))
	}); n != 0 {
		t.Errorf("%v allocations without the guard, want 0", n)
	}
}

func BenchmarkOff(b *testing.B) {
	restore(b)
	if err := Set("ring=warn"); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		if Enabled(Ring) {
			Debug(Ring, "connected to neighbour", slog.Int("neighbour", i), slog.String("device", "soft:lo"))
		}
	}
}

func BenchmarkOn(b *testing.B) {
	for _, format := range []Format{Text, JSON} {
		b.Run(string(format), func(b *testing.B) {
			restore(b)
			if err := Set("ring=debug"); err != nil {
				b.Fatal(err)
			}
			if err := SetOutput(io.Discard, format); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; i < b.N; i++ {
				step(i)
			}
		})
	}
}

// lineChecker fails if a Write is not exactly one line, or two overlap.
type lineChecker struct {
	t    *testing.T
	busy sync.Mutex
	n    int
}

func (l *lineChecker) Write(b []byte) (int, error) {
	if !l.busy.TryLock() {
		l.t.Error("two writes at a time")
		l.busy.Lock()
	}
	defer l.busy.Unlock()
	if bytes.Count(b, []byte("\n")) != 1 || !bytes.HasSuffix(b, []byte("\n")) {
		l.t.Errorf("not a line: %q", b)
	}
	l.n++
	return len(b), nil
}

// TestSwitchedWhileRunning changes levels and rank under goroutines that
// trace, and sees the change take effect.
func TestSwitchedWhileRunning(t *testing.T) {
	for _, format := range []Format{Text, JSON} {
		restore(t)
		w := &lineChecker{t: t}
		if err := SetOutput(w, format); err != nil {
			t.Fatal(err)
		}
		var tracers sync.WaitGroup
		done := make(chan struct{})
		for g := range 4 {
			tracers.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						step(g)
						Info(Wire, "packet", slog.Int("psn", g))
					}
				}
			})
		}
		for i := range 20 {
			spec := "off"
			if i%2 == 0 {
				spec = "wire=debug,ring=debug"
			}
			if err := Set(spec); err != nil {
				t.Error(err)
			}
			SetRank(i)
			time.Sleep(100 * time.Microsecond)
		}
		if err := Set("off"); err != nil {
			t.Error(err)
		}
		close(done)
		tracers.Wait()
		before := w.n
		if before == 0 {
			t.Errorf("%s: nothing was written while the levels were on", format)
		}
		step(1)
		if w.n != before {
			t.Errorf("%s: written while off", format)
		}
		if err := Set("ring=debug"); err != nil {
			t.Error(err)
		}
		step(1)
		if w.n != before+1 {
			t.Errorf("%s: not written when on again", format)
		}
	}
}

// TestOutputSwitchedWhileRunning moves the output between writers: every event
// lands in one of them, whole.
func TestOutputSwitchedWhileRunning(t *testing.T) {
	restore(t)
	if err := Set("ring=debug"); err != nil {
		t.Fatal(err)
	}
	writers := [2]*lineChecker{{t: t}, {t: t}}
	if err := SetOutput(writers[0], Text); err != nil {
		t.Fatal(err)
	}
	const goroutines, events = 4, 500
	var tracers sync.WaitGroup
	for g := range goroutines {
		tracers.Go(func() {
			for range events {
				step(g)
			}
		})
	}
	for i := range 50 {
		if err := SetOutput(writers[i%2], []Format{JSON, Text}[i%2]); err != nil {
			t.Error(err)
		}
	}
	tracers.Wait()
	if got := writers[0].n + writers[1].n; got != goroutines*events {
		t.Errorf("%d events written, want %d", got, goroutines*events)
	}
}

func TestFailingWriterIsHarmless(t *testing.T) {
	restore(t)
	r, w := io.Pipe()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := SetOutput(w, Text); err != nil {
		t.Fatal(err)
	}
	Error(Ring, strings.Repeat("x", 10000))
}
