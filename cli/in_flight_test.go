package cli

import (
	"testing"

	"ringcli/cli/exit"
)

// Eight operations are in flight on each rank, all of whose results are verified, on every
// provider.
func TestBenchInFlight(t *testing.T) {
	t.Parallel()
	for _, device := range []string{"soft:lo", "shm:0"} {
		for _, more := range [][]string{{"all-reduce", "-b", "4K", "-e", "4K"}, {"reduce-scatter", "-b", "10K", "-e", "10K", "--type", "int8", "--op", "max"}} {
			args := append([]string{"bench"}, more...)
			code, stdout, stderr := finish(t, append(args, "-n", "2", "--device", device, "--in-flight", "8", "--iters", "3", "--output", "json")...)
			if code != exit.OK {
				t.Fatalf("%s: exit code %d\n%s", device, code, stderr)
			}
			list := of(objects(t, stdout), more[0])
			if len(list) != 2 { // out of place and in place
				t.Errorf("%s: %d rows: expected 2\n%s", device, len(list), stdout)
			}
			for _, row := range list {
				if row["in_flight"] != 8.0 || row["wrong"] != 0.0 {
					t.Errorf("%s: %v: expected 8 in flight, all of them right", device, row)
				}
			}
		}
	}
	code, _, stderr := finish(t, "bench", "barrier", "-n", "2", "--in-flight", "2")
	if code != exit.Usage {
		t.Errorf("barriers: exit code %d, %s: expected a refusal", code, stderr)
	}
}
