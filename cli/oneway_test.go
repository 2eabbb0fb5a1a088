package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"ringcli/cli/clitest"
)

// island is network namespaces on one Ethernet segment: node i has 10.77.0.(i+1).
type island []string

// newIsland makes one of n nodes, and a namespace for the switch.
func newIsland(t *testing.T, n int) island {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("needs ip: %v", err)
	}
	var names island
	for i := range n + 1 {
		name := fmt.Sprintf("ringcli-%d-%s-%d", os.Getpid(), strings.ReplaceAll(filepath.Base(t.Name()), "_", "-"), i)
		ip(t, "netns", "add", name)
		t.Cleanup(func() { ip(t, "netns", "delete", name) })
		names = append(names, name)
	}
	bridge := names[n]
	ip(t, "-n", bridge, "link", "add", "name", "switch0", "type", "bridge")
	ip(t, "-n", bridge, "link", "set", "dev", "switch0", "up")
	for i, name := range names[:n] {
		port := fmt.Sprintf("port%d", i)
		ip(t, "-n", bridge, "link", "add", "name", port, "type", "veth", "peer", "name", "eth0", "netns", name)
		ip(t, "-n", bridge, "link", "set", "dev", port, "master", "switch0", "up")
		ip(t, "-n", name, "address", "add", fmt.Sprintf("10.77.0.%d/24", i+1), "dev", "eth0")
		ip(t, "-n", name, "link", "set", "dev", "lo", "up")
		ip(t, "-n", name, "link", "set", "dev", "eth0", "up")
	}
	for _, name := range names[:n] { // the kernel tells of a carrier a moment later
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			out, err := exec.Command("ip", "-n", name, "link", "show", "dev", "eth0").CombinedOutput()
			if err == nil && strings.Contains(string(out), " state UP ") {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("eth0 has no carrier: %v\n%s", err, out)
			}
		}
	}
	return names[:n]
}

// bridge is the namespace of the switch.
func (names island) bridge() string { return names[:len(names)+1][len(names)] }

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Errorf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// drop has a node drop what comes in and a rule chooses, without a word to the sender:
// the rule comes before the one for the node's own addresses.
func (names island) drop(t *testing.T, node int, rule ...string) {
	t.Helper()
	in := []string{"-n", names[node], "rule"}
	ip(t, append(append(append(in, "add", "pref", "50", "iif", "eth0"), rule...), "blackhole")...)
	ip(t, append(in, "add", "pref", "100", "lookup", "local")...)
	ip(t, append(in, "delete", "pref", "0")...)
}

// Where connections arrive in one direction alone, ranks name it and the cause instead of
// saying that the other waits. The rank that hears more comes first, and waits for long
// enough that the other comes and calls it on a busy machine.
func TestGoldenOneWaySilence(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for deadlines; `make test-long` runs it")
	}
	counts, times := regexp.MustCompile(`\d+ attempts?\b`), regexp.MustCompile(`\b[0-9.]+m?s\b`)
	for name, c := range map[string]struct {
		nodes int
		first int // to start: its deadline passes first
		at    int // which node drops
		rule  []string
	}{
		"port":       {2, 1, 1, []string{"ipproto", "tcp", "dport", "18600"}},
		"all":        {2, 0, 1, []string{"from", "10.77.0.1"}},
		"three-all":  {3, 1, 2, []string{"from", "10.77.0.1"}},
		"three-port": {3, 0, 0, []string{"from", "10.77.0.3", "ipproto", "tcp", "dport", "18600"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			names := newIsland(t, c.nodes)
			ip, err := exec.LookPath("ip")
			if err != nil {
				t.Fatal(err)
			}
			names.drop(t, c.at, c.rule...)
			var list []string
			for i := range names {
				list = append(list, fmt.Sprintf("10.77.0.%d", i+1))
			}
			ranks := make([]*process, c.nodes)
			for turn := range ranks {
				i := (c.first + turn) % c.nodes
				timeout := "30s"
				if turn == 0 {
					timeout = "15s"
				}
				ranks[i] = program(t, "connect", "--index", fmt.Sprint(i), "--list", strings.Join(list, ","), "--timeout", timeout, "-c", "ping")
				ranks[i].Args, ranks[i].Path = append([]string{"ip", "netns", "exec", names[i]}, ranks[i].Args...), ip
				ranks[i].start(t)
				if turn == 0 {
					time.Sleep(time.Second)
				}
			}
			var b strings.Builder
			for i, p := range ranks {
				if code := p.end(t, hung); code != 2 {
					t.Errorf("rank %d: exit code %d", i, code)
				}
				fmt.Fprintf(&b, "rank %d at %s:\n%s", i, list[i], times.ReplaceAllString(counts.ReplaceAllString(reported(p), "N attempts"), "T"))
			}
			clitest.Golden(t, filepath.Join("testdata", "oneway", name+".txt"), b.String())
		})
	}
}
