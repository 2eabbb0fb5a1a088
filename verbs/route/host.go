package route

import (
	"cmp"
	"fmt"
	"os"
	"strings"
)

// Host says where a process is, and whose: two that say the same can share memory.
type Host struct {
	BootID  string `json:"boot_id"` // of the kernel, another at each start
	UID     int    `json:"uid"`     // the effective user
	NetNS   string `json:"net_ns"`  // the network namespace, as /proc names it
	UserNS  string `json:"user_ns"` // the user namespace
	Missing string `json:"missing"` // why something of the above is not known, "" if all is
}

// ThisHost returns this process's.
func ThisHost() Host {
	h := Host{UID: os.Geteuid()}
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
