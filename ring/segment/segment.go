//go:build linux

// Package segment makes hosts of network namespaces, each behind a port of an Ethernet
// bridge, for programs that run ranks in them.
//
// The process that calls it is in namespaces of its own for the network and for mounts
// (CLONE_NEWNET and CLONE_NEWNS): the bridge is there, and the names of the others are seen
// from there alone, so that the kernel takes all of it down with the last process, however
// that came to its end.
package segment

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Names is where namespaces have their names (ip-netns(8)).
const Names = "/run/netns/"

// Private makes what is mounted here nobody else's matter, and folders empty: that of
// Names always.
func Private(dirs ...string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, dir := range append(dirs, "/run") {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	return nil
}

// Host is a namespace, whose device is eth0.
type Host struct {
	Name    string
	Address string // with the length of its prefix
	Bridge  string
}

// Port is the other end of the cable of the i-th host.
func Port(i int) string { return fmt.Sprintf("port%d", i) }

// Make makes bridges and hosts, and waits until all have a carrier.
func Make(hosts []Host) error {
	commands := []string{"link set lo up"}
	var bridges []string
	for i, h := range hosts {
		if !slices.Contains(bridges, h.Bridge) {
			bridges = append(bridges, h.Bridge)
			commands = append(commands, "link add name "+h.Bridge+" type bridge", "link set dev "+h.Bridge+" up")
		}
		commands = append(commands, "netns add "+h.Name, "link add name "+Port(i)+" type veth peer name eth0 netns "+h.Name,
			"link set dev "+Port(i)+" master "+h.Bridge+" up")
	}
	if err := Commands("ip", "", commands...); err != nil {
		return err
	}
	for _, h := range hosts {
		if err := Commands("ip", h.Name, "address add "+h.Address+" dev eth0", "link set dev lo up", "link set dev eth0 up"); err != nil {
			return err
		}
	}
	for _, h := range hosts { // a carrier comes a little later
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			state, err := exec.Command("ip", "netns", "exec", h.Name, "cat", "/sys/class/net/eth0/operstate").Output()
			if err == nil && strings.TrimSpace(string(state)) == "up" {
				break
			}
			if time.Since(began) > time.Minute {
				return fmt.Errorf("no carrier within a minute: eth0 of %s is %q", h.Name, state)
			}
		}
	}
	return nil
}

// Commands runs lines of ip(8) or tc(8) in a host, or, without a name, where the bridges are.
func Commands(program, host string, lines ...string) error {
	args := []string{"-batch", "-"}
	if host != "" {
		args = append([]string{"-n", host}, args...)
	}
	c := exec.Command(program, args...)
	c.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(lines, "; "), err, out)
	}
	return nil
}
