package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// names is the /etc/hosts of a node, and what is asked besides.
type names struct {
	t     *testing.T
	hosts string // a file
	nss   string // so, nsswitch.conf
}

// newNames makes one. It is on no name server.
func newNames(t *testing.T, lines ...string) *names {
	t.Helper()
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skipf("needs unshare: %v", err)
	}
	dir := t.TempDir()
	n := &names{t, filepath.Join(dir, "hosts"), filepath.Join(dir, "nsswitch.conf")}
	if err := os.WriteFile(n.nss, []byte("hosts: files\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	n.set(lines...)
	return n
}

// set replaces the lines, in the same file, which is mounted.
func (n *names) set(lines ...string) {
	n.t.Helper()
	if err := os.WriteFile(n.hosts, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// on has a process that has not been started ask these names.
func (n *names) on(p *process) *process {
	const mount = `mount --bind "$0" /etc/hosts && mount --bind "$1" /etc/nsswitch.conf && shift && exec "$@"`
	p.Args = append([]string{"unshare", "--mount", "sh", "-c", mount, n.hosts, n.nss}, p.Args...)
	p.Path, p.Err = exec.LookPath("unshare")
	return p
}

// A name that gets its address later, as a pod's does, is waited for.
func TestNamesThatResolveLater(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for command, words := range map[string][]string{
		"connect": {"connect", "-c", "ping"},
		"bench":   {"bench", "p2p", "--iters", "2"},
		"links":   {"links", "--size", "4K"},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			nodes := newIsland(t, 2)
			both := []string{"10.77.0.1 a-0.svc", "10.77.0.2 a-1.svc"}
			known := []*names{newNames(t, both[0]), newNames(t, both...)}
			var ranks []*piped
			for i, rank := range []string{"0", "1"} {
				args := append(words[:len(words):len(words)], "--index", rank, "--list", "a-0.svc,a-1.svc", "--device", "soft")
				ranks = append(ranks, piping(t, known[i].on(program(t, args...)).in(nodes[i])))
			}
			ranks[0].await(ranks[0].err, `waiting for the address of .*a-1.svc`, 1)
			known[0].set(both...)
			for rank, p := range ranks {
				// How fast the links are depends on what else the machine does.
				if code := p.over(); code != exit.OK && (command != "links" || code != exit.Warning) {
					t.Errorf("rank %d: exit code %d\n%s%s", rank, code, p.out, p.err)
				}
			}
		})
	}
}

// A name that never gets an address is named at the deadline, with what was asked.
func TestNamesThatNeverResolve(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		want string // in what is printed
	}{
		"connect":  {[]string{"connect", "--index", "0", "-c", "ping"}, exit.Usage, `entry 1, "a-1.svc", cannot be resolved: lookup a-1.svc: no such host (asked: /etc/hosts); asked again for 2`},
		"doctor":   {[]string{"doctor", "--index", "0"}, exit.Critical, "lookup a-1.svc: no such host (asked: /etc/hosts)"},
		"lab":      {[]string{"lab", "c", "--index", "0"}, exit.Usage, `"a-1.svc", cannot be resolved`},
		"a typo":   {[]string{"connect", "--index", "0", "--list", "a-0.svc,10.0.0.256", "-c", "ping"}, exit.Usage, `"10.0.0.256": neither an IPv4 address nor a host name`},
		"a master": {[]string{"connect", "--list", "", "--index", "1", "--world-size", "2", "--master-addr", "a-1.svc", "--master-port", "18777"}, exit.Critical, `"a-1.svc" has no address: lookup a-1.svc: no such host (asked: /etc/hosts)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newNames(t, "10.77.0.1 a-0.svc").on(program(t, append([]string{c.args[0]}, append([]string{"--list", "a-0.svc,a-1.svc", "--timeout", "2s"}, c.args[1:]...)...)...)).in(newIsland(t, 2)[0])
			p.start(t)
			code := p.end(t, hung)
			if text := p.stdout.String() + p.stderr.String(); code != c.code || !strings.Contains(text, c.want) {
				t.Errorf("exit code %d: expected %d and %q\n%s", code, c.code, c.want, text)
			}
		})
	}
}

// A name that only a module of glibc's name service switch knows is asked of getent, which stands
// in for the module here: it is not installed everywhere.
func TestNamesOfTheNameServiceSwitch(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for name, c := range map[string]struct {
		nss  string
		code int
		want string
	}{
		"a module":         {"files libvirt [NOTFOUND=return] dns", exit.OK, "0 -> 0"},
		"no module":        {"files", exit.Usage, "cannot be resolved: lookup guest7: no such host (asked: /etc/hosts);"},
		"unknown to it":    {"files mymachines", exit.Usage, "; getent, for mymachines: no such host);"},
		"without a getent": {"files ldap", exit.Usage, `getent, for ldap: exec: "getent": executable file not found`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known, dir := newNames(t, "127.0.0.1 localhost"), t.TempDir()
			if err := os.WriteFile(known.nss, []byte("hosts: "+c.nss+" # as on this node\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			script := "#!/bin/sh\n[ \"$1 $2\" = 'ahosts guest7' ] && grep -q libvirt /etc/nsswitch.conf || exit 2\necho '127.83.7.7 STREAM guest7'; echo '127.83.7.7 DGRAM'\n"
			path := dir + ":/usr/bin:/bin"
			if name == "without a getent" {
				path = dir
			} else if err := os.WriteFile(filepath.Join(dir, "getent"), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			p := program(t, "connect", "--index", "0", "--list", "guest7", "--timeout", "2s", "-c", "ping")
			p.Args = append([]string{"/usr/bin/env", "PATH=" + path}, p.Args...)
			known.on(p).in(namespace(t, 0))
			p.start(t)
			code := p.end(t, hung)
			if text := p.stdout.String() + p.stderr.String(); code != c.code || !strings.Contains(text, c.want) {
				t.Errorf("exit code %d: expected %d and %q\n%s", code, c.code, c.want, text)
			}
		})
	}
}

// A rank that waits for a name is not accused of being absent.
func TestOthersLearnThatANameIsAwaited(t *testing.T) {
	t.Parallel()
	nodes := newIsland(t, 2)
	both := []string{"10.77.0.1 a-0.svc", "10.77.0.2 a-1.svc"}
	known := []*names{newNames(t, both[0]), newNames(t, both...)}
	args := []string{"connect", "-c", "ping", "--list", "a-0.svc,a-1.svc", "--device", "soft"}
	waits := piping(t, known[0].on(program(t, append(args, "--index", "0", "--timeout", "60s")...)).in(nodes[0]))
	waits.await(waits.err, `waiting for the address of .*a-1.svc`, 1)
	other := known[1].on(program(t, append(args, "--index", "1", "--timeout", "2s")...)).in(nodes[1])
	other.start(t)
	if code, want := other.end(t, hung), `rank 0 (a-0.svc:18600) is awaited to connect, and is up (open: its host knows no address of "a-1.svc" yet)`; code != exit.Critical || !strings.Contains(other.stderr.String(), want) {
		t.Errorf("exit code %d: expected %q\n%s", code, want, other.stderr.String())
	}
}

// A neighbour that is at another address now is found there: by a rank that waits for it, and by
// reconnect.
func TestANameMoves(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	nodes := newIsland(t, 2)
	const first = "10.77.0.1 a-0.svc"
	known := []*names{newNames(t, first, "10.77.0.9 a-1.svc"), newNames(t, first, "10.77.0.2 a-1.svc")}
	start := func(rank int, more ...string) *piped {
		p := program(t, append(more, "--index", strconv.Itoa(rank), "--list", "a-0.svc,a-1.svc", "--device", "soft", "--timeout", "60s", "--output", "json")...)
		p.Env = append(p.Env, "RINGCLI_TOKEN=a token of nobody but this test")
		return piping(t, known[rank].on(p).in(nodes[rank]))
	}
	leader, follower := start(0, "shell"), start(1, "connect", "--follow")
	leader.line("connect")
	for end := time.Now().Add(hung); ; time.Sleep(20 * time.Millisecond) { // until it calls the old address
		if out, _ := exec.Command("ip", "-n", nodes[0], "neighbour", "show", "10.77.0.9").Output(); len(out) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it does not call 10.77.0.9\n%s%s", leader.out, leader.err)
		}
	}
	known[0].set(first, "10.77.0.2 a-1.svc")
	leader.await(leader.err, "has the address 10.77.0.2 now", 1)
	computes(t, leader, 0, 2)
	_ = follower.Process.Kill()
	_ = follower.Wait() // it was killed
	ip(t, "-n", nodes[1], "address", "delete", "10.77.0.2/24", "dev", "eth0")
	ip(t, "-n", nodes[1], "address", "add", "10.77.0.3/24", "dev", "eth0")
	for _, n := range known {
		n.set(first, "10.77.0.3 a-1.svc")
	}
	start(1, "connect", "--follow")
	leader.line("reconnect")
	leader.await(leader.out, `"command":"reconnect"`, 1)
	computes(t, leader, 1, 2)
}

// All addresses of a name are tried, whichever family answers.
func TestNamesOfTwoFamilies(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for name, c := range map[string]struct {
		hosts []string
		want  string // in the status of both
	}{
		"IPv4 without a host":   {[]string{"10.77.0.98 a-0", "fd77::1 a-0", "10.77.0.99 a-1", "fd77::2 a-1"}, `"gid":"fd77::`},
		"IPv4 without a route":  {[]string{"203.0.113.1 a-0", "fd77::1 a-0", "203.0.113.2 a-1", "fd77::2 a-1"}, `"gid":"fd77::`},
		"IPv6 without a route":  {[]string{"2001:db8::1 a-0", "10.77.0.1 a-0", "2001:db8::2 a-1", "10.77.0.2 a-1"}, `"gid":"::ffff:10.77.0.`},
		"IPv6 without a host":   {[]string{"fd77::98 a-0", "10.77.0.1 a-0", "fd77::99 a-1", "10.77.0.2 a-1"}, `"gid":"::ffff:10.77.0.`},
		"one has no IPv4":       {[]string{"10.77.0.1 a-0", "fd77::1 a-0", "fd77::2 a-1"}, `"gid":"fd77::`},
		"both, and both answer": {[]string{"fd77::1 a-0", "10.77.0.1 a-0", "10.77.0.2 a-1", "fd77::2 a-1"}, `"gid":"::ffff:10.77.0.`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, known := newIsland(t, 2), newNames(t, c.hosts...)
			var ranks []*process
			for i, address := range []string{"fd77::1/64", "fd77::2/64"} {
				ip(t, "-n", nodes[i], "address", "add", address, "dev", "eth0", "nodad")
			}
			for i, rank := range []string{"0", "1"} {
				p := known.on(program(t, "connect", "--index", rank, "--list", "a-0,a-1", "--device", "soft", "--print", "all", "-c", "status; ping", "--output", "json")).in(nodes[i])
				p.start(t)
				ranks = append(ranks, p)
			}
			for rank, p := range ranks {
				if code, out := p.end(t, hung), p.stdout.String(); code != exit.OK || !strings.Contains(out, c.want) {
					t.Errorf("rank %d: exit code %d, expected %s\n%s%s", rank, code, c.want, out, p.stderr.String())
				}
			}
		})
	}
}

