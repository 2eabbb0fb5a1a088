package cli

import (
	"strings"
	"testing"

	"ringcli/cli/exit"
)

// TestOfThePossible: a measurement says what the edges can carry at most, by which of their
// parts, and how much of it busbw is; a floor may be a share of it.
func TestOfThePossible(t *testing.T) {
	t.Parallel()
	for device, by := range map[string]string{"soft:lo": "cpu", "shm": "memory"} {
		code, stdout, stderr := finish(t, "local", "-n", "2", "--device", device, "--output", "json", "-c", "ar --size 64K --floor 0.001%; ar --size 8 --floor 99.9%")
		lines := objects(t, stdout)
		if code != exit.Warning || len(lines) != 3 || !strings.Contains(stderr+stdout, "slow: all-reduce of 8 bytes") {
			t.Fatalf("%s: exit code %d\n%s%s", device, code, stdout, stderr)
		}
		for i, o := range lines[:2] {
			possible, share, bw := o["possible_GBps"].(float64), o["of_possible_pct"].(float64), o["busbw_GBps"].(float64)
			if o["possible_by"] != by || !strings.HasPrefix(o["possible_why"].(string), "rank ") || possible <= 0 || share < bw/possible*100-0.1 || share > bw/possible*100+0.1 {
				t.Errorf("%s, line %d: possible %v by %v, busbw %v, which is %v %%", device, i, possible, o["possible_by"], bw, share)
			}
		}
	}
	code, stdout, stderr := finish(t, "bench", "ar", "-n", "2", "-b", "8", "-e", "8", "--iters", "3", "--floor", "99.9%")
	if code != exit.Warning || !strings.Contains(stdout, " % of the possible ") || !strings.Contains(stdout, "\n# possible: ") || !strings.Contains(stderr, "slow: bench all-reduce: the average busbw is ") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
