//go:build linux

// Package cases runs the numbered cases of a rig. A rig is a program for engineers and for
// CI that injects faults into rings. Each case runs in a process of its own, in network and
// mount namespaces of its own (package segment), and prints its outcome as JSON.
//
// The seed and a number define a case. The log has a line for each case that has ended;
// these cases are not run again.
package cases

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Rig describes the cases of a program. Their outcomes are of type O, whose JSON has the
// fields seed and case (the number).
type Rig[O any] struct {
	Name  string
	Cases int                                  // default of -cases
	Limit time.Duration                        // of a case, in which it ends by itself
	Kinds []string                             // words that -only takes
	Kind  func(seed uint64, number int) string // of a case
	Run   func(seed uint64, number int, ringcli, scratch string) O
	// Broken is the outcome of a case that the rig could not run.
	Broken func(seed uint64, number int, err error) O
	// Complaints are what a person must see of a case. The files of a case without any are
	// deleted.
	Complaints func(o O) []string
	// Summary prints a table of all cases of the log, and returns an error if they fall
	// short of what is expected.
	Summary func(w io.Writer, all map[int]O) error
}

type options struct {
	ringcli, log, keep, only string
	cases, from, parallel    int
	seed                     uint64
	within                   time.Duration
}

// Main parses the flags, runs the cases, and exits with 1 if they fall short.
func (r *Rig[O]) Main() {
	var o options
	flag.StringVar(&o.ringcli, "ringcli", "./ringcli", "the program")
	flag.IntVar(&o.cases, "cases", r.Cases, "number of cases")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of all cases")
	flag.IntVar(&o.from, "from", 0, "number of the first case")
	flag.IntVar(&o.parallel, "parallel", max(1, runtime.NumCPU()/2), "cases at a time")
	flag.StringVar(&o.log, "log", "", "file to which a line is appended for each case that has ended, and whose cases are not run again")
	flag.DurationVar(&o.within, "within", 90*time.Minute, "how long to start new cases")
	flag.StringVar(&o.only, "only", "", "run only the cases of these kinds, separated by commas: "+strings.Join(r.Kinds, ", "))
	flag.StringVar(&o.keep, "keep", r.Name, "folder for the output of the ranks of bad cases")
	one := flag.String("one", "", "run the case -from in this process, with this folder for its files")
	flag.Parse()
	path, err := filepath.Abs(o.ringcli)
	if o.ringcli = path; err == nil && *one != "" {
		err = json.NewEncoder(os.Stdout).Encode(r.Run(o.seed, o.from, path, *one))
	} else if err == nil {
		err = r.all(o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", r.Name, err)
		os.Exit(1)
	}
}

func (r *Rig[O]) all(o options) error {
	if os.Geteuid() != 0 {
		return errors.New("needs root, for network namespaces")
	}
	if _, err := os.Stat(o.ringcli); err != nil {
		return fmt.Errorf("%w: run `make build`", err)
	}
	all, err := finished[O](o)
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
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range o.parallel {
		workers.Go(func() {
			for n := range numbers {
				c := r.isolated(o, n)
				mu.Lock()
				all[n] = c
				if log != nil {
					line, _ := json.Marshal(c) // it came as JSON
					_, _ = log.Write(append(line, '\n'))
				}
				for _, text := range r.Complaints(c) {
					fmt.Println(text)
				}
				if len(all)%50 == 0 {
					fmt.Printf("%d of %d cases\n", len(all), o.cases)
				}
				mu.Unlock()
			}
		})
	}
	want := 0
	for n, begun := o.from, time.Now(); n < o.from+o.cases; n++ {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), r.Kind(o.seed, n)) {
			continue
		}
		want++
		mu.Lock()
		_, has := all[n]
		mu.Unlock()
		if !has && time.Since(begun) < o.within {
			numbers <- n
		}
	}
	close(numbers)
	workers.Wait()
	err = r.Summary(os.Stdout, all)
	if len(all) < want {
		err = errors.Join(err, fmt.Errorf("%d of %d cases were run in %s: the same command runs the rest", len(all), want, o.within))
	}
	return err
}

// finished are the cases that the log has.
func finished[O any](o options) (map[int]O, error) {
	done := map[int]O{}
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
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var id struct {
			Seed   *uint64
			Number *int `json:"case"`
		}
		var c O
		// The last line is cut short if the rig was killed.
		if json.Unmarshal(lines.Bytes(), &id) != nil || id.Seed == nil || id.Number == nil || json.Unmarshal(lines.Bytes(), &c) != nil {
			continue
		}
		if *id.Seed == o.seed && *id.Number >= o.from && *id.Number < o.from+o.cases {
			done[*id.Number] = c
		}
	}
	return done, lines.Err()
}

// isolated runs a case in namespaces of its own.
func (r *Rig[O]) isolated(o options, number int) O {
	fail := func(err error) O { return r.Broken(o.seed, number, err) }
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	scratch, err := os.MkdirTemp("", r.Name+"-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	ctx, cancel := context.WithTimeout(context.Background(), r.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-ringcli", o.ringcli, "-seed", fmt.Sprint(o.seed), "-from", fmt.Sprint(number), "-one", scratch)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return fail(fmt.Errorf("%w: %s", err, stderr.String()))
	}
	var c O
	if err := json.Unmarshal(out.Bytes(), &c); err != nil {
		return fail(err)
	}
	if len(r.Complaints(c)) > 0 {
		kept := filepath.Join(o.keep, fmt.Sprintf("seed%d-case%d", o.seed, number))
		if err := errors.Join(os.RemoveAll(kept), os.MkdirAll(o.keep, 0o755), os.CopyFS(kept, os.DirFS(scratch))); err != nil {
			return fail(err)
		}
	}
	return c
}
