package cli

import (
	"strings"
	"testing"

	"ringcli/cli/exit"
)

// A row names the edge that loses packets, with what was counted, and --max-resent and expect
// bound it; where nothing is lost there is nothing of it but a share of 0.
func TestLossIsShown(t *testing.T) {
	t.Parallel()
	const lossy = "inject 'soft: loss 5% to 2 on 1'; "
	code, stdout, stderr := finish(t, "local", "-n", "3", "--device", "soft:lo", "--output", "json", "-c", lossy+"ar --size 1M --algorithm ring --iters 20 --max-resent 0.1%")
	lines := objects(t, stdout)
	row := lines[len(lines)-2]
	worst, _ := row["worst_edge"].(map[string]any)
	if code != exit.Warning || row["ok"] != false || worst["from"] != 1.0 || worst["to"] != 2.0 || worst["resent_packets"].(float64) < 1 || row["resent_pct"].(float64) < 0.1 || !strings.Contains(stdout, "lossy: all-reduce of 1048576 bytes") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = finish(t, "local", "-n", "3", "--device", "soft:lo", "-c", lossy+"bench ar -b 1M -e 1M --iters 20 --max-resent 0.1%")
	if code != exit.Warning || !strings.Contains(stdout, "\n# worst edge, rank 1 (") || !strings.Contains(stderr, "rank 1 to rank 2: resent ") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = finish(t, "local", "-n", "2", "--device", "shm", "--output", "json", "-c", "ar --size 4K --max-resent 0%; expect resent_pct == 0")
	if code != exit.OK || !strings.Contains(stdout, `"resent_pct":0`) || strings.Contains(stdout, "worst_edge") {
		t.Errorf("shared memory: exit code %d\n%s%s", code, stdout, stderr)
	}
}

// A run that fails prints what it had measured, marked, and then the error.
func TestAFailedRunPrintsItsRow(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := finish(t, "local", "-n", "2", "--device", "soft:lo", "--timeout", "4s", "--output", "json", "-c", "inject 'soft: down at 2s for 1h to 1 on 0'; ar --size 4K --algorithm ring --duration 1h")
	lines := objects(t, stdout)
	if len(lines) < 3 { // inject, the row, and what each rank reports
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	row, failure := lines[1], lines[2]
	if code != exit.Critical || row["command"] != "all-reduce" || row["cut_short"] != true || row["ok"] != false || row["iters"].(float64) < 1 || failure["error"] == nil {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
