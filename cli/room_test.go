package cli

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
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
	verbstest.Long(t)
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

// endUnder runs a command under limits that the shell sets, and fails if it dumps or does not give
// the reason.
func endUnder(t *testing.T, limits, reason, words string) (code int, stderr string) {
	t.Helper()
	var args []string
	for _, word := range strings.Fields(words) {
		args = append(args, strings.ReplaceAll(word, "~", " "))
	}
	p := limited(t, limits, args...)
	p.start(t)
	code = p.end(t, hung)
	noDump(t, limits, args, code, p.stderr.String(), reason)
	return code, p.stderr.String()
}

// With little address space, or few data, a command works, or says what is short and what to do.
// Below 2 GiB of the one and 256 MiB of the other Go's runtime ends the process itself.
func TestLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("many processes; `make test-long` runs it")
	}
	t.Parallel()
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
		{"ulimit -v", map[int][]string{2 << 20: all, works: few}},
		{"ulimit -d", map[int][]string{256 << 10: few, 416 << 10: all, works: few}},
	} {
		for kib, commands := range c.commands {
			for _, words := range commands {
				limits := c.limit + " " + strconv.Itoa(kib)
				code, stderr := endUnder(t, limits, c.limit, words)
				if kib >= works && code != exit.OK {
					t.Errorf("%s KiB: %q: exit code %d\n%s", limits, words, code, stderr)
				}
			}
		}
	}
}

// Whatever size the stacks of threads have, it works.
func TestSizeOfStacks(t *testing.T) {
	t.Parallel()
	for _, limits := range []string{"ulimit -s 64", "ulimit -s 1048576", "ulimit -s unlimited; ulimit -d 3145728"} {
		for _, words := range []string{"version", "local -n 2 -c ping"} {
			if code, stderr := endUnder(t, limits, "", words); code != exit.OK {
				t.Errorf("%s: %q: exit code %d\n%s", limits, words, code, stderr)
			}
		}
	}
}
