package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringcli/cli/exit"
)

// Commands that need no data path run where the bring-up has failed, on all ranks that found each
// other, and the exit code stays that of the bring-up.
func TestDiagnosisOfABrokenRing(t *testing.T) {
	t.Parallel()
	nodes := newIsland(t, 3)
	nodes.drop(t, 2, "from", "10.77.0.2", "ipproto", "udp", "dport", "4791")
	out := filepath.Join(t.TempDir(), "r.tar.gz")
	var ranks []*process
	for i := range nodes {
		p := program(t, "connect", "--index", string(rune('0'+i)), "--list", nodes.list(), "--timeout", "20s", "--output", "json", "-c", "all-reduce; doctor; path; report --out "+out)
		p.in(nodes[i]).start(t)
		ranks = append(ranks, p)
	}
	for i, p := range ranks {
		if code := p.end(t, hung); code != exit.Critical {
			t.Errorf("rank %d: exit code %d\n%s%s", i, code, p.stdout.String(), p.stderr.String())
		}
	}
	seen := map[any]int{}
	for i, o := range objects(t, ranks[0].stdout.String()) {
		seen[o["command"]]++
		if i == 0 && (o["command"] != "connect" || o["exit_code"] != 2.0) {
			t.Errorf("the first line is %v: expected why the ring did not come up", o)
		}
		if bad := o["check"] == "loss" && o["from"] == 1.0 && o["to"] == 2.0; bad != (o["verdict"] == "FAIL" && o["command"] == "path") {
			t.Errorf("%v: expected that the device's packets from rank 1 to rank 2 alone do not arrive", o)
		}
	}
	if seen["doctor"] < 30 || seen["path"] != 31 || seen["report"] != 1 {
		t.Errorf("%v\n%s%s", seen, ranks[0].stdout.String(), ranks[0].stderr.String())
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rank0/doctor.json", "rank2/node/routes.txt"} {
		if archived(t, data)[name] == "" {
			t.Errorf("no %s in the report", name)
		}
	}
}

// Where the other ranks do not come either, the commands are of this node, and the report is written.
func TestDiagnosisOfALonelyRank(t *testing.T) {
	t.Parallel()
	list := freshList(t, 2)
	file := filepath.Join(t.TempDir(), "rank%r.tar.gz")
	code, text, errs := finish(t, "connect", "--index", "1", "--list", strings.Join(list, ","), "--timeout", "1s", "--report-on-failure", file, "-c", "ping; path; doctor --problems")
	if code != exit.Critical || !strings.Contains(text, "of this node alone") || !strings.Contains(text, "path: not run") || !strings.Contains(text, " 0 failed") || strings.Count(errs, "timed out after") != 1 {
		t.Errorf("exit code %d\n%s%s", code, text, errs)
	}
	data, err := os.ReadFile(strings.ReplaceAll(file, "%r", "1"))
	if err != nil {
		t.Fatal(err)
	}
	files := archived(t, data)
	if !strings.Contains(files["failure.txt"], "timed out") || files["recorder.json"] == "" || files["doctor.json"] == "" {
		t.Errorf("%v", files)
	}
}

// An address that two hosts have is named by both ends, before a ring and by one that does not come up.
func TestAddressOfTwoHosts(t *testing.T) {
	t.Parallel()
	nodes := newIsland(t, 3)
	ip(t, "-n", nodes[2], "address", "add", "10.77.0.2/24", "dev", "eth0")
	for i, want := range []string{"2 MAC addresses answer ARP for 10.77.0.2", "another MAC address answers ARP for this node's address"} {
		p := program(t, "doctor", "--index", string(rune('0'+i)), "--list", "10.77.0.1,10.77.0.2,10.99.0.1", "--problems")
		p.in(nodes[i]).start(t)
		code := p.end(t, hung)
		if text := p.stdout.String(); code != exit.Critical || !strings.Contains(text, want) || !strings.Contains(text, "10.99.0.1: network is unreachable") || strings.Contains(text, "10.99.0.1, in the peer's network") {
			t.Errorf("rank %d: exit code %d: expected %q\n%s%s", i, code, want, text, p.stderr.String())
		}
	}
	p := program(t, "connect", "--index", "0", "--list", "10.77.0.1,10.77.0.2", "--timeout", "1s", "-c", "ping")
	p.in(nodes[0]).start(t)
	if code := p.end(t, hung); code != exit.Critical || !strings.Contains(p.stderr.String(), "ringcli: several MAC addresses answer ARP for 10.77.0.2, the address of rank 1 (10.77.0.2:18600): ") {
		t.Errorf("exit code %d\n%s", code, p.stderr.String())
	}
}

// What a direction loses is judged by its own count, also where soft's faults are injected.
func TestPathLoss(t *testing.T) {
	t.Parallel()
	code, text, errs := finish(t, "local", "-n", "2", "--device", "soft", "--inject", "soft: loss 4% out on 0, seed 7", "--output", "json", "-c", "path")
	if code != exit.Warning {
		t.Errorf("exit code %d\n%s%s", code, text, errs)
	}
	for _, o := range objects(t, text) {
		if o["check"] == "loss" && (o["verdict"] == "WARN") != (o["from"] == 0.0) {
			t.Errorf("%v", o)
		}
	}
}

// A carrier that goes and comes is told by the rank whose interface it is, with time and packets.
func TestCarrierThatComesBack(t *testing.T) {
	t.Parallel()
	nodes := newIsland(t, 2)
	file := filepath.Join(t.TempDir(), "log")
	for i := range nodes {
		p := program(t, "connect", "--index", string(rune('0'+i)), "--list", nodes.list(), "--timeout", "30s", "-c", "ping; sleep 10m")
		if i == 1 {
			p.Args = append(p.Args, "--log-file", file)
		}
		p.in(nodes[i]).start(t)
	}
	await := func(words string, times int) string {
		for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			text, _ := os.ReadFile(file)
			if strings.Count(string(text), words) >= times {
				return string(text)
			}
			if time.Since(begun) > hung {
				t.Fatalf("not %d times %q\n%s", times, words, text)
			}
		}
	}
	await(`"ping"`, 1)
	ip(t, "-n", nodes.bridge(), "link", "set", "dev", "port1", "down")
	await("port error", 1)
	ip(t, "-n", nodes.bridge(), "link", "set", "dev", "port1", "up")
	if text := await("had no carrier for ", 1); !strings.Contains(text, "eth0 of rank 1 had no carrier for ") || !strings.Contains(text, " packets were sent again") {
		t.Error(text)
	}
	// One that no message of the kernel tells, since it is over sooner than the next one is due.
	ip(t, "-n", nodes.bridge(), "link", "set", "dev", "port1", "down")
	ip(t, "-n", nodes.bridge(), "link", "set", "dev", "port1", "up")
	await("eth0 of rank 1 had no carrier for ", 2)
}
