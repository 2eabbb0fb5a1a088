package racktest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"ringcli/verbs/ibv/racktest/rack"
)

// What the kernel and its devices refuse is told with the failure's code and with what to do:
// of a ring of one, which is its own neighbour.
func TestFailures(t *testing.T) {
	const node = 1
	ringcli := binary(t, "ringcli")
	own := bench.Address(node).String()
	byHand := func(rtr string) []string {
		return []string{ringcli, "shell", "--device", "ibv:rxe0", "--index", "0", "--list", own, "--output", "json", "-c", "open; init; exchange; " + rtr}
	}
	change := func(t *testing.T, how, back string) {
		inVM(t, node, "sh", "-c", how)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), deadline)
			defer cancel()
			if _, err := bench.Command(ctx, node, "sh", "-c", back).Output(); err != nil {
				t.Error(err)
			}
		})
	}
	connect := []string{ringcli, "connect", "--device", "ibv:rxe0", "--index", "0", "--list", own, "--output", "json", "-c", "ping"}
	for _, c := range []struct {
		name    string
		happens func(t *testing.T)
		args    []string
		code    string
		words   []string
	}{
		{"no uverbs in a container", nil, append([]string{"unshare", "-m", "sh", "-c", `mount -t tmpfs none /dev/infiniband && exec "$@"`, "sh"}, connect...),
			"no-device", []string{"rxe0", "/dev/infiniband"}},
		{"locked memory", nil, append([]string{"prlimit", "--memlock=65536", "setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"}, connect...),
			"memlock", []string{"register", "locked memory is limited to 64 KiB", "needs", "ulimit -l unlimited", "--ulimit memlock=-1"}},
		{"nobody at the peer's GID", nil, byHand("rtr --dgid ::ffff:10.77.0.99"),
			"unreachable", []string{"INIT→RTR", "ah_attr.grh.dgid 10.77.0.99: nobody answers", "ip neigh show 10.77.0.99", ">>> ah_attr {", "path_mtu"}},
		// Linux takes an address without a route for one of the device's own network.
		{"no route to the peer's GID", nil, byHand("rtr --dgid ::ffff:192.0.2.9"),
			"unreachable", []string{"INIT→RTR", "ah_attr.grh.dgid 192.0.2.9: nobody answers", "on the same network?"}},
		{"an empty row of the GID table", nil, append(connect, "--gid-index", "77"), "no-gid", []string{"gid-index 77 of port 1 of ibv:rxe0", "expected one that is in use"}},
		{"path MTU above the port's", func(t *testing.T) {
			change(t, "ip link set eth0 mtu 1500", "ip link set eth0 mtu 9000")
		}, byHand("rtr --mtu 4096"), "mtu-mismatch", []string{"path_mtu 4096 is above the port's active MTU 1024", ">>> path_mtu 4096 <<<"}},
		{"port down", func(t *testing.T) {
			t.Cleanup(func() { restore(t, node) })
			if err := bench.Link(node, rack.LinkDown); err != nil {
				t.Fatal(err)
			}
		}, connect, "port-down", []string{"port 1 of ibv:rxe0 is DOWN: expected ACTIVE", "ip link set eth0 up"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.happens != nil {
				c.happens(t)
			}
			out, err := tryVM(t, 2*deadline, node, c.args...)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			var last struct{ Code, Error string }
			if jsonErr := json.Unmarshal([]byte(lines[len(lines)-1]), &last); jsonErr != nil {
				t.Fatalf("%v, %v: %s", err, jsonErr, out)
			}
			if err == nil || last.Code != c.code {
				t.Errorf("%v: %s, expected %s\n%s", err, last.Code, c.code, out)
			}
			for _, w := range c.words {
				if !strings.Contains(last.Error, w) {
					t.Errorf("%q is not said: %s", w, last.Error)
				}
			}
		})
	}
}
