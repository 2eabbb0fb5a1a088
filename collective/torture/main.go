// Torture has rings of four ranks, each a process, work or idle while ranks are killed and
// stopped, and links are cut, flap and slow down, and looks at what comes of it: every
// survivor ends within its bound with exit code 2 and the verdict that names who is at
// fault, or goes on, where the fault passed; and nothing is left behind. Each case is in
// network and mount namespaces of its own, for which it needs root and ip(8).
//
// A case is made by the seed and its number. The log has a line for each that has ended;
// those are not run again.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

func main() {
	ringcli := flag.String("ringcli", "./ringcli", "the program")
	cases := flag.Int("cases", 1000, "how many cases")
	seed := flag.Uint64("seed", 1, "the seed of all cases")
	from := flag.Int("from", 0, "the first case")
	parallel := flag.Int("parallel", max(1, runtime.NumCPU()/2), "cases at a time")
	log := flag.String("log", "", "file to append a line to for each case that has ended, and to go on from")
	within := flag.Duration("within", 90*time.Minute, "how long to take new cases")
	only := flag.String("only", "", "run the cases of this kind alone: kill, stop, pause, cut, isolate, blip, flap or delay")
	keep := flag.String("keep", "torture", "folder for what the ranks of bad cases said")
	one := flag.String("one", "", "run the case -from in this process, with this folder for its files")
	flag.Parse()
	path, err := filepath.Abs(*ringcli)
	if err == nil && *one != "" {
		err = json.NewEncoder(os.Stdout).Encode(run(newPlan(*seed, *from), path, *one))
	} else if err == nil {
		err = torture(options{path, *cases, *seed, *from, *parallel, *log, *keep, *only, *within})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
}

type options struct {
	ringcli        string
	cases          int
	seed           uint64
	from, parallel int
	log, keep      string
	only           string // a kind
	within         time.Duration
}

func torture(o options) error {
	if os.Geteuid() != 0 {
		return errors.New("it needs root, for namespaces")
	}
	if _, err := os.Stat(o.ringcli); err != nil {
		return fmt.Errorf("%w: `make build` makes it", err)
	}
	done, err := finished(o)
	if err != nil {
		return err
	}
	var log *os.File
	if o.log != "" {
		if log, err = os.OpenFile(o.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
			return err
		}
		defer func() { _ = log.Close() }()
	}
	var mu sync.Mutex // guards all, and the streams
	all := done
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range o.parallel {
		workers.Go(func() {
			for n := range numbers {
				c := isolated(o, n)
				mu.Lock()
				all[n] = c
				if log != nil {
					line, _ := json.Marshal(c) // of what was JSON just now
					_, _ = log.Write(append(line, '\n'))
				}
				for _, b := range c.Bad {
					fmt.Printf("%s: %s\n", &c.plan, b)
				}
				if len(all)%50 == 0 {
					fmt.Printf("%d of %d cases\n", len(all), o.cases)
				}
				mu.Unlock()
			}
		})
	}
	for n, begun := o.from, time.Now(); n < o.from+o.cases && time.Since(begun) < o.within; n++ {
		mu.Lock()
		_, has := all[n]
		mu.Unlock()
		if !has && (o.only == "" || o.only == newPlan(o.seed, n).Kind) {
			numbers <- n
		}
	}
	close(numbers)
	workers.Wait()
	err = summary(os.Stdout, all)
	if len(all) < o.cases && o.only == "" {
		err = errors.Join(err, fmt.Errorf("%d of %d cases in %s: the same again goes on from there", len(all), o.cases, o.within))
	}
	return err
}

// finished are the cases that the log has.
func finished(o options) (map[int]outcome, error) {
	done := map[int]outcome{}
	if o.log == "" {
		return done, nil
	}
	f, err := os.Open(o.log)
	if errors.Is(err, os.ErrNotExist) {
		return done, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c outcome
		if json.Unmarshal(lines.Bytes(), &c) == nil && c.Seed == o.seed && c.Number >= o.from && c.Number < o.from+o.cases {
			done[c.Number] = c
		}
	}
	return done, lines.Err()
}

// isolated runs a case in namespaces of its own.
func isolated(o options, number int) outcome {
	c := outcome{plan: newPlan(o.seed, number)}
	fail := func(err error) outcome {
		c.Bad = append(c.Bad, err.Error())
		return c
	}
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	scratch, err := os.MkdirTemp("", "torture-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	// A case ends by itself well before.
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-ringcli", o.ringcli, "-seed", fmt.Sprint(o.seed), "-from", fmt.Sprint(number), "-one", scratch)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return fail(fmt.Errorf("%w: %s", err, stderr.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &c); err != nil {
		return fail(err)
	}
	if len(c.Bad) > 0 {
		kept := filepath.Join(o.keep, fmt.Sprintf("seed%d-case%d", o.seed, number))
		if err := errors.Join(os.RemoveAll(kept), os.MkdirAll(o.keep, 0o755), os.CopyFS(kept, os.DirFS(scratch))); err != nil {
			return fail(err)
		}
	}
	return c
}
