package cli

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// namespace makes a network namespace, the n-th of this test, and deletes it with the test.
func namespace(t *testing.T, n int) (name string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("needs ip: %v", err)
	}
	name = fmt.Sprintf("ringcli-%d-%s-%d", os.Getpid(), notOfNames.ReplaceAllString(t.Name(), "-"), n)
	ip(t, "netns", "add", name)
	t.Cleanup(func() { ip(t, "netns", "delete", name) })
	ip(t, "-n", name, "link", "set", "dev", "lo", "up")
	return name
}

var notOfNames = regexp.MustCompile(`[^A-Za-z0-9]+`)

// in has a process that has not been started run in a network namespace.
func (p *process) in(namespace string) *process {
	p.Args = append([]string{"ip", "netns", "exec", namespace}, p.Args...)
	p.Path, p.Err = exec.LookPath("ip")
	return p
}

// island is network namespaces on one Ethernet segment: node i has 10.77.0.(i+1).
type island []string

// newIsland makes one of n nodes, and a namespace for the switch.
func newIsland(t *testing.T, n int) island {
	t.Helper()
	var names island
	for i := range n + 1 {
		names = append(names, namespace(t, i))
	}
	bridge := names[n]
	ip(t, "-n", bridge, "link", "add", "name", "switch0", "type", "bridge")
	ip(t, "-n", bridge, "link", "set", "dev", "switch0", "up")
	for i, name := range names[:n] {
		port := fmt.Sprintf("port%d", i)
		ip(t, "-n", bridge, "link", "add", "name", port, "type", "veth", "peer", "name", "eth0", "netns", name)
		ip(t, "-n", bridge, "link", "set", "dev", port, "master", "switch0", "up")
		ip(t, "-n", name, "address", "add", fmt.Sprintf("10.77.0.%d/24", i+1), "dev", "eth0")
		ip(t, "-n", name, "link", "set", "dev", "eth0", "up")
	}
	for _, name := range names[:n] {
		awaitCarrier(t, name, "eth0")
	}
	return names[:n]
}

// awaitCarrier waits until a device has its carrier, of which the kernel tells a moment later.
func awaitCarrier(t *testing.T, namespace, device string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		out, err := exec.Command("ip", "-n", namespace, "link", "show", "dev", device).CombinedOutput()
		if err == nil && strings.Contains(string(out), " state UP ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s has no carrier: %v\n%s", device, err, out)
		}
	}
}

// list is the nodes' addresses, as --list takes them.
func (names island) list() string {
	list := make([]string, len(names))
	for i := range names {
		list[i] = fmt.Sprintf("10.77.0.%d", i+1)
	}
	return strings.Join(list, ",")
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
