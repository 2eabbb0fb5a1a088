//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ringcli/collective"
	"ringcli/ring/segment"
)

// Hosts are network namespaces behind the ports of a bridge, each port with its rate both
// ways. This process has a network of its own, where the bridge is; ranks of a host share
// its address, and have a host's name of their own, by which Open MPI tells hosts apart.

// mostHosts is for what is measured on one machine: a host is not a host whose ranks get no CPU.
const mostHosts = 16

// What a port lets pass at once, and what may wait there: at 1 Gbit/s half a millisecond's and
// 32 ms'. The WRITEs in flight must not stand in a queue for longer than the timer of a
// retransmission.
const portQueue = " burst 64kb limit 4mb"

var validRate = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?[kmg]bit$`)

func hostName(i int) string    { return fmt.Sprintf("host%d", i) }
func hostAddress(i int) string { return fmt.Sprintf("10.77.0.%d", i+1) }

// isolatedName is the flag of a process that is in namespaces of its own.
const isolatedName = "isolated"

// isolate begins this program anew in namespaces of its own, as rank.bind does: the kernel
// takes down what is made there when the last process has ended, however it came to that.
func isolate() error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make namespaces: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, append(os.Args, "--"+isolatedName), os.Environ())
}

// makeHosts makes them in this process's namespaces, which are nobody else's.
func makeHosts(n int, rate string) error {
	if err := segment.Private(); err != nil {
		return err
	}
	hosts := make([]segment.Host, n)
	for i := range hosts {
		hosts[i] = segment.Host{Name: hostName(i), Address: hostAddress(i) + "/24", Bridge: "switch0"}
	}
	if err := segment.Make(hosts); err != nil {
		return err
	}
	limit := " root tbf rate " + rate + portQueue
	for i, h := range hosts {
		err := errors.Join(segment.Commands("tc", "", "qdisc add dev "+segment.Port(i)+limit), segment.Commands("tc", h.Name, "qdisc add dev eth0"+limit))
		if err != nil {
			return err
		}
	}
	return nil
}

// hostOf is where a rank runs: its host's ranks follow each other.
func (s site) hostOf(rank int) int { return rank * s.hosts / s.ranks }

// hostList is the list of the nth ring. Rings that are up at once have ports of their own, below
// those that the kernel gives away.
func (s site) hostList(nth int) string {
	const first, rings = 10_000, 150
	var list []string
	for r := range s.ranks {
		list = append(list, fmt.Sprintf("%s:%d", hostAddress(s.hostOf(r)), first+nth%rings*mostRanks+r))
	}
	return strings.Join(list, ",")
}

// inHost is a command that runs in a host; without hosts it runs here.
func (s site) inHost(i int, args ...string) []string {
	if s.hosts == 0 {
		return args
	}
	return append([]string{s.self, hostCommandName, hostName(i)}, args...)
}

// spread are Open MPI's settings and arguments for ranks on all hosts. mpirun runs in the first
// and starts its daemons in the others as by ssh.
func (s site) spread() (settings, args []string) {
	var slots []string
	for i := range s.hosts {
		slots = append(slots, hostName(i)+":"+strconv.Itoa(s.ranks/s.hosts))
	}
	return []string{"plm", "rsh", "plm_rsh_agent", s.self + " " + hostCommandName + " --shell", "plm_rsh_no_tree_spawn", "1", "oob_tcp_if_include", "eth0", "btl_tcp_if_include", "eth0"},
		[]string{"--host", strings.Join(slots, ","), "--map-by", "slot", "--leave-session-attached"}
}

// hostCommandName is the command that runs another in a host. Not for people.
const hostCommandName = "host"

func hostCommand() *cobra.Command {
	shell := false
	c := &cobra.Command{
		Use: hostCommandName, Hidden: true, Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if shell { // as ssh has it
				return enter(args[0], []string{"/bin/sh", "-c", strings.Join(args[1:], " ")})
			}
			return enter(args[0], args[1:])
		},
	}
	c.Flags().BoolVar(&shell, "shell", false, "the command is for a shell")
	c.Flags().SetInterspersed(false)
	return c
}

// enter becomes a command in a host: in its network, with its name, and with the /sys that shows
// its devices.
func enter(host string, args []string) error {
	runtime.LockOSThread()
	space, err := os.Open(segment.Names + host)
	if err != nil {
		return err
	}
	if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", host, err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("make namespaces: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	if err := unix.Sethostname([]byte(host)); err != nil {
		return fmt.Errorf("name %s: %w", host, err)
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, args, os.Environ())
}

// Link is what went over the link of a host, in bytes of frames without their checksums.
type Link struct {
	Out float64 `json:"out"` // from the host
	In  float64 `json:"in"`
}

// readLinks are the counters of all hosts' links. The kernel does not count what it keeps
// together (GSO) frame by frame: each such packet has its headers once.
func readLinks(hosts int) ([]Link, error) {
	if hosts == 0 {
		return nil, nil
	}
	text, err := os.ReadFile("/proc/self/net/dev")
	if err != nil {
		return nil, err
	}
	return parseLinks(string(text), hosts)
}

// parseLinks reads /proc/net/dev (proc(5)): what a port receives its host has sent.
func parseLinks(text string, hosts int) ([]Link, error) {
	links := make([]Link, hosts)
	found := 0
	for line := range strings.Lines(text) {
		name, counters, _ := strings.Cut(line, ":")
		fields := strings.Fields(counters)
		for i := range links {
			if strings.TrimSpace(name) != segment.Port(i) || len(fields) < 16 {
				continue
			}
			var errs [2]error
			links[i].Out, errs[0] = strconv.ParseFloat(fields[0], 64)
			links[i].In, errs[1] = strconv.ParseFloat(fields[8], 64)
			if errs == [2]error{} {
				found++
			}
		}
	}
	if found != hosts {
		return nil, fmt.Errorf("/proc/net/dev has counters of %d ports: expected %d\n%s", found, hosts, text)
	}
	return links, nil
}

// between is what an iteration has sent between two readings.
func between(before, after []Link, iters int) []Link {
	each := make([]Link, len(after))
	for i := range each {
		each[i] = Link{(after[i].Out - before[i].Out) / float64(iters), (after[i].In - before[i].In) / float64(iters)}
	}
	return each
}

// busiest is the most that a link carried one way.
func busiest(links []Link) float64 {
	most := 0.0
	for _, l := range links {
		most = max(most, l.Out, l.In)
	}
	return most
}

// leastOver is what some link of so many hosts has to carry one way, in bytes, whatever the
// algorithm: to reduce, a host's vector must leave it but for what the host itself reduces, and
// what others have reduced must come to it.
func (c cell) leastOver(hosts int) float64 {
	if hosts == 0 {
		return 0
	}
	vector, h := float64(c.count()*elemSize), float64(hosts)
	switch c.op {
	case collective.OpAllReduce:
		return 2 * (h - 1) / h * vector
	case collective.OpReduceScatter, collective.OpAllGather:
		return (h - 1) / h * vector
	case collective.OpBroadcast, collective.OpReduce:
		return vector
	}
	return 0
}

// linkTable is what the busiest link carried, in bytes an iteration; empty without hosts.
func (r *Results) linkTable(op collective.Operation, ranks int) string {
	shown := r.present(op, ranks, rolePeer, roleOurs)
	if r.options.hosts == 0 || len(shown) == 0 {
		return ""
	}
	return r.sizeTable(op, ranks, append([]string{"least"}, names(shown)...), func(c *cellResults) []string {
		row := []string{whole(c.leastOver(r.options.hosts))}
		for _, who := range shown {
			text := "-"
			if times := c.of[who.name]; times.median() > 0 {
				text = whole(busiest(times.links()))
			}
			row = append(row, text)
		}
		return row
	})
}

// links are the medians of all rounds.
func (t *times) links() []Link {
	if t == nil || len(t.over) == 0 {
		return nil
	}
	list := make([]Link, len(t.over[0]))
	for i := range list {
		var out, in []float64
		for _, round := range t.over {
			out, in = append(out, round[i].Out), append(in, round[i].In)
		}
		list[i] = Link{spread(out).Median, spread(in).Median}
	}
	return list
}

// checkHosts refuses hosts that cannot be had.
func (o *options) checkHosts() error {
	o.rate = strings.ToLower(o.rate)
	switch {
	case o.hosts == 0:
		return nil
	case o.hosts < 2 || o.hosts > mostHosts:
		return fmt.Errorf("--hosts %d: expected 2 to %d, or 0 for none", o.hosts, mostHosts)
	case !validRate.MatchString(o.rate):
		return fmt.Errorf("--rate %s: expected a number with kbit, mbit or gbit, such as 1gbit", o.rate)
	case o.baseline != "":
		return errors.New("--baseline with --hosts: expected one of both: baselines are of one host")
	case o.noPin:
		return errors.New("--no-pin with --hosts: expected one of both: ranks of hosts are bound to no CPU anyway")
	}
	if i := slices.IndexFunc(o.rankNumbers, func(n int) bool { return n%o.hosts != 0 }); i >= 0 {
		return fmt.Errorf("--ranks %d with --hosts %d: expected a multiple of %d, the ranks of all hosts together", o.rankNumbers[i], o.hosts, o.hosts)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("--hosts %d: hosts are network namespaces, which take root: run it as root, or without --hosts", o.hosts)
	}
	return nil
}
