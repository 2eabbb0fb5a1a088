package memfd

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name, limit, create, want string
		args                      []any
	}{
		{name: "open files", limit: "nofiles", create: "create 4096", want: "ulimit -n"},
		{name: "file size", limit: "limit %d 1048576", args: []any{unix.RLIMIT_FSIZE}, create: "create 2097152", want: "ulimit -f"},
		{name: "address space", limit: "limit %d 2147483648", args: []any{unix.RLIMIT_AS}, create: "create 2147483648", want: "ulimit -v"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "address space" && machineMemory() < 3<<30 {
				t.Skip("the machine has less than 3 GiB of memory")
			}
			p := spawn(t)
			p.do(c.limit, c.args...)
			answer := p.try(c.create)
			for range 10 { // a descriptor that another goroutine has closed meanwhile serves one
				if c.limit != "nofiles" || !strings.HasPrefix(answer, "ok") {
					break
				}
				p.do(c.limit, c.args...)
				answer = p.try(c.create)
			}
			if !strings.HasPrefix(answer, "error: ") || !strings.Contains(answer, c.want) {
				t.Errorf("%s: %s; want an error with %q", c.create, answer, c.want)
			}
			if answer := p.try("heap"); !strings.HasPrefix(answer, "ok") {
				t.Errorf("the process goes on: %s", answer)
			}
		})
	}
}

// A dialler that cannot take one descriptor more says so, and its peer goes on.
func TestMapWithoutDescriptors(t *testing.T) {
	c, h, x := spawn(t), listen(t), create(t, 100)
	c.do("dial %s", h.key)
	c.do("nofiles")
	if answer := c.try("map %d 0", x.ID()); !strings.Contains(answer, "ulimit -n") {
		t.Errorf("map: %s", answer)
	}
	p := dial(t, h, h.key)
	mapped(t, p, x.ID(), false)
}

func TestListenTwice(t *testing.T) {
	h := listen(t)
	if _, err := Listen(h.key); err == nil || !strings.Contains(err.Error(), "taken by another hub") {
		t.Errorf("a key in use: %v", err)
	}
}

func TestNobodyListens(t *testing.T) {
	h, k := listen(t), randomKey()
	for range 2 {
		if _, err := h.Dial(within(t, 20*time.Second), k); !errors.Is(err, ErrNoHub) || !strings.Contains(err.Error(), k.String()) {
			t.Errorf("dial nobody: %v", err)
		}
	}
}

func TestOtherNetworkNamespace(t *testing.T) {
	c, h := spawn(t, inNamespace(syscall.CLONE_NEWNET)), listen(t)
	if _, err := h.Dial(within(t, 20*time.Second), c.key); !errors.Is(err, ErrNoHub) || !strings.Contains(err.Error(), "network namespace") {
		t.Errorf("dial into another network namespace: %v", err)
	}
}

func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	c := spawn(t, func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	})
	h := listen(t)
	_, err := h.Dial(within(t, 20*time.Second), c.key)
	for _, answer := range []string{c.try("dial %s", h.key), errorText(err)} {
		if !strings.Contains(answer, "user 65534") || !strings.Contains(answer, "user 0") {
			t.Errorf("dial a process of another user: %s", answer)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}
