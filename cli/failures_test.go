package cli

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// told is how a rank ends that a bring-up fails for: exit code and code of the failure,
// and what it says.
type told struct {
	exit  int
	code  string
	words []string
}

// ends runs a rank to its end and compares.
func (c told) ends(t *testing.T, rank int, p *process) {
	t.Helper()
	code := p.end(t, hung)
	all := objects(t, p.stdout.String())
	if len(all) == 0 {
		t.Fatalf("rank %d: exit code %d, nothing in JSON\n%s", rank, code, p.stderr.String())
	}
	last := all[len(all)-1]
	said := fmt.Sprint(last["error"])
	if code != c.exit || last["code"] != c.code {
		t.Errorf("rank %d: exit code %d, %v: expected %d, %s\n%s", rank, code, last["code"], c.exit, c.code, said)
	}
	says(t, said, c.words...)
}

// Bring-ups that fail on one host: both ends say why, with the failure's code. A rank
// without a line of its own is not started.
func TestFailuresOfABringUp(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	greets := func(greeting string) func(net.Conn) {
		return func(c net.Conn) { _, _ = c.Write([]byte(greeting)) }
	}
	mtu := []string{"the path MTU differs", "1024 (--mtu)", "2048 (--mtu)", "give all nodes the same --mtu"}
	lists := []string{"a list of 2 nodes", "one of 3", "give all nodes the same --list"}
	devices := []string{"the device differs", "has shm", "has soft", "give both ranks --device shm or auto"}
	slots := []string{"the number of slots differs", "has 16", "has 8", "the same --slots"}
	for name, c := range map[string]struct {
		flags  [2]string // of the ranks; "-" is not started, and LIST the list
		at1    func(net.Conn)
		expect [2]told
	}{
		"refused": {flags: [2]string{"", "-"}, expect: [2]told{
			{exit.Critical, "absent", []string{"rank 1 (", "is not running (connection refused)"}},
		}},
		"silence": {flags: [2]string{"", "-"}, at1: func(net.Conn) {}, expect: [2]told{
			{exit.Critical, "absent", []string{"rank 1 (", "connected, but ", "stopped, or not ringcli"}},
		}},
		"another program": {flags: [2]string{"", "-"}, at1: greets("SSH-2.0-OpenSSH_9.2\r\n"), expect: [2]told{
			{exit.Critical, "absent", []string{"rank 1 (", `an SSH program ("SSH-2.0-OpenSSH_9.2") is there, not ringcli`}},
		}},
		"half a frame": {flags: [2]string{"", "-"}, at1: greets("RNGC\x00\x00\x01\x00{"), expect: [2]told{
			{exit.Critical, "absent", []string{"rank 1 (", "sent 1 of the 256 bytes of a frame"}},
		}},
		"the port is taken": {flags: [2]string{"-", ""}, at1: greets("220 ready\r\n"), expect: [2]told{
			1: {exit.Usage, "port-taken", []string{"the port is in use", "another program holds it", "(host:port)"}},
		}},
		"one index twice": {flags: [2]string{"", "--index 0"}, expect: [2]told{
			{exit.Usage, "list-mismatch", []string{"index 0", "give", "its own --index"}},
			{exit.Usage, "list-mismatch", []string{"index 0", "give", "its own --index"}},
		}},
		"lists": {flags: [2]string{"", "--list LIST,127.0.0.1:18999"}, expect: [2]told{
			{exit.Usage, "list-mismatch", lists}, {exit.Usage, "list-mismatch", lists},
		}},
		"path MTU":  {flags: [2]string{"--mtu 1024", "--mtu 2048"}, expect: [2]told{{exit.Usage, "mtu-mismatch", mtu}, {exit.Usage, "mtu-mismatch", mtu}}},
		"slots":     {flags: [2]string{"", "--slots 8"}, expect: [2]told{{exit.Usage, "mismatch", slots}, {exit.Usage, "mismatch", slots}}},
		"providers": {flags: [2]string{"--device shm", ""}, expect: [2]told{{exit.Usage, "device-mismatch", devices}, {exit.Usage, "device-mismatch", devices}}},
		"empty GID": {flags: [2]string{"--gid-index 200", "-"}, expect: [2]told{
			{exit.Usage, "no-gid", []string{"gid-index 200 of port 1 of soft:lo: the entry is empty", "expected one that is in use: 0"}},
		}},
		"no device": {flags: [2]string{"--device soft:eth99", "-"}, expect: [2]told{
			{exit.Usage, "no-device", []string{`device "soft:eth99"`, "expected one of", "soft:lo", "ringcli devices lists them"}},
		}},
		"address": {flags: [2]string{"--list 198.51.100.1,198.51.100.2", "-"}, expect: [2]told{
			{exit.Usage, "address-foreign", []string{"entry 0 of the list, 198.51.100.1", "--index 0", "no interface here has that address", "`ip address`"}},
		}},
		"name": {flags: [2]string{"--list no-such-host.invalid,127.9.9.9 --timeout 2s", "-"}, expect: [2]told{
			{exit.Usage, "host-unknown", []string{"entry 0", "no-such-host.invalid", "cannot be resolved"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := freshList(t, 2)
			if c.at1 != nil {
				l, err := net.Listen("tcp4", list[1])
				for tries := 0; errors.Is(err, syscall.EADDRINUSE) && tries < 10; tries++ { // another package's test has it
					list = freshList(t, 2)
					l, err = net.Listen("tcp4", list[1])
				}
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = l.Close() }()
				go func() {
					for {
						conn, err := l.Accept()
						if err != nil {
							return
						}
						c.at1(conn)
						time.AfterFunc(10*time.Second, func() { _ = conn.Close() })
					}
				}()
			}
			both := strings.Join(list, ",")
			patience := "20s"
			if c.flags[0] == "-" || c.flags[1] == "-" { // nobody will come
				patience = "3s"
			}
			var ranks [2]*process
			for rank, flags := range c.flags {
				if flags != "-" {
					args := []string{"connect", "--index", fmt.Sprint(rank), "--list", both, "--timeout", patience, "--output", "json", "-c", "ping"}
					ranks[rank] = launch(t, append(args, strings.Fields(strings.ReplaceAll(flags, "LIST", both))...)...)
				}
			}
			for rank, p := range ranks {
				if p != nil {
					c.expect[rank].ends(t, rank, p)
				}
			}
		})
	}
}

// Bring-ups that fail for the network, between two nodes with a network of their own.
func TestFailuresOfANetwork(t *testing.T) {
	verbstest.Long(t)
	const both = "10.77.0.1,10.77.0.2"
	mute := told{exit.Critical, "unreachable", []string{"rank 0 (10.77.0.1:18600)", "host down", "firewall"}}
	filtered := told{exit.Critical, "edge", []string{"what rank 0 (10.77.0.1:18600) sends to rank 1 (10.77.0.2:18600) over UDP port 4791 does not arrive; what rank 1 sends does"}}
	tooLong := []string{"mtu 4096: expected at most 1024, the active MTU of soft:eth0"}
	for name, c := range map[string]struct {
		happens func(t *testing.T, names island)
		list    string
		flags   [2]string
		expect  [2]told
		long    bool // it waits for deadlines
	}{
		"port down": {func(t *testing.T, names island) { ip(t, "-n", names[0], "link", "set", "dev", "eth0", "down") }, both, [2]string{}, [2]told{
			{exit.Critical, "port-down", []string{"10.77.0.1 is an address of eth0, which is down: ip link set eth0 up"}}, mute,
		}, false},
		"port down, named": {func(t *testing.T, names island) { ip(t, "-n", names[0], "link", "set", "dev", "eth0", "down") }, both, [2]string{"--device soft:eth0", "-"}, [2]told{
			{exit.Critical, "port-down", []string{`device "soft:eth0": interface eth0 is down: ip link set eth0 up`}},
		}, false},
		"no carrier": {func(t *testing.T, names island) {
			ip(t, "-n", names.bridge(), "link", "set", "dev", "port0", "down")
		}, both, [2]string{"", "-"}, [2]told{
			{exit.Critical, "port-down", []string{"10.77.0.1 is an address of eth0, which is up and has no carrier: look at the cable and the switch's port"}},
		}, false},
		"no route": {nil, "10.77.0.1,192.0.2.1", [2]string{"", "-"}, [2]told{
			{exit.Critical, "unreachable", []string{"rank 1 (192.0.2.1:18600): network is unreachable: this node has no route there (ip route get 192.0.2.1)"}},
		}, false},
		"nobody at that address": {nil, "10.77.0.1,10.77.0.9", [2]string{"", "-"}, [2]told{
			{exit.Critical, "unreachable", []string{"rank 1 (10.77.0.9:18600)"}},
		}, true},
		"above the active MTU": {nil, both, [2]string{"--mtu 4096", "-"}, [2]told{{exit.Usage, "mtu-mismatch", tooLong}}, false},
		"UDP filtered": {func(t *testing.T, names island) {
			names.drop(t, 1, "from", "10.77.0.1", "ipproto", "udp", "dport", "4791")
		}, both, [2]string{}, [2]told{filtered, filtered}, true},
	} {
		t.Run(strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", ""), func(t *testing.T) {
			if c.long && testing.Short() {
				t.Skip("it waits for deadlines; `make test-long` runs it")
			}
			t.Parallel()
			names := newIsland(t, 2)
			if c.happens != nil {
				c.happens(t, names)
			}
			var ranks [2]*process
			for rank, flags := range c.flags {
				if flags == "-" {
					continue
				}
				p := program(t, append([]string{"connect", "--index", fmt.Sprint(rank), "--list", c.list, "--timeout", "1500ms", "--output", "json", "-c", "ping"}, strings.Fields(flags)...)...)
				if name == "UDP filtered" { // it comes up
					p.Args = append(p.Args, "--timeout", "20s")
				}
				p.in(names[rank]).start(t)
				ranks[rank] = p
			}
			for rank, p := range ranks {
				if p != nil {
					c.expect[rank].ends(t, rank, p)
				}
			}
		})
	}
}
