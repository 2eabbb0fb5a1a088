package memfd

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func reader(t *testing.T) (c *child, p *Peer) {
	t.Helper()
	c = spawn(t)
	p = dial(t, listen(t), c.key)
	if !p.CanReadMemory() {
		t.Skipf("process_vm_readv is not allowed here: %v", p.ReadMemory(nil, 0))
	}
	return c, p
}

func TestReadMemory(t *testing.T) {
	c, p := reader(t)
	heap := c.do("heap")
	addr, n := heap[0], int(heap[1])
	dst := create(t, uint64(n))
	c.stop() // it need not do anything
	if err := p.ReadMemory(dst.Bytes(), addr); err != nil {
		t.Fatal(err)
	}
	for i, x := range dst.Bytes() {
		if x != byte(i*7) {
			t.Fatalf("byte %d is %d, want %d", i, x, byte(i*7))
		}
	}
	if err := p.ReadMemory(nil, addr); err != nil {
		t.Errorf("read nothing: %v", err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = p.ReadMemory(dst.Bytes()[:100], addr) }); n != 0 {
		t.Errorf("ReadMemory allocates %v times", n)
	}
}

func TestReadMemoryThatIsNot(t *testing.T) {
	c, p := reader(t)
	dst := make([]byte, 100)
	for _, addr := range []uint64{0, 1 << 63, 1<<64 - 1} {
		if err := p.ReadMemory(dst, addr); !errors.Is(err, unix.EFAULT) {
			t.Errorf("at %#x: %v", addr, err)
		}
	}
	// What begins well and runs into a hole fails, too.
	hole := c.do("hole")
	addr, page := hole[0], hole[1]
	whole := make([]byte, 2*page)
	if err := p.ReadMemory(whole[:page], addr); err != nil {
		t.Errorf("up to the hole: %v", err)
	}
	if err := p.ReadMemory(whole, addr); !errors.Is(err, unix.EFAULT) {
		t.Errorf("into the hole: %v", err)
	}
	c.kill()
	_ = awaitGone(t, p)
	if err := p.ReadMemory(dst, addr); !errors.Is(err, ErrGone) {
		t.Errorf("of a dead peer: %v", err)
	}
}

// A process that sees no PID of its peer says so, and does not read another's.
func TestReadMemoryOfAnotherNamespace(t *testing.T) {
	c := spawn(t, inNamespace(syscall.CLONE_NEWPID))
	h, x := listen(t), create(t, 100)
	if pid := c.do("dial %s", h.key)[0]; pid != 0 {
		t.Errorf("the child sees this process as %d, want 0", pid)
	}
	if answer := c.try("read %d 100", x.Addr()); !strings.Contains(answer, "PID namespace") {
		t.Errorf("read from another PID namespace: %s", answer)
	}
	c.do("map %d 1", x.ID()) // what is shared is shared all the same
	p := dial(t, h, c.key)
	if p.conn.pid != c.cmd.Process.Pid {
		t.Errorf("PID %d, want %d", p.conn.pid, c.cmd.Process.Pid)
	}
	c.kill()
	if err := awaitGone(t, p); !errors.Is(err, ErrGone) {
		t.Errorf("killed: %v", err)
	}
}

func inNamespace(flags uintptr) func(*exec.Cmd) {
	return func(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags} }
}
