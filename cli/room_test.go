package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ringcli/cli/exit"
)

// limited returns a ringcli that has not been started, under limits that the shell sets.
func limited(t *testing.T, limits string, args ...string) *process {
	t.Helper()
	p := program(t, args...)
	self := p.Path
	p.Path = "/bin/sh"
	p.Args = append([]string{"sh", "-c", limits + ` && exec "$0" "$@"`, self}, args...)
	return p
}

// noDump fails if a process ended as Go's runtime ends one, or without a reason.
func noDump(t *testing.T, limits string, args []string, code int, stderr, reason string) {
	t.Helper()
	for _, sign := range []string{"goroutine ", "fatal error:", "runtime:", "SIGABRT", "panic:"} {
		if strings.Contains(stderr, sign) {
			t.Errorf("%s: %q dumps, exit code %d\n%.1000s", limits, args, code, stderr)
			return
		}
	}
	if code != exit.OK && !strings.Contains(stderr, reason) {
		t.Errorf("%s: %q: exit code %d: expected %q in\n%s", limits, args, code, reason, stderr)
	}
}

// With few descriptors a command works, or says what is short and what to do.
func TestFewDescriptors(t *testing.T) {
	for _, c := range []struct {
		limit, args string
		works       bool
	}{
		{"8", "version", false},
		{"31", "local -n 2 -c ping", false},
		{"32", "version", true},
		{"32", "devices", true},
		{"32", "local -n 2 --device soft -c ping", true},
		{"32", "local -n 2 --device shm -c ping", true},
		{"32", "local -n 4 --device soft -c ping", true},
		{"32", "local -n 4 --device shm -c all-reduce", false},
		{"32", "bench all-reduce -n 4 --device shm -b 8 -e 1M -f 8 --iters 1 --warmup 0", false},
		{"32", "connect --index 0 --list " + freshList(t, 1)[0] + " -c ping", true},
		{"32", "connect --index 0 --list " + freshList(t, 1)[0] + " -c check", true},
		{"32", "shell -c devices", true},
	} {
		t.Run(c.limit+" "+c.args, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(c.args)
			p := limited(t, "ulimit -n "+c.limit, args...)
			p.start(t)
			code := p.end(t, hung)
			noDump(t, "ulimit -n "+c.limit, args, code, p.stderr.String(), "ulimit -n")
			if c.works && code != exit.OK {
				t.Errorf("exit code %d\n%s", code, p.stderr.String())
			}
		})
	}
}

// released is a ringcli that begins as the Makefile has it: what a limit leaves too little for is
// told before Go's runtime starts.
var released struct {
	once sync.Once
	path string
	out  []byte
	err  error
}

func asReleased(t *testing.T) (ringcli string) {
	t.Helper()
	if testing.Short() {
		t.Skip("it links a ringcli that begins as the Makefile has it")
	}
	released.once.Do(func() {
		released.path = filepath.Join(lasting{t}.TempDir(), "ringcli")
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-E ringcli_start", "-o", released.path, "./ringcli") // as make builds it, whose work is in the cache
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		released.out, released.err = build.CombinedOutput()
	})
	if released.err != nil {
		t.Fatalf("%v\n%s", released.err, released.out)
	}
	return released.path
}

// forEverybody copies a program to where any user may run it. A process of its own writes the copy:
// one that a parallel test starts here would inherit the open file, and what somebody writes to
// cannot be run.
func forEverybody(t *testing.T, program string) (copied string) {
	t.Helper()
	copied = filepath.Join(t.TempDir(), "ringcli")
	if err := errors.Join(exec.Command("cp", program, copied).Run(), os.Chmod(filepath.Dir(filepath.Dir(copied)), 0o755)); err != nil {
		t.Fatal(err)
	}
	return copied
}

