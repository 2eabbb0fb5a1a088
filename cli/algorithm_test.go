package cli

import (
	"fmt"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/cli/tables"
	"ringcli/collective/plan"
)

// Every algorithm gives the right result in every operation, on rings that are no
// power of two, too; JSON and the table name it.
func TestEveryAlgorithm(t *testing.T) {
	t.Parallel()
	var script, want []string
	for _, op := range tables.Operations {
		for _, a := range plan.Algorithms()[1:] {
			line := fmt.Sprintf("%s --algorithm %s --iters 2", op, a)
			if op.OnVectors() {
				line += " --size 4092 --check"
			}
			script = append(script, line)
			want = append(want, fmt.Sprint(op, " ", a))
		}
	}
	code, stdout, stderr := finish(t, "local", "-n", "3", "--hosts", "2,1", "--device", "soft:lo", "--output", "json", "-c", strings.Join(script, "; "))
	var got []string
	for _, o := range objects(t, stdout) {
		if o["wrong"] != 0.0 && o["command"] != "barrier" {
			t.Errorf("%v", o)
		}
		got = append(got, fmt.Sprint(o["command"], " ", o["algorithm"]))
	}
	if code != exit.OK || strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("exit code %d, ran %v\n%s", code, got, stderr)
	}
	code, stdout, _ = finish(t, "local", "-n", "2", "--device", "soft:lo", "--algorithm", "rd", "-c", "show algorithm; ar --size 1K; set algorithm tree; ar --size 1K")
	for _, row := range []string{"algorithm", "all-reduce     recursive-doubling", "all-reduce     tree"} {
		if code != exit.OK || !strings.Contains(stdout, "\n"+row+" ") {
			t.Errorf("exit code %d, no %q in\n%s", code, row, stdout)
		}
	}
}

// A bench compares all algorithms with which auto is marked, and leaves out what a
// ring of so many ranks has not.
func TestBenchComparesAlgorithms(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := finish(t, "bench", "ar", "-n", "3", "--device", "soft:lo", "-b", "1K", "-e", "64K", "-f", "64", "--iters", "2", "--algorithm", "all", "--protocol", "all", "--output", "json")
	ran := map[string]int{}
	var sum map[string]any
	for _, o := range objects(t, stdout) {
		if o["averages"] != nil || o["ahead"] != nil {
			sum = o
			continue
		}
		ran[fmt.Sprint(o["algorithm"], "/", o["protocol"])]++
		if o["wrong"] != 0.0 && o["command"] != "barrier" {
			t.Errorf("%v", o)
		}
	}
	for _, w := range []string{"ring/eager", "ring/rendezvous-write", "ring/rendezvous-read", "recursive-doubling/eager", "tree/eager", "inbox/eager"} {
		if ran[w] != 2 {
			t.Errorf("%s ran %d times", w, ran[w])
		}
	}
	if code != exit.OK || sum == nil || ran["tree/rendezvous-read"] > 0 {
		t.Errorf("exit code %d, %v\n%s", code, ran, stderr)
	}
	auto := sum["auto"].([]any)
	if first := auto[0].(map[string]any); first["algorithm"] != "recursive-doubling" || len(auto) != 2 {
		t.Errorf("auto takes %v", auto)
	}
	code, stdout, _ = finish(t, "bench", "rs", "-n", "2", "--device", "soft:lo", "-b", "1K", "-e", "64K", "-f", "64", "--iters", "2", "--algorithm", "ring,tree,inbox")
	if code != exit.OK || !strings.Contains(stdout, "\n#        ring                    tree                    inbox\n") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

// Ranks that ask for different algorithms are told both.
func TestDisagreementAboutTheAlgorithm(t *testing.T) {
	t.Parallel()
	list := freshList(t, 2)
	var ranks []*process
	for rank, a := range []string{"ring", "tree"} {
		ranks = append(ranks, launch(t, "connect", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ","), "--device", "soft:lo", "--timeout", "20s",
			"-c", "all-reduce --size 4K --algorithm "+a))
	}
	for rank, p := range ranks {
		code, said := p.end(t, hung), reported(p)
		if code != exit.Usage || !strings.Contains(said, "ring") || !strings.Contains(said, "tree") || !strings.Contains(said, "all ranks must make the same calls") {
			t.Errorf("rank %d: exit code %d\n%s", rank, code, p.stderr.String())
		}
	}
}

// Barriers by all algorithms are timed by turns; nothing is said of bytes or bandwidths.
func TestBenchOfBarriers(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := finish(t, "bench", "barrier", "-n", "3", "--device", "soft:lo", "--algorithm", "all", "--iters", "5", "--output", "json")
	var ways []string
	marks := map[string]int{}
	for _, o := range objects(t, stdout) {
		ways = append(ways, fmt.Sprint(o["command"], " ", o["algorithm"], " ", o["protocol"]))
		for _, mark := range []string{"fastest", "auto", "busbw_GBps", "bytes", "type"} {
			if _, there := o[mark]; there {
				marks[mark]++
			}
		}
		if us := o["time_us"].(map[string]any)["mean"].(float64); us <= 0 {
			t.Errorf("%v", o)
		}
	}
	const want = "barrier ring eager, barrier recursive-doubling eager, barrier tree eager, barrier inbox eager"
	if got := strings.Join(ways, ", "); code != exit.OK || got != want || fmt.Sprint(marks) != "map[auto:1 fastest:1]" {
		t.Errorf("exit code %d, %s, %v\n%s", code, got, marks, stderr)
	}
}
