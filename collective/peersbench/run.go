//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"ringcli/verbs/cpu"
)

// run installs, compiles, measures and prints.
func run(ctx context.Context, o options, out, log io.Writer) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	figures := io.Discard // every figure of every round
	if o.json != "" {
		f, wrong := os.Create(o.json) // before anything is measured for it
		if wrong != nil {
			return usageError{wrong}
		}
		figures = f
		defer func() { err = errors.Join(err, f.Close()) }()
	}
	cpus, err := cpu.Allowed()
	if err != nil {
		return err
	}
	list := o.programs(len(cpus))
	needed := list
	if o.hosts > 0 {
		needed = append(slices.Clone(list), program{compiler: []string{"ip"}, tools: []string{"tc"}, packages: []string{"iproute2"}})
	}
	if err := install(ctx, missing(ctx, needed), log); err != nil {
		return cause(ctx, err)
	}
	if o.hosts > 0 {
		if !o.isolated {
			return isolate() // what is missing was downloaded from this process's network
		}
		if err := makeHosts(o.hosts, o.rate); err != nil {
			return err
		}
	}
	before := sharedFiles()
	bin, err := os.MkdirTemp("", "ringcli-peers-*")
	if err != nil {
		return err
	}
	shm, err := os.MkdirTemp(shmDir, "ringcli-peers-*")
	if err != nil {
		shm = bin // no /dev/shm: Open MPI's files lie on a disk
	}
	defer func() {
		for _, name := range sharedFiles() {
			if !slices.Contains(before, name) {
				err = errors.Join(err, os.Remove(name))
			}
		}
		err = errors.Join(err, os.RemoveAll(shm), os.RemoveAll(bin))
	}()
	if err := compile(ctx, list, bin); err != nil {
		return cause(ctx, err)
	}
	results := newResults(o, len(cpus))
	var stopped error
	for _, n := range o.rankNumbers {
		f := &field{options: o, ranks: n, cpus: len(cpus), log: log, results: results,
			teams: map[string]*team{}, starts: map[string]int{}, site: site{bin: bin, shm: shm, self: self, older: o.baseline, cpus: commas(cpus), hosts: o.hosts}}
		if err := f.measure(ctx); err != nil {
			stopped = results.stop(cause(ctx, err))
			break
		}
	}
	// What was measured may have taken hours: all of it is written, whatever has happened.
	errs := []error{stopped, results.print(out), results.json(figures)}
	if n := len(results.Failures); n > 0 {
		errs = append(errs, fmt.Errorf("%d failures, see above", n))
	}
	return errors.Join(errs...)
}

// programs are those that the chosen contenders need.
func (o options) programs(cpus int) []program {
	names := []string{limits}
	for _, n := range o.rankNumbers {
		list, _ := o.chosen(n > cpus)
		for _, c := range list {
			names = append(names, c.needs())
		}
	}
	return slices.DeleteFunc(slices.Clone(programs), func(p program) bool { return !slices.Contains(names, p.name) })
}

// cause says why what was stopped has stopped.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
