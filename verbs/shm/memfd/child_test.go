package memfd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
)

// childVariable makes a re-executed test binary a child: a process with a hub,
// an arena and private memory, that obeys lines on its standard input and ends
// with it.
const childVariable = "ARENA_TEST_CHILD"

func childMain() {
	if os.Getenv(childVariable) == "" {
		return
	}
	c := &childState{heap: memory.AsBytes(make([]uint64, 1<<17))}
	for i := range c.heap {
		c.heap[i] = byte(i * 7)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := c.obey(lines.Text())
		if err != nil {
			answer = "error: " + err.Error()
		}
		fmt.Println(answer)
	}
	os.Exit(0)
}

type childState struct {
	hub   *Hub
	peer  *Peer
	arena *Arena
	heap  []byte
}

func (c *childState) obey(line string) (answer string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	verb, rest, _ := strings.Cut(line, " ")
	var a, b, d uint64
	_, _ = fmt.Sscan(rest, &a, &b, &d)
	switch verb {
	case "listen":
		c.hub, err = Listen(parseKey(rest))
	case "dial":
		if c.peer, err = c.hub.Dial(ctx, parseKey(rest)); err == nil {
			answer = fmt.Sprint(c.peer.conn.pid)
		}
	case "create":
		if c.arena, err = Create(a); err == nil {
			answer = fmt.Sprint(c.arena.ID(), c.arena.Addr())
		}
	case "free":
		err = c.arena.Free()
	case "poke":
		c.arena.Bytes()[a] = byte(b)
	case "peek":
		answer = fmt.Sprint(c.arena.Bytes()[a])
	case "store": // and wake who waits for the word
		word := &memory.Slice[uint32](c.arena.Addr(), 1)[0]
		atomic.StoreUint32(word, uint32(a))
		err = Wake(word)
	case "map":
		var addr uint64
		if addr, _, err = c.peer.Map(ctx, a, b != 0); err == nil {
			answer = fmt.Sprint(addr)
		}
	case "scribble": // at an address, whatever lies there
		memory.Bytes(a, 1)[0] = byte(b)
	case "heap":
		answer = fmt.Sprint(memory.Addr(c.heap), len(c.heap))
	case "hole": // a page that can be read, and one that cannot
		var pages []byte
		page := unix.Getpagesize()
		if pages, err = unix.Mmap(-1, 0, 2*page, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err == nil {
			answer, err = fmt.Sprint(memory.Addr(pages), page), unix.Mprotect(pages[page:], unix.PROT_NONE)
		}
	case "limit":
		err = unix.Setrlimit(int(a), &unix.Rlimit{Cur: b, Max: b})
	case "nofiles": // no more than are open
		var next int
		if next, err = unix.Dup(0); err == nil {
			err = errors.Join(unix.Close(next), unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next), Max: uint64(next)}))
		}
	case "noproc": // in a mount namespace of its own
		if err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err == nil {
			err = unix.Mount("none", "/proc", "tmpfs", 0, "")
		}
	case "read":
		err = c.peer.ReadMemory(make([]byte, b), a)
	case "busy": // for ever: dial, create, map, free
		key, first, _ := strings.Cut(rest, " ")
		_, _ = fmt.Sscan(first, &a)
		go c.busy(parseKey(key), a)
	case "close":
		err = c.hub.Close()
	default:
		err = fmt.Errorf("what is %q?", line)
	}
	return "ok " + answer, err
}

// busy shares memory with the hub of key, both ways, until it is killed. The hub's
// process has arenas from ID first on.
func (c *childState) busy(key Key, first uint64) {
	for id := first; ; id++ {
		a, err := Create(1 << 16)
		if err != nil {
			panic(err)
		}
		p, err := c.hub.Dial(context.Background(), key)
		if err != nil {
			panic(err)
		}
		if _, _, err := p.Map(context.Background(), first+id%20, id%2 == 0); err != nil {
			panic(err)
		}
		if err := errors.Join(a.Free(), p.Close()); err != nil {
			panic(err)
		}
	}
}

func parseKey(s string) (k Key) {
	b := k[:]
	_, _ = fmt.Sscanf(s, "%x", &b)
	copy(k[:], b)
	return k
}

// child is a child process as its parent sees it.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	key Key
}

// spawn starts a child whose hub listens.
func spawn(t *testing.T, attributes ...func(*exec.Cmd)) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command("/proc/self/exe"), key: randomKey()}
	c.cmd.Env = append(os.Environ(), childVariable+"=1")
	c.cmd.Stderr = os.Stderr
	for _, f := range attributes {
		f(c.cmd)
	}
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil { // with namespaces or another user it may be forbidden
		t.Skipf("start a child process: %v", err)
	}
	t.Cleanup(c.kill)
	c.do("listen %s", c.key)
	return c
}

// do has the child obey a line, and scans what it answers into values.
func (c *child) do(line string, args ...any) []uint64 {
	c.t.Helper()
	answer := c.try(line, args...)
	rest, ok := strings.CutPrefix(answer, "ok")
	if !ok {
		c.t.Fatalf("child: %s: %s", fmt.Sprintf(line, args...), answer)
	}
	var values []uint64
	for _, f := range strings.Fields(rest) {
		var v uint64
		if _, err := fmt.Sscan(f, &v); err != nil {
			c.t.Fatal(err)
		}
		values = append(values, v)
	}
	return values
}

// try is do for lines that may fail: it returns the answer as it is, empty if the
// child has ended.
func (c *child) try(line string, args ...any) string {
	c.t.Helper()
	watchdog := time.AfterFunc(30*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer watchdog.Stop()
	_, _ = fmt.Fprintf(c.in, line+"\n", args...)
	answer, _ := c.out.ReadString('\n')
	return strings.TrimSuffix(answer, "\n")
}

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// stop stops the child, and returns when all its threads have.
func (c *child) stop() {
	c.t.Helper()
	c.signal(unix.SIGSTOP)
	var status unix.WaitStatus
	if _, err := unix.Wait4(c.cmd.Process.Pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
		c.t.Fatalf("stop the child: %v, status %#x", err, status)
	}
}

// kill ends the child at once; again is harmless.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}
