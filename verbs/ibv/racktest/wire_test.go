package racktest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Between rdma_rxe and soft nothing is lost, under any protocol, and so neither takes
// anything for lost: what the ring's devices count, and what a machine captures, in
// which responses must go out in the order of their PSNs.
func TestWire(t *testing.T) {
	check := build(t, product, "icrccheck", "build", "./verbs/soft/wire/wiretest/icrccheck")
	capture := filepath.Join(shared, "wire.pcap")
	dump := startVM(t, 1, "dumpcap", "-q", "-P", "-B", "64", "-i", "eth0", "-f", "udp port 4791", "-w", capture)
	eventually(t, deadline, "packets are captured", func() bool {
		info, err := os.Stat(capture)
		return err == nil && info.Size() > 0
	})
	seats := []seat{onRXE(1)[0], onSoft(t, 254)}
	script := []string{"counters"} // the device of a machine has counted since it booted
	for _, protocol := range protocols {
		for _, count := range []string{"60000", "2000"} {
			script = append(script, "all-reduce --check --iters 20 --count "+count+" --protocol "+protocol)
		}
	}
	for _, m := range connect(t, seats, "-c", strings.Join(append(script, "counters"), "; ")) {
		if code := m.code(t, 4*deadline); code != 0 {
			t.Fatalf("rank %d, %s: exit code %d (%v)\n%s%s", m.rank, m.seat.device(), code, m.err, m.stdout, m.stderr)
		}
		before, count := map[string]uint64{}, map[string]uint64{} // by provider and name
		ran := false
		for text := range strings.Lines(m.stdout.String()) {
			var l struct {
				Command, Provider, Name string
				Value                   uint64
			}
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Fatalf("rank %d: %v: %q", m.rank, err, text)
			}
			switch name := l.Provider + " " + l.Name; {
			case l.Command != "counters":
				ran = true
			case !ran:
				before[name] = l.Value
			default:
				count[name] = l.Value - before[name]
			}
		}
		if count["soft sent_responses"] == 0 {
			t.Errorf("rank %d: soft has sent no responses: %v", m.rank, count)
		}
		for _, name := range []string{"soft implied_nak_seq_err", "soft packet_seq_err", "soft out_of_sequence", "soft sent_naks",
			"ibv rcvd_seq_err", "ibv out_of_seq_request"} {
			if count[name] != 0 {
				t.Errorf("rank %d: %s is %d: %v", m.rank, name, count[name], count)
			}
		}
		if count["soft retransmitted_requests"] != count["soft retransmitted_by_timer"] {
			t.Errorf("rank %d: requests were sent again, and not by a timer: %v", m.rank, count)
		}
	}
	time.Sleep(time.Second) // dumpcap reads in blocks
	inVM(t, 1, "pkill", "-INT", "dumpcap")
	dump.wait(t, deadline)
	out, err := exec.Command(check, capture).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "RC_READ_RESP_FIRST") {
		t.Errorf("%v\n%.5000s", err, out)
	}
	t.Logf("%.2000s", out)
}