// endUnder runs it under limits that the shell sets, and fails if it dumps or does not give the
// reason.
func endUnder(t *testing.T, ringcli, limits, reason, words string, user *syscall.Credential) (code int, stderr string) {
	t.Helper()
	var args []string
	for _, word := range strings.Fields(words) {
		args = append(args, strings.ReplaceAll(word, "~", " "))
	}
	p := limited(t, limits, args...)
	p.Args[3] = ringcli
	if user != nil {
		p.SysProcAttr, p.Dir = &syscall.SysProcAttr{Credential: user}, "/"
	}
	p.start(t)
	code = p.end(t, hung)
	noDump(t, limits, args, code, p.stderr.String(), reason)
	return code, p.stderr.String()
}

// With little address space, or few data, a command works, or says what is short and what to do.
func TestLittleMemory(t *testing.T) {
	t.Parallel()
	ringcli := asReleased(t)
	alone := freshList(t, 1)[0]
	few := []string{
		"version", "devices", "local -n 2 --device soft -c ping", "local -n 4 --device soft -c all-reduce", "local -n 4 --device shm -c all-reduce",
		"connect --index 0 --list " + alone + " -c ping", "shell -c devices",
	}
	large := []string{"bench all-reduce -n 2 -b 1M -e 256M -f 16 --iters 1 --warmup 0", "local -n 2 --device soft -c all-reduce~--size~1G~--iters~1~--warmup~0"}
	all := slices.Concat(few, large)
	const works = 3 << 20 // KiB
	for _, c := range []struct {
		limit    string
		commands map[int][]string // by KiB
	}{
		{"ulimit -v", map[int][]string{512 << 10: few, 1 << 20: few, 3 << 19: few, 2 << 20: all, works: few}},
		// Below 35 MiB the kernel does not start a program that has 35 MiB of variables.
		{"ulimit -d", map[int][]string{40 << 10: few, 128 << 10: few, 239 << 10: few, 256 << 10: few, 352 << 10: few, 416 << 10: all, 512 << 10: all, works: few}},
	} {
		for kib, commands := range c.commands {
			for _, words := range commands {
				limits := c.limit + " " + strconv.Itoa(kib)
				code, stderr := endUnder(t, ringcli, limits, c.limit, words, nil)
				if kib < 128<<10 && code != exit.Usage || kib >= works && code != exit.OK {
					t.Errorf("%s KiB: %q: exit code %d\n%s", limits, words, code, stderr)
				}
			}
		}
	}
}

// The stacks of threads count against the limits of memory; small stacks are told, too.
func TestSizeOfStacks(t *testing.T) {
	t.Parallel()
	ringcli := asReleased(t)
	for _, c := range []struct {
		limits, reason string
		code           int
	}{
		{"ulimit -s 16", "ulimit -s", exit.Usage},
		{"ulimit -s 64", "", exit.OK},
		{"ulimit -s 1048576; ulimit -v 3145728", "ulimit -v", exit.Usage},
		{"ulimit -s 1048576; ulimit -d 3145728", "ulimit -d", exit.Usage},
		{"ulimit -s 1048576", "", exit.OK},
		{"ulimit -s unlimited; ulimit -d 3145728", "", exit.OK},
	} {
		for _, words := range []string{"version", "local -n 2 -c ping"} {
			if code, stderr := endUnder(t, ringcli, c.limits, c.reason, words, nil); code != c.code {
				t.Errorf("%s: %q: exit code %d, expected %d\n%s", c.limits, words, code, c.code, stderr)
			}
		}
	}
}

// A user who may not have the threads of one process is told so before the runtime starts them.
func TestThreadsOfOneProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("another user's processes take root")
	}
	t.Parallel()
	ringcli := forEverybody(t, asReleased(t))
	nobody := &syscall.Credential{Uid: uint32(50000 + os.Getpid()%5000), Gid: 60000} // a user without processes
	for _, n := range []string{"1", "2", "3", "6", "7", "11"} {
		// dash says -p for -u.
		limits := "{ ulimit -u " + n + " 2>/dev/null || ulimit -p " + n + "; }"
		if code, stderr := endUnder(t, ringcli, limits, "ulimit -u", "version", nobody); code != exit.Usage {
			t.Errorf("%s: exit code %d, expected %d\n%s", limits, code, exit.Usage, stderr)
		}
	}
}
