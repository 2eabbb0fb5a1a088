package memfd

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
)

func awaitGone(t *testing.T, p *Peer) error {
	t.Helper()
	select {
	case <-p.ctx.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the peer's end is not noticed")
	}
	return p.Err()
}

func TestProcessesShare(t *testing.T) {
	c, h := spawn(t), listen(t)
	theirs := c.do("create 10000")
	p := dial(t, h, c.key)
	if p.conn.pid != c.cmd.Process.Pid {
		t.Errorf("PID %d, want %d", p.conn.pid, c.cmd.Process.Pid)
	}
	addr, n := mapped(t, p, theirs[0], true)
	if n != 10000 {
		t.Errorf("%d bytes, want 10000", n)
	}
	view := memory.Bytes(addr, n)
	c.do("poke 9999 5")
	if view[9999] != 5 {
		t.Errorf("byte 9999 is %d, want 5", view[9999])
	}
	view[1] = 6
	if got := c.do("peek 1"); got[0] != 6 {
		t.Errorf("the owner sees %d, want 6", got[0])
	}
	// And the other way round, over a connection of its own.
	mine := create(t, 100)
	mine.Bytes()[3] = 1
	c.do("dial %s", h.key)
	at := c.do("map %d 1", mine.ID())
	c.do("scribble %d 9", at[0]+4)
	if got := mine.Bytes()[4]; got != 9 {
		t.Errorf("the child wrote 9, the owner sees %d", got)
	}
}

// A view that is only for reading cannot be written by mistake: the writer dies,
// not the memory.
func TestReadOnlyViewFaults(t *testing.T) {
	for _, proc := range []bool{true, false} {
		t.Run(fmt.Sprintf("proc=%t", proc), func(t *testing.T) {
			var owner *child
			if proc {
				owner = spawn(t)
			} else {
				owner = spawn(t, inNamespace(syscall.CLONE_NEWNS))
				owner.do("noproc")
			}
			writer := spawn(t, func(c *exec.Cmd) { c.Stderr = nil }) // its last words are long
			id := owner.do("create 100")[0]
			writer.do("dial %s", owner.key)
			writer.do("scribble %d 9", writer.do("map %d 1", id)[0])
			if got := owner.do("peek 0")[0]; got != 9 {
				t.Errorf("written through a writable view: the owner sees %d, want 9", got)
			}
			at := writer.do("map %d 0", id)[0]
			if answer := writer.try("scribble %d 8", at); answer != "" {
				t.Errorf("writing a read-only view: %s", answer)
			}
			if got := owner.do("peek 0")[0]; got != 9 {
				t.Errorf("the owner sees %d, want 9", got)
			}
		})
	}
}

func TestKilledPeer(t *testing.T) {
	files, maps := descriptorsOpen(t), arenasMapped(t)
	c, h := spawn(t), listen(t)
	id := c.do("create 4096")[0]
	p := dial(t, h, c.key)
	addr, n := mapped(t, p, id, false)
	c.do("poke 17 3")
	c.kill()
	if err := awaitGone(t, p); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "it ended") {
		t.Errorf("killed: %v", err)
	}
	if got := memory.Bytes(addr, n)[17]; got != 3 {
		t.Errorf("the dead peer's memory shows %d, want 3", got)
	}
	if again, _ := mapped(t, p, id, false); again != addr {
		t.Errorf("the known view is at %#x, want %#x", again, addr)
	}
	if _, _, err := p.Map(within(t, 20*time.Second), id, true); !errors.Is(err, ErrGone) {
		t.Errorf("a new view of a dead peer: %v", err)
	}
	if _, err := h.Dial(within(t, 20*time.Second), c.key); !errors.Is(err, ErrNoHub) {
		t.Errorf("dial a dead peer: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if f, m := descriptorsOpen(t), arenasMapped(t); f != files || m != maps {
		t.Errorf("%d descriptors and %d arena mappings left, want %d and %d", f, m, files, maps)
	}
}

func TestPeerClosesItsHub(t *testing.T) {
	c, h := spawn(t), listen(t)
	p := dial(t, h, c.key)
	c.do("close")
	if err := awaitGone(t, p); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "closed its hub") {
		t.Errorf("its hub closed: %v", err)
	}
}

func TestStoppedPeer(t *testing.T) {
	c, h, late := spawn(t), listen(t), listen(t)
	id := c.do("create 4096")[0]
	p := dial(t, h, c.key)
	c.stop()
	const wait = 500 * time.Millisecond
	_, _, err := p.Map(within(t, wait), id, true)
	if err == nil || !strings.Contains(err.Error(), "is it stopped") || !strings.Contains(err.Error(), "awaited") {
		t.Errorf("map of a stopped peer: %v", err)
	}
	_, err = late.Dial(within(t, wait), c.key)
	if err == nil || !strings.Contains(err.Error(), "is it stopped") {
		t.Errorf("dial a stopped peer: %v", err)
	}
	c.signal(unix.SIGCONT)
	if _, n := mapped(t, p, id, true); n != 4096 {
		t.Errorf("%d bytes after it went on, want 4096", n)
	}
	if err := p.Err(); err != nil {
		t.Errorf("a peer that was stopped: %v", err)
	}
}

func TestFreedByItsOwner(t *testing.T) {
	c, h := spawn(t), listen(t)
	p := dial(t, h, c.key)
	first := c.do("create 8192")
	c.do("poke 0 4")
	addr, _ := mapped(t, p, first[0], false)
	c.do("free")
	// The view turns to zeros; reading it is harmless at all times.
	deadline := time.Now().Add(20 * time.Second)
	for memory.Bytes(addr, 1)[0] != 0 {
		if time.Now().After(deadline) {
			t.Fatal("the view of a freed arena still shows it")
		}
		time.Sleep(time.Millisecond)
	}
	if _, _, err := p.Map(within(t, 20*time.Second), first[0], false); err == nil || !strings.Contains(err.Error(), "no arena") {
		t.Errorf("map a freed arena: %v", err)
	}
	if n := arenasMapped(t); n != 0 {
		t.Errorf("%d arenas are still mapped", n)
	}
}
