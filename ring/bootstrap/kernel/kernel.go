// Package kernel reads what Linux shows of this machine's processes and TCP sockets.
package kernel

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"ringcli/ring/bootstrap/seal"
	"ringcli/verbs/route"
)

// The states of TCP sockets in /proc/net/tcp (Linux include/net/tcp_states.h).
const (
	SynRecv = "03"
	Listen  = "0A"
)

// Socket is one of /proc/net/tcp.
type Socket struct{ Local, Remote netip.AddrPort }

// Sockets lists those of this network namespace that have a local port, in a state. It reads
// line by line: a host may have a hundred thousand, which strangers can see to.
func Sockets(state string, port uint16) (found []Socket) {
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		file, err := os.Open(name)
		if err != nil {
			continue // no IPv6, or no /proc: nothing is known then
		}
		atPort, inState := fmt.Appendf(nil, ":%04X ", port), []byte(" "+state+" ")
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			if !bytes.Contains(lines.Bytes(), atPort) || !bytes.Contains(lines.Bytes(), inState) {
				continue
			}
			f := bytes.Fields(lines.Bytes())
			if len(f) < 4 || string(f[3]) != state {
				continue
			}
			local, okLocal := Address(string(f[1]))
			remote, okRemote := Address(string(f[2]))
			if okLocal && okRemote && local.Port() == port {
				found = append(found, Socket{local, remote})
			}
		}
		_ = file.Close() // it was read
	}
	return found
}

// Address reads an address as /proc/net/tcp has it: words of the machine's order.
func Address(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	p, wrong := strconv.ParseUint(port, 16, 16)
	for i := 0; i+4 <= len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a.Unmap(), uint16(p)), ok && err == nil && wrong == nil
}

// Key says where a process can be looked at: whoever has the same machine finds it in
// /proc.
type Key struct {
	Machine string `json:"machine"` // the kernel, another at each start, and the PID namespace
	Network string `json:"network"` // its namespace: within one, no network can be cut
	Start   uint64 `json:"start"`   // of the process, in ticks since the kernel's: a PID is used again
}

// This returns this process's, nil if it is not known.
func This() *Key {
	host := route.ThisHost()
	space, err := os.Readlink("/proc/self/ns/pid")
	s, ok := Read(os.Getpid())
	if host.Missing != "" || err != nil || !ok {
		return nil
	}
	return &Key{host.BootID + " " + space, host.NetNS, s.Start}
}

// Stat is what /proc/PID/stat says (proc_pid_stat(5)).
type Stat struct {
	State      byte
	CPU, Start uint64 // time used, and start, in ticks
}

// IsStopped tells whether a process is stopped by a signal or a debugger.
func (s Stat) IsStopped() bool { return s.State == 'T' || s.State == 't' }

// IsGone tells whether what is said of the process's PID is said of a dead process, or of
// another one.
func (k *Key) IsGone(s Stat) bool { return s.Start != k.Start || s.State == 'Z' || s.State == 'X' }

// Runnable tells whether a thread of a process has a CPU or waits for one.
func Runnable(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is well formed
	return slices.ContainsFunc(threads, func(path string) bool {
		s, ok := read(path)
		return ok && s.State == 'R'
	})
}

// Read reads what is said of a process.
func Read(pid int) (Stat, bool) { return read(fmt.Sprintf("/proc/%d/stat", pid)) }

func read(path string) (s Stat, ok bool) {
	text, err := os.ReadFile(path)
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
	s.State = f[state][0]
	for _, i := range []int{utime, stime} {
		n, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			return s, false
		}
		s.CPU += n
	}
	s.Start, err = strconv.ParseUint(f[start], 10, 64)
	return s, err == nil
}

// PacketsIn counts the packets that have come over a connection, those that bring nothing
// new included; 0 if that cannot be had.
func PacketsIn(conn net.Conn) (n uint32) {
	c, ok := seal.Raw(conn).(syscall.Conn)
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
