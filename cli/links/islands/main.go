// Islands has rings of four to eight ranks, each a process in a network namespace of its own
// behind a port of 240 Mbit/s, measure their links while one thing is wrong, or nothing, and
// counts who was named: the right one, a wrong one, or nobody. Rates are the kernel's (tbf,
// htb); losses and delays are the program's own (--inject), since not every kernel has netem.
// It needs root, ip(8) and tc(8), and leaves nothing. Only people and tests run it.
//
// The log says of each run its seed, kind and number. Runs that were cut short go on with the same
// flags and -from the greatest number in the log (jq -s 'map(.Number) | max' LOG): what is run again
// counts once, as it ended last, and the table is of the whole log.
package main

import (
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
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ringcli := flag.String("ringcli", "./ringcli", "the program")
	runs := flag.Int("runs", 100, "runs of each kind, numbered from 0")
	from := flag.Int("from", 0, "begin with the runs of this number: those before have been made")
	seed := flag.Uint64("seed", 1, "the seed of all runs")
	parallel := flag.Int("parallel", 1, "runs at a time")
	only := flag.String("only", "", "run this kind alone: "+strings.Join(kinds, ", "))
	span := flag.Duration("time", 100*time.Millisecond, "links' --time")
	log := flag.String("log", "", "file to append a line of JSON to for each run that has ended; the table is of all its runs")
	one := flag.Int("one", -1, "run this number of the kind -only in this process")
	flag.Parse()
	path, err := filepath.Abs(*ringcli)
	switch {
	case err != nil:
	case *one >= 0:
		err = json.NewEncoder(os.Stdout).Encode(run(newPlan(*seed, *only, *one), path, *span))
	default:
		err = all(path, *from, *runs, *seed, *parallel, *only, *log, *span)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "islands:", err)
		os.Exit(1)
	}
}

// all runs each kind, and prints what came of it.
func all(ringcli string, from, runs int, seed uint64, parallel int, only, log string, span time.Duration) error {
	if os.Geteuid() != 0 {
		return errors.New("it needs root, for namespaces")
	}
	type job struct {
		kind   string
		number int
	}
	var (
		mu    sync.Mutex // guards what follows
		ended []outcome
		bad   error
	)
	if log != "" {
		var err error
		if ended, err = readLog(log); err != nil {
			return err
		}
	}
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for j := range jobs {
				o := isolated(ringcli, newPlan(seed, j.kind, j.number), span)
				mu.Lock()
				ended = append(ended, o)
				if o.Grade != right {
					fmt.Printf("%s, run %d: %s: wanted %s; %s\n", j.kind, j.number, o.Grade, o.Want, o.Said)
				}
				if log != "" {
					line, err := json.Marshal(o)
					if err == nil {
						err = appendLine(log, line)
					}
					bad = errors.Join(bad, err)
				}
				mu.Unlock()
			}
		})
	}
	for number := from; number < runs; number++ {
		for _, kind := range kinds {
			if only == "" || only == kind {
				jobs <- job{kind, number}
			}
		}
	}
	close(jobs)
	workers.Wait()
	return errors.Join(bad, summary(os.Stdout, ended))
}

// summary prints how many runs of each kind were right; a run that is there twice counts as it
// ended last. It is an error if one is not right.
func summary(w io.Writer, ended []outcome) error {
	last := map[plan]outcome{}
	for _, o := range ended {
		last[o.plan] = o
	}
	tally, seconds := map[string]map[grade]int{}, map[string]float64{}
	for p, o := range last {
		if tally[p.Kind] == nil {
			tally[p.Kind] = map[grade]int{}
		}
		tally[p.Kind][o.Grade]++
		seconds[p.Kind] += o.Seconds
	}
	var bad error
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "kind\truns\tright\twrong\tnobody\tbroken\ts each\t")
	for _, kind := range kinds {
		t := tally[kind]
		n := t[right] + t[wrong] + t[nobody] + t[broken]
		if n == 0 {
			continue
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%.1f\t\n", kind, n, t[right], t[wrong], t[nobody], t[broken], seconds[kind]/float64(n))
		if t[right] < n {
			bad = errors.Join(bad, fmt.Errorf("%s: %d of %d runs are not right", kind, n-t[right], n))
		}
	}
	return errors.Join(table.Flush(), bad)
}

// readLog reads the runs of a log, if there is one.
func readLog(path string) (ended []outcome, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for line := range bytes.Lines(text) {
		var o outcome
		if err := json.Unmarshal(line, &o); err != nil || !slices.Contains(kinds, o.Kind) || !bytes.Contains(line, []byte(`"Number"`)) {
			return nil, fmt.Errorf("%s: %.80s: expected a run with its seed, kind and number", path, line)
		}
		ended = append(ended, o)
	}
	return ended, err
}

func appendLine(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// isolated runs one in namespaces of its own. Whatever ends it, the outcome says which it was.
func isolated(ringcli string, p plan, span time.Duration) outcome {
	begun := time.Now()
	fail := func(err error) outcome {
		return outcome{plan: p, Want: p.want(), Grade: broken, Said: err.Error(), Seconds: time.Since(begun).Seconds()}
	}
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // a run takes seconds
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-ringcli", ringcli, "-seed", fmt.Sprint(p.Seed), "-only", p.Kind, "-one", fmt.Sprint(p.Number), "-time", span.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return fail(fmt.Errorf("%w: %s", err, stderr.String()))
	}
	var o outcome
	if err := json.Unmarshal(out.Bytes(), &o); err != nil {
		return fail(err)
	}
	return o
}
