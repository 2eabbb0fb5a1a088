package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// With little address space a command works, or says what is short and what to do.
func TestLittleAddressSpace(t *testing.T) {
	if testing.Short() {
		t.Skip("it links a ringcli that begins as the Makefile has it")
	}
	t.Parallel()
	alone := freshList(t, 1)[0]
	ringcli := filepath.Join(t.TempDir(), "ringcli")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-E ringcli_start", "-o", ringcli, "./ringcli") // as make builds it, whose work is in the cache
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const works = 3 << 20 // KiB
	few := []string{
		"version", "devices", "local -n 2 --device soft -c ping", "local -n 4 --device soft -c all-reduce", "local -n 4 --device shm -c all-reduce",
		"connect --index 0 --list " + alone + " -c ping", "shell -c devices",
	}
	all := append(slices.Clip(few), "bench all-reduce -n 2 -b 1M -e 256M -f 16 --iters 1 --warmup 0",
		"local -n 2 --device soft -c all-reduce~--size~1G~--iters~1~--warmup~0")
	for kib, commands := range map[int][]string{512 << 10: few, 1 << 20: few, 3 << 19: few, 2 << 20: all, works: few} {
		limit := strconv.Itoa(kib)
		for _, words := range commands {
			var args []string
			for _, word := range strings.Fields(words) {
				args = append(args, strings.ReplaceAll(word, "~", " "))
			}
			p := limited(t, "ulimit -v "+limit, args...)
			p.Args[3] = ringcli
			p.start(t)
			code := p.end(t, hung)
			noDump(t, "ulimit -v "+limit, args, code, p.stderr.String(), "ulimit -v")
			if large := strings.Contains(words, "M") || strings.Contains(words, "G"); kib >= works && !large && code != exit.OK {
				t.Errorf("%s KiB: %q: exit code %d\n%s", limit, args, code, p.stderr.String())
			}
		}
	}
}
