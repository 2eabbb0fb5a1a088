package cli

import (
	"fmt"
	"strings"
	"testing"
)

// TestChannels: with several queue pairs to each neighbour the counters show each of them carry
// data, status and qp have a row of each, and results are right.
func TestChannels(t *testing.T) {
	for _, device := range []string{"soft:lo", "shm:0"} {
		code, stdout, stderr := finish(t, "local", "-n", "2", "--device", device, "--channels", "4", "--output", "json", "-c",
			"all-reduce --size 1M --segment 32K --protocol eager --iters 3 --check; counters; status; qp right")
		if code != 0 {
			t.Fatalf("%s: exit code %d\n%s%s", device, code, stdout, stderr)
		}
		carried, rows := map[string]float64{}, map[string]int{}
		for _, o := range objects(t, stdout) {
			switch command := o["command"].(string); command {
			case "all-reduce":
				if o["wrong"] != float64(0) {
					t.Errorf("%s: %v", device, o)
				}
			case "counters":
				carried[o["name"].(string)] = o["value"].(float64)
			case "status", "qp":
				if channel, ok := o["channel"]; ok && o["choice"] == nil {
					rows[fmt.Sprintf("%s %v %v", command, o["side"], channel)]++
				}
			}
		}
		for channel := range 4 {
			for _, what := range []string{"sent", "received"} {
				side := map[string]string{"sent": "right", "received": "left"}[what]
				if name := fmt.Sprintf("%s_%d_%s_bytes", side, channel, what); carried[name] < 1<<20 {
					t.Errorf("%s: %s is %v, expected a quarter of some operations on 1 MiB", device, name, carried[name])
				}
			}
			for _, key := range []string{"status left", "status right", "qp right"} {
				if rows[fmt.Sprintf("%s %d", key, channel)] == 0 {
					t.Errorf("%s: no row of %s, channel %d in %v", device, key, channel, rows)
				}
			}
		}
	}
}

// TestChannelsRefused: numbers of channels that cannot be are refused, and so are two that differ,
// with both and their nodes.
func TestChannelsRefused(t *testing.T) {
	for _, n := range []string{"0", "17", "-1", "many"} {
		if code, _, stderr := here(t, "local", "-n", "2", "--channels", n); code != 3 || !strings.Contains(stderr, "channels") || !strings.Contains(stderr, n) {
			t.Errorf("--channels %s: exit code %d, %q", n, code, stderr)
		}
	}
	list := freshList(t, 2)
	one := launch(t, "connect", "--check", "--device", "soft:lo", "--list", strings.Join(list, ","), "--index", "0", "--channels", "2")
	code, stdout, stderr := finish(t, "connect", "--check", "--device", "soft:lo", "--list", strings.Join(list, ","), "--index", "1")
	for rank, end := range []struct {
		code int
		text string
	}{{one.end(t, hung), reported(one)}, {code, stdout + stderr}} {
		if end.code == 0 || !strings.Contains(end.text, "the number of channels differs: ") || !strings.Contains(end.text, "rank 0 (127.") || !strings.Contains(end.text, "rank 1 (127.") {
			t.Errorf("rank %d: exit code %d, %s", rank, end.code, end.text)
		}
	}
}