// containers is two hosts, each with a bridge of its own by the same network as default route,
// and a network that both are in.
func containers(t *testing.T) []string {
	nodes := newIsland(t, 2)
	for i, name := range nodes {
		ip(t, "-n", name, "address", "flush", "dev", "eth0")
		ip(t, "-n", name, "address", "add", fmt.Sprintf("10.9.0.%d/24", i+1), "dev", "eth0")
		ip(t, "-n", name, "link", "add", "name", "docker0", "type", "veth", "peer", "name", "container0")
		for _, link := range []string{"docker0", "container0"} {
			ip(t, "-n", name, "link", "set", "dev", link, "up")
		}
		ip(t, "-n", name, "address", "add", fmt.Sprintf("172.17.0.%d/16", i+2), "dev", "docker0")
		ip(t, "-n", name, "route", "add", "default", "via", "172.17.0.1", "dev", "docker0")
	}
	return nodes
}

// The ring is on the network over which the ranks have reached rank 0, whatever the default
// routes say; where it is on another, the error names --advertise with that network.
func TestTheNetworkOfRank0(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"by itself":           {nil, exit.OK, `"gid":"::ffff:10.9.0.`},
		"by its network":      {[]string{"--advertise", "10.9.0.0/24"}, exit.OK, `"gid":"::ffff:10.9.0.`},
		"another":             {[]string{"--advertise", "172.17.0.0/16", "--timeout", "8s"}, exit.Critical, "all hosts have an address in 10.9.0.0/24, too: --advertise 10.9.0.0/24 would take that network"},
		"one that nobody has": {[]string{"--advertise", "10.8.0.0/24"}, exit.Usage, "advertise is the network 10.8.0.0/24, and this host has no address in it: expected one of "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := containers(t)
			var ranks []*process
			for i, rank := range []string{"0", "1"} {
				p := program(t, append([]string{"connect", "--device", "soft", "--print", "all", "-c", "status; ping", "--output", "json"}, c.args...)...).in(nodes[i])
				p.Env = append(p.Env, "RANK="+rank, "WORLD_SIZE=2", "MASTER_ADDR=10.9.0.1", "MASTER_PORT=18700")
				p.start(t)
				ranks = append(ranks, p)
			}
			for rank, p := range ranks {
				code := p.end(t, hung)
				if text := p.stdout.String() + p.stderr.String(); code != c.code || !strings.Contains(text, c.want) {
					t.Errorf("rank %d: exit code %d, expected %d and %s\n%s", rank, code, c.code, c.want, text)
				}
			}
		})
	}
}
