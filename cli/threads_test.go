package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ringcli/cli/exit"
)

// Where a user may not have the threads, it is said; Go's runtime would end with a dump.
func TestTooFewThreads(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("another user's processes take root")
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Where any user may run it. A process of its own writes the copy: one that a parallel test
	// starts would inherit the open file, and what somebody writes to cannot be run.
	binary := filepath.Join(t.TempDir(), "ringcli")
	if err := errors.Join(exec.Command("cp", self, binary).Run(), os.Chmod(filepath.Dir(filepath.Dir(binary)), 0o755)); err != nil {
		t.Fatal(err)
	}
	nobodys := uint32(60000 + os.Getpid()%5000) // a user without processes
	for limit, want := range map[string]string{
		"30": "^ringcli: this user may have 30 threads \\(`ulimit -u`\\) and has \\d+: 4 ranks need some \\d+ more: expected a higher limit or fewer ranks\n$",
		"14": "^ringcli: this user may have 14 threads \\(`ulimit -u`\\) and has \\d+: (4 ranks need|this process needs) some \\d+ more: .*\n$",
	} {
		p := program(t)
		// dash says -p for -u.
		p.Path, p.Args = "/bin/sh", []string{"sh", "-c", "ulimit -u " + limit + " 2>/dev/null || ulimit -p " + limit + " && exec " + binary + " local -n 4"}
		p.Dir, p.Env = "/", []string{asProgram + "=1", "GORACE=atexit_sleep_ms=0"}
		p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodys, Gid: nobodys}}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		if code := p.end(t, hung); code != exit.Usage || !regexp.MustCompile(want).MatchString(p.stderr.String()) {
			t.Errorf("%s: exit code %d\n%s", limit, code, p.stderr.String())
		}
	}
}
