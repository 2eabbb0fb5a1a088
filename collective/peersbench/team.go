//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What an order is about; c/*.c have the same letters.
const (
	orderCheck   = 'c'
	orderMeasure = 'm'
	orderFloor   = 'f'
	orderLine    = 'l'
)

const (
	// orderLimit is far longer than a measurement, which takes tens of milliseconds;
	// crowdedLimit is for ranks that wait for a CPU, and for each other meanwhile.
	orderLimit, crowdedLimit = 20 * time.Second, time.Minute
	// startLimits is how many of them a start may take: mpirun takes a second, on a busy
	// machine some.
	startLimits = 3
	// endGrace is how long processes may take to end before the next means is used.
	endGrace = 2 * time.Second
)

// team is a contender's processes. They are up and block in read(2) until they get an
// order. It belongs to one goroutine.
type team struct {
	contender
	about   []string // what the ranks said of themselves: PID, CPUs, text
	dir     string
	files   []*os.File
	limit   time.Duration // for an answer
	orders  []*os.File
	answers []*bufio.Reader
	started []int         // processes
	gone    chan struct{} // closed when one of them has ended
	ended   sync.WaitGroup
	once    sync.Once // of gone

	mu      sync.Mutex
	printed bytes.Buffer // by all; guarded by mu
}

// startTeam starts the processes and waits for what they say of themselves.
func startTeam(ctx context.Context, c contender, s site) (t *team, err error) {
	made := &team{contender: c, dir: s.dir, limit: s.patience(), gone: make(chan struct{})}
	defer func() {
		if err != nil {
			made.stop()
			err = fmt.Errorf("%s does not start: %w", c.name, err)
		}
	}()
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, err
	}
	members := s.ranks
	if c.role == roleLimit {
		members = 1
	}
	for r := range members {
		if err := made.openPipes(r); err != nil {
			return nil, err
		}
	}
	for _, j := range c.start(s) {
		if err := made.launch(j); err != nil {
			return nil, err
		}
	}
	made.about, err = made.hear(ctx, startLimits*made.limit, "its processes")
	return made, err
}

// openPipes makes a rank's two FIFOs. Both are opened for reading and writing, which
// waits for nobody: that a process has ended shows by itself.
func (t *team) openPipes(rank int) error {
	for _, which := range []string{"orders", "answers"} {
		path := filepath.Join(t.dir, strconv.Itoa(rank)+"."+which)
		if err := unix.Mkfifo(path, 0o600); err != nil {
			return &os.PathError{Op: "mkfifo", Path: path, Err: err}
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		t.files = append(t.files, f)
		if which == "orders" {
			t.orders = append(t.orders, f)
		} else {
			t.answers = append(t.answers, bufio.NewReader(f))
		}
	}
	return nil
}

func (t *team) launch(j job) error {
	c := exec.Command(j.args[0], j.args[1:]...)
	c.Env = append(os.Environ(), j.env...)
	c.Stdout, c.Stderr = t, t
	// A group of its own: Ctrl-C is for us, who then end it in order.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.WaitDelay = time.Second // for descendants that keep its output open
	if err := c.Start(); err != nil {
		return err
	}
	t.started = append(t.started, c.Process.Pid)
	t.ended.Go(func() {
		_ = c.Wait() // what it said is in printed
		t.once.Do(func() { close(t.gone) })
		t.interrupt()
	})
	return nil
}

// Write takes what the processes print.
func (t *team) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.printed.Write(b)
}

// interrupt ends a read of answers.
func (t *team) interrupt() {
	for _, f := range t.files {
		_ = f.SetReadDeadline(time.Unix(1, 0)) // closed files read nothing
	}
}

// hear reads one line of each rank. what is awaited, for errors.
func (t *team) hear(ctx context.Context, limit time.Duration, what string) ([]string, error) {
	until := time.Now().Add(limit)
	for _, f := range t.files {
		if err := f.SetReadDeadline(until); err != nil {
			return nil, err
		}
	}
	defer context.AfterFunc(ctx, t.interrupt)()
	lines := make([]string, len(t.answers))
	for r, in := range t.answers {
		select {
		case <-t.gone:
			return nil, t.deathOf(r)
		default:
		}
		line, err := in.ReadString('\n')
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case time.Now().Before(until):
			return nil, t.deathOf(r)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, fmt.Errorf("no answer of rank %d after %s: waited for %s%s", r, limit, what, t.said())
		default:
			return nil, err
		}
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(line, "error "); ok {
			return nil, fmt.Errorf("%s: rank %d: %s", what, r, text)
		}
		lines[r] = line
	}
	return lines, nil
}

// deathOf is the error of a process that has ended. What ranks have said of theirs is told first.
func (t *team) deathOf(rank int) error {
	const soon = 50 * time.Millisecond
	for _, f := range t.files {
		_ = f.SetReadDeadline(time.Now().Add(soon)) // what is there is read
	}
	for r, in := range t.answers {
		line, _ := in.ReadString('\n')
		if text, ok := strings.CutPrefix(line, "error "); ok {
			return fmt.Errorf("rank %d: %s", r, strings.TrimSpace(text))
		}
	}
	return fmt.Errorf("a process has ended, while an answer of rank %d was awaited%s", rank, t.said())
}

// said is what the processes have printed, for an error.
func (t *team) said() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.printed.Len() == 0 {
		return ""
	}
	return "; printed: " + strings.Join(strings.Fields(tail(t.printed.Bytes())), " ")
}

// order has all ranks do something, and returns the greatest of the numbers that they
// answer.
func (t *team) order(ctx context.Context, what byte, c cell, inPlace bool, iters, warmup int) (float64, error) {
	flag := 0
	if inPlace {
		flag = 1
	}
	line := fmt.Sprintf("%c %c %d %d %d %d\n", what, c.letter(), c.count(), flag, iters, warmup)
	for _, f := range t.orders {
		if _, err := io.WriteString(f, line); err != nil {
			return 0, err
		}
	}
	answers, err := t.hear(ctx, t.limit, c.String())
	if err != nil {
		return 0, err
	}
	most := 0.0
	for r, text := range answers {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, fmt.Errorf("rank %d answered %q: expected a number", r, text)
		}
		most = max(most, v)
	}
	return most, nil
}

// measure returns the time of one iteration, in microseconds.
func (t *team) measure(ctx context.Context, c cell, inPlace bool, iters, warmup int) (float64, error) {
	what := t.contender.order
	if what == 0 {
		what = orderMeasure
	}
	ns, err := t.order(ctx, what, c, inPlace, iters, warmup)
	return ns / float64(iters) / 1e3, err
}

// family is all processes of the team, mpirun and its like included.
func (t *team) family() []int { return family(t.started, t.dir) }

// stop ends the team. Its orders end, so that whoever waits for one ends by itself; who
// does not is made to.
func (t *team) stop() {
	pids := t.family()
	for _, f := range t.files {
		_ = f.Close()
	}
	for until := time.Now().Add(endGrace); time.Now().Before(until) && slices.ContainsFunc(pids, alive); {
		time.Sleep(2 * time.Millisecond)
	}
	// What was started meanwhile is there as well.
	end(t.family())
	t.ended.Wait()
	_ = os.RemoveAll(t.dir) // run removes all that is left, and says if it cannot
}
