package cli

import (
	"fmt"
	"os/exec"
	"testing"
)

// TestChannelsOverTwoPaths: two nodes are joined by two links of one rate each. Two channels,
// one over each, carry all-reduce at least 1.7 times as fast as one channel over one of them.
func TestChannelsOverTwoPaths(t *testing.T) {
	if _, err := exec.LookPath("tc"); err != nil {
		t.Skipf("needs tc: %v", err)
	}
	names := []string{namespace(t, 0), namespace(t, 1)}
	for link := range 2 {
		device := fmt.Sprintf("rail%d", link)
		ip(t, "-n", names[0], "link", "add", "name", device, "type", "veth", "peer", "name", device, "netns", names[1])
		for node, name := range names {
			ip(t, "-n", name, "address", "add", fmt.Sprintf("10.77.%d.%d/24", link, node+1), "dev", device)
			ip(t, "-n", name, "link", "set", "dev", device, "up")
			// All that is in flight fits its queue.
			out, err := exec.Command("tc", "-n", name, "qdisc", "add", "dev", device, "root", "tbf", "rate", "100mbit", "burst", "128kb", "limit", "8mb").CombinedOutput()
			if err != nil {
				t.Skipf("needs a kernel that limits rates: %v: %s", err, out)
			}
		}
	}
	for link := range 2 {
		for _, name := range names {
			awaitCarrier(t, name, fmt.Sprintf("rail%d", link))
		}
	}
	measure := func(devices string, channels int) float64 {
		var nodes [2]*process
		for node := range nodes {
			nodes[node] = program(t, "connect", "--list", "10.77.0.1,10.77.0.2", "--index", fmt.Sprint(node), "--device", devices, "--channels", fmt.Sprint(channels),
				"--qp-timeout", "18", "--output", "json", "-c", "all-reduce --size 4M --iters 4 --warmup 1 --check --protocol rendezvous; status; counters").in(names[node])
			nodes[node].start(t)
		}
		for node, p := range nodes {
			if code := p.end(t, hung); code != 0 {
				t.Fatalf("%s: node %d: exit code %d\n%s%s", devices, node, code, p.stdout.String(), p.stderr.String())
			}
		}
		var busbw float64
		used := map[any]bool{}
		for _, o := range objects(t, nodes[0].stdout.String()) {
			switch {
			case o["command"] == "all-reduce":
				busbw = o["busbw_GBps"].(float64)
				if o["wrong"] != float64(0) {
					t.Errorf("%s: %v", devices, o)
				}
			case o["command"] == "status" && o["side"] != nil:
				used[o["device"]] = true
			}
		}
		if len(used) != channels {
			t.Errorf("%s: queue pairs are on %v", devices, used)
		}
		return busbw
	}
	for try := range 4 { // others may have the CPUs
		one, two := measure("soft:rail0", 1), measure("soft:rail0,soft:rail1", 2)
		t.Logf("one channel %.4f GB/s, two %.4f: %.2f times", one, two, two/one)
		if two >= 1.7*one {
			return
		}
		if try == 3 {
			t.Errorf("two channels over two links carry %.4f GB/s, one over one %.4f: %.2f times as much, expected at least 1.7", two, one, two/one)
		}
	}
}
