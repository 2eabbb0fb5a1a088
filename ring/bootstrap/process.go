package bootstrap

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/ring/bootstrap/seal"
)

// procKey says where a process can be looked at: whoever has the same machine finds it in
// /proc.
type procKey struct {
	Machine string `json:"machine"` // the kernel, another at each start, and the PID namespace
	Start   uint64 `json:"start"`   // of the process, in ticks since the kernel's: a PID is used again
}

// thisProcess returns this process's, nil if it is not known.
func thisProcess() *procKey {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil
	}
	s, ok := readProcess(os.Getpid())
	if !ok {
		return nil
	}
	return &procKey{strings.TrimSpace(string(boot)) + " " + space, s.start}
}

// procStat is what /proc/PID/stat says (proc_pid_stat(5)).
type procStat struct {
	state      byte
	cpu, start uint64 // time used, and start, in ticks
}

func readProcess(pid int) (s procStat, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, false
	}
	// The name, in brackets, may have any byte in it. The state after it is field 3, the
	// times are 14 and 15, the start is 22.
	end := bytes.LastIndexByte(text, ')')
	f := strings.Fields(string(text[end+1:]))
	const state, utime, stime, start = 0, 11, 12, 19
	if end < 0 || len(f) <= start {
		return s, false
	}
	s.state = f[state][0]
	for _, i := range []int{utime, stime} {
		n, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			return s, false
		}
		s.cpu += n
	}
	s.start, err = strconv.ParseUint(f[start], 10, 64)
	return s, err == nil
}

// near tells whether two processes see each other in /proc.
func (i *identity) near(other *identity) bool {
	return i.Process != nil && other.Process != nil && i.Process.Machine == other.Process.Machine
}

// look tells how another rank's process is, if it is on this machine. cpu is the time that
// it had used at the last look, and is set to what it has used now.
func (i *identity) look(own *identity, cpu *uint64) process {
	if !i.near(own) || i.PID == own.PID {
		return ""
	}
	s, ok := readProcess(i.PID)
	if !ok {
		return "" // it is gone, or hidden: a call tells
	}
	before := *cpu
	*cpu = s.cpu
	switch {
	case s.start != i.Process.Start || s.state == 'Z' || s.state == 'X':
		return processDead
	case s.state == 'T' || s.state == 't':
		return processStopped
	case before != 0 && s.cpu > before:
		return processRunning
	}
	return ""
}

// Vigil looks whether a rank's process lives on after its ring.
type Vigil struct {
	c     *Control
	who   identity
	at    netip.AddrPort
	since time.Time // nobody has answered at its address since then
}

// Vigil begins one.
func (c *Control) Vigil(rank int) *Vigil {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Vigil{c: c, who: c.members[rank], at: c.cfg.Addrs[rank]}
}

// absence is how long nobody may answer at the address of a process elsewhere: between two
// rings a person may think.
const absence = 30 * time.Second

// Ended tells whether the process has ended: its host says so, where that is this one; else
// nobody has answered at its address for half a minute. It takes at most a second.
func (v *Vigil) Ended(ctx context.Context) bool {
	own := &v.c.self
	if v.who.near(own) {
		s, ok := readProcess(v.who.PID)
		return !ok || s.start != v.who.Process.Start || s.state == 'Z' || s.state == 'X'
	}
	within, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := v.c.cfg.Dial(within, "tcp", v.at.String())
	switch {
	case err == nil:
		_ = conn.Close()
		v.since = time.Time{}
	case ctx.Err() != nil || unreached(within, err) == "": // nobody was called
		return false
	case v.since.IsZero():
		v.since = time.Now()
	}
	return !v.since.IsZero() && time.Since(v.since) > absence
}

// Process tells whether the process of a rank is stopped, or gone, as the host that both are
// on shows it.
func (c *Control) Process(rank int) (stopped, gone bool, pid int) {
	c.mu.Lock()
	other, own := c.members[rank], c.self
	c.mu.Unlock()
	var cpu uint64
	p := other.look(&own, &cpu)
	return p == processStopped, p == processDead, other.PID
}

// packetsIn counts the packets that have come over a connection, those that bring nothing
// new included; 0 if that cannot be had.
func packetsIn(conn net.Conn) (n uint32) {
	if s, ok := conn.(*seal.Conn); ok {
		conn = s.Conn
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { // fails on a closed connection only
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = info.Segs_in
		}
	})
	return n
}
