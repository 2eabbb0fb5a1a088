//go:build linux

package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// program is one of the C programs, and what it takes to compile and to run it. The
// two MPIs' packages give the same names, mpicc and mpirun, to one of them only; under
// their full names both are there.
type program struct {
	name     string
	source   string
	compiler []string
	header   string   // of its package; "" if there is none to look for
	tools    []string // beside the compiler
	packages []string // Debian's
}

var programs = []program{
	{limits, "limits.c", []string{"gcc", "-pthread"}, "pthread.h", nil, []string{"gcc", "libc6-dev"}},
	{openMPI, "peer.c", []string{"mpicc.openmpi"}, "mpi.h", []string{"mpirun.openmpi", "gcc"}, []string{"openmpi-bin", "libopenmpi-dev", "gcc"}},
	{mpich, "peer.c", []string{"mpicc.mpich"}, "mpi.h", []string{"mpirun.mpich", "gcc"}, []string{"mpich", "libmpich-dev", "gcc"}},
}

//go:embed c
var sources embed.FS

const (
	installLimit = 10 * time.Minute
	compileLimit = 2 * time.Minute
)

// missing are the packages of programs whose tools or headers are not there.
func missing(ctx context.Context, list []program) []string {
	var packages []string
	for _, p := range list {
		there := true
		for _, tool := range append([]string{p.compiler[0]}, p.tools...) {
			_, err := exec.LookPath(tool)
			there = there && err == nil
		}
		if there && p.header != "" {
			there = exec.CommandContext(ctx, p.compiler[0], "-E", "-include", p.header, "-x", "c", os.DevNull).Run() == nil
		}
		if !there {
			packages = append(packages, p.packages...)
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// install installs what is missing, as root or with a sudo that asks nothing.
func install(ctx context.Context, packages []string, log io.Writer) error {
	if len(packages) == 0 {
		return nil
	}
	what := strings.Join(packages, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("compilers or libraries are missing, and this is no Debian: expected what Debian's packages %s have", what)
	}
	var as []string
	if os.Geteuid() != 0 {
		if exec.CommandContext(ctx, "sudo", "-n", "true").Run() != nil {
			return fmt.Errorf("packages are missing, and this user may not install them; as root: apt-get install %s", what)
		}
		as = []string{"sudo", "-n"}
	}
	_, _ = fmt.Fprintf(log, "peersbench: installing %s\n", what)
	ctx, cancel := context.WithTimeoutCause(ctx, installLimit, fmt.Errorf("not installed after %s", installLimit))
	defer cancel()
	for _, args := range [][]string{
		{"apt-get", "-q", "update"},
		append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "--no-install-recommends", "install"}, packages...),
	} {
		if err := quietly(ctx, "", slices.Concat(as, args)); err != nil {
			return fmt.Errorf("install %s: %w", what, err)
		}
	}
	return nil
}

// compile puts the programs into a folder.
func compile(ctx context.Context, list []program, dir string) error {
	for _, name := range []string{"orders.h", "peer.c", "limits.c"} {
		text, err := sources.ReadFile("c/" + name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, compileLimit, fmt.Errorf("not compiled after %s", compileLimit))
	defer cancel()
	for _, p := range list {
		if err := quietly(ctx, dir, slices.Concat(p.compiler, []string{"-O2", "-o", p.name, p.source})); err != nil {
			return fmt.Errorf("compile %s: %w", p.source, err)
		}
	}
	return nil
}

// quietly runs a command, whose output is of interest only if it fails.
func quietly(ctx context.Context, dir string, args []string) error {
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Dir = dir
	if dir != "" {
		c.Env = append(os.Environ(), "TMPDIR="+dir) // compilers that are ended leave files
	}
	// With all that it has started; a package manager wants to end by itself.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGTERM) }
	c.WaitDelay = endGrace
	out, err := c.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, tail(out))
}

// tail is the end of what a command has printed.
func tail(out []byte) string {
	const most = 2000
	text := strings.TrimSpace(string(out))
	return text[max(0, len(text)-most):]
}
