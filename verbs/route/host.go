package route

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Host says where a process is, and whose: two that say the same can share memory.
type Host struct {
	BootID  string `json:"boot_id"` // of the kernel, another at each start
	UID     int    `json:"uid"`     // the effective user
	NetNS   string `json:"net_ns"`  // the network namespace, as /proc names it
	UserNS  string `json:"user_ns"` // the user namespace
	PIDNS   string `json:"pid_ns"`  // the namespace that PID is of; "" if it is not known
	PID     int    `json:"pid"`
	Missing string `json:"missing"` // why something of the above is not known, "" if all is
}

// ThisHost returns this process's.
func ThisHost() Host {
	h := Host{UID: os.Geteuid(), PID: os.Getpid()}
	h.PIDNS, _ = os.Readlink("/proc/self/ns/pid") // no reason to do without shared memory
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil {
		h.BootID = strings.TrimSpace(string(boot))
		h.NetNS, err = os.Readlink("/proc/self/ns/net")
	}
	if err == nil {
		h.UserNS, err = os.Readlink("/proc/self/ns/user")
	}
	if err != nil {
		h.Missing = err.Error()
	}
	return h
}

// Apart says what keeps two processes from sharing memory, "" if nothing does.
func (h Host) Apart(other Host) string {
	differ := func(what string, a, b any) string { return fmt.Sprintf("their %s differ: %v and %v", what, a, b) }
	switch {
	case h.Missing != "" || other.Missing != "":
		return "where one of them runs is not known: " + cmp.Or(h.Missing, other.Missing)
	case h.BootID != other.BootID:
		return "they are on two hosts"
	case h.UID != other.UID:
		return differ("users", h.UID, other.UID)
	case h.NetNS != other.NetNS:
		return differ("network namespaces", h.NetNS, other.NetNS)
	case h.UserNS != other.UserNS:
		return differ("user namespaces", h.UserNS, other.UserNS)
	}
	return ""
}

// ProcessState is what the kernel says of a process (proc_pid_stat(5)): 'T' is stopped, 't'
// stopped by a debugger, 'D' in an uninterruptible sleep. 0 is that it cannot be told.
type ProcessState byte

// ProcessEnded is a process that is no more, or whose parent has yet to take note.
const ProcessEnded ProcessState = 'Z'

// Stopped tells whether somebody has stopped the process.
func (s ProcessState) Stopped() bool { return s == 'T' || s == 't' }

// Process looks at another process of this host.
func (h Host) Process(other Host) ProcessState {
	if h.BootID == "" || h.BootID != other.BootID || h.PIDNS == "" || h.PIDNS != other.PIDNS || other.PID <= 0 {
		return 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", other.PID))
	if errors.Is(err, fs.ErrNotExist) {
		return ProcessEnded
	}
	// The name before the state may hold anything.
	if end := bytes.LastIndexByte(stat, ')'); err == nil && end >= 0 && end+2 < len(stat) {
		state := ProcessState(stat[end+2])
		if state == 'X' {
			return ProcessEnded
		}
		return state
	}
	return 0
}
