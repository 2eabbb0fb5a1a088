package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/ring/segment"
)

// drop makes a rank lose UDP packets: those that match.
func drop(rank int, match ...string) error {
	args := append([]string{"netns", "exec", node(rank), "iptables", "-w", "-A", "INPUT", "-i", "eth0", "-p", "udp"}, match...)
	if out, err := exec.Command("ip", append(args, "-j", "DROP")...).CombinedOutput(); err != nil {
		return fmt.Errorf("iptables %v: %w: %s", match, err, out)
	}
	return nil
}

func (r *ring) lose(both bool) error {
	share := []string{"-m", "statistic", "--mode", "random", "--probability", fmt.Sprintf("%.4f", r.Loss)}
	err := drop(r.To, append([]string{"-s", address(r.Rank)}, share...)...)
	if both {
		err = errors.Join(err, drop(r.Rank, append([]string{"-s", address(r.To)}, share...)...))
	}
	return err
}

func (r *ring) block() error  { return drop(r.To, "-s", address(r.Rank)) }
func (r *ring) deafen() error { return drop(r.Rank) }

// narrowEdge drops what is longer than a packet of an Ethernet without jumbo frames.
func (r *ring) narrowEdge() error {
	return drop(r.To, "-s", address(r.Rank), "-m", "length", "--length", "1501:65535")
}

// narrow is a port of the switch without jumbo frames: it takes and gives no longer ones.
func (r *ring) narrow() error {
	return segment.Commands("ip", "", "link set dev "+segment.Port(r.Rank)+" mtu 1500")
}

// classes gives what the rank sends over UDP to the other a class of its own. limitEdge
// limits it, without a loss of what is queued.
func (r *ring) classes() error {
	return segment.Commands("tc", node(r.Rank),
		"qdisc replace dev eth0 root handle 1: htb default 1", "class add dev eth0 parent 1: classid 1:1 htb rate "+portRate+" burst 64kb",
		"class add dev eth0 parent 1: classid 1:2 htb rate "+portRate+" burst 64kb",
		"filter add dev eth0 parent 1: protocol ip u32 match ip dst "+address(r.To)+"/32 match ip protocol 17 0xff flowid 1:2")
}

func (r *ring) limitEdge(rate string) error {
	bucket := " burst 64kb"
	if rate == crawlRate {
		bucket = " burst 4kb"
	}
	return segment.Commands("tc", node(r.Rank), "class change dev eth0 parent 1: classid 1:2 htb rate "+rate+bucket)
}

func (r *ring) limitSender() error   { return limit(node(r.Rank), "eth0", r.Rate) }
func (r *ring) limitReceiver() error { return limit("", segment.Port(r.Rank), r.Rate) }

// double makes the second host with the rank's address answer for it: it announces itself
// when its link comes up.
func (r *ring) double() error {
	announce := exec.Command("ip", "netns", "exec", "double", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/eth0/arp_notify")
	if out, err := announce.CombinedOutput(); err != nil {
		return fmt.Errorf("arp_notify: %w: %s", err, out)
	}
	return segment.Commands("ip", "double", "link set dev eth0 down", "link set dev eth0 up")
}

// misroute gives the rank a host route to the other that leads nowhere.
func (r *ring) misroute() error {
	to := address(r.To) + "/32"
	return segment.Commands("ip", node(r.Rank), []string{"route add " + to + " via 10.77.0.200 dev eth0", "route add unreachable " + to, "route add blackhole " + to}[r.Way])
}

func (r *ring) flap() error {
	err := segment.Commands("ip", "", "link set dev "+segment.Port(r.Rank)+" down")
	time.Sleep(r.Down)
	return errors.Join(err, segment.Commands("ip", "", "link set dev "+segment.Port(r.Rank)+" up"))
}

func (r *ring) kill() error { return r.world[r.Rank].cmd.Process.Kill() }
func (r *ring) stop() error { return r.world[r.Rank].cmd.Process.Signal(syscall.SIGSTOP) }

// load starts processes that want a CPU each, for the whole case.
func (r *ring) load(n int) error {
	for range n {
		c := exec.Command("sh", "-c", "while :; do :; done")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			return err
		}
		r.ends = append(r.ends, func() { _ = c.Process.Kill(); _ = c.Wait() })
	}
	return nil
}

// listen occupies the port of the rank: the kernel accepts connections, and nothing is ever
// sent.
func (r *ring) listen() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer func() { _ = here.Close() }()
	there, err := os.Open(segment.Names + node(r.Rank))
	if err != nil {
		return err
	}
	defer func() { _ = there.Close() }()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	l, err := net.Listen("tcp4", ":18600")
	if err == nil {
		r.ends = append(r.ends, func() { _ = l.Close() })
	}
	return errors.Join(err, unix.Setns(int(here.Fd()), unix.CLONE_NEWNET))
}

// noGroup is why a rank cannot be starved in some containers.
const noGroup = "no control group for CPU time"

// groups is where control groups of CPU time are: version 1, then version 2.
var groups = []struct{ dir, file, quota string }{
	{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "10000"},
	{"/sys/fs/cgroup", "cpu.max", "10000 100000"},
}

// starve makes a control group with a tenth of a CPU, for the rank. Groups that were left by
// cases that were killed are removed.
func (r *ring) starve() error {
	var all error
	for _, g := range groups {
		old, _ := filepath.Glob(filepath.Join(g.dir, "rig-*"))
		for _, dir := range old {
			_ = os.Remove(dir) // fails if it is in use
		}
		dir := filepath.Join(g.dir, fmt.Sprintf("rig-%d", os.Getpid()))
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			r.ends = append(r.ends, func() { _ = os.Remove(dir) })
			err = os.WriteFile(filepath.Join(dir, g.file), []byte(g.quota), 0o644)
		}
		if err == nil {
			r.group = dir
			return nil
		}
		all = errors.Join(all, err)
	}
	return fmt.Errorf("%s: %w", noGroup, all)
}
