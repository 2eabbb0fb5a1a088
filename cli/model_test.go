package cli

import (
	"strings"
	"testing"

	"ringcli/cli/clitest"
	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// modelled runs model with JSON and returns its lines: times and the summary.
func modelled(t *testing.T, args ...string) (times, summaries []map[string]any) {
	t.Helper()
	code, stdout, stderr := here(t, append(words("model --output json"), args...)...)
	if code != exit.OK || stderr != "" {
		t.Fatalf("model %q: exit code %d, %s", args, code, stderr)
	}
	for line := range strings.Lines(stdout) {
		if err := clitest.ValidLine(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, o := range objects(t, stdout) {
		if o["crossovers_bytes"] != nil {
			summaries = append(summaries, o)
		} else {
			times = append(times, o)
		}
	}
	return times, summaries
}

// TestModel: a cluster that is yet to be bought has a row for each size and each variant,
// one the fastest, and the crossovers between them.
func TestModel(t *testing.T) {
	verbstest.Long(t)
	times, summaries := modelled(t, words("--ranks 256 --alpha 3us --beta 48GB/s --op all-reduce")...)
	sizes, fastest := map[float64]int{}, map[float64]int{}
	for _, o := range times {
		sizes[o["bytes"].(float64)]++
		if o["fastest"].(bool) {
			fastest[o["bytes"].(float64)]++
		}
	}
	if len(sizes) != 21 || len(fastest) != 21 || len(times) != 21*5 || len(summaries) != 1 {
		t.Fatalf("%d sizes, %d of them with a fastest, %d times, %d summaries: want 21, 21, 105, 1", len(sizes), len(fastest), len(times), len(summaries))
	}
	s := summaries[0]
	if list, points := s["fastest"].([]any), s["crossovers_bytes"].([]any); len(list) < 2 || len(points) != len(list)-1 {
		t.Errorf("%d stretches, %d crossovers: want two or more, and one between each two", len(list), len(points))
	}
	code, stdout, _ := here(t, words("model --ranks 256 --alpha 3us --beta 48GB/s")...)
	for _, want := range []string{"on 256 ranks, estimated: alpha 3.000 us, beta 48.00 GB/s", "doubling", "*<", "# busbw in GB/s", "# fastest: recursive-doubling/eager below ", "# auto takes "} {
		if code != exit.OK || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, no %q in\n%s", code, want, stdout)
		}
	}
	if code, stdout, _ := here(t, words("model --ranks 256 --alpha 3us --beta 48GB/s --output csv -e 1K")...); code != exit.OK || !strings.HasPrefix(stdout, "command,ok,operation,ranks,bytes,") {
		t.Errorf("exit code %d, CSV\n%s", code, stdout)
	}
	for _, line := range []string{"--op barrier", "--op rs --type float64 -n 3 --line 100ns", "--op all-gather -n 7 --software 5GB/s --overhead 2us --segment 64K --depth 2"} {
		if times, _ := modelled(t, append(words(line), words("--alpha 3us --beta 400Gb/s")...)...); len(times) == 0 {
			t.Errorf("model %s: nothing", line)
		}
	}
}

// TestModelRefuses: each mistake says what was given and what was expected.
func TestModelRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{words(""), []string{"no cluster", "--alpha 3us --beta 48GB/s"}},
		{words("--alpha 3us"), []string{"no cluster"}},
		{words("--alpha 3 --beta 48GB/s"), []string{`"3"`, "--alpha", "with its unit"}},
		{words("--alpha 3us --beta 48"), []string{`"48"`, "--beta", "with its unit", "48GB/s", "400Gb/s"}},
		{words("--alpha 3us --beta 0GB/s"), []string{`"0GB/s"`, "above zero"}},
		{words("--alpha 3us --beta -5GB/s"), []string{`"-5GB/s"`, "above zero"}},
		{words("--alpha 3us --beta 48GB/s --gamma fast"), []string{`"fast"`, "--gamma"}},
		{words("--alpha 3us --beta 48GB/s --ranks 1"), []string{`"1"`, "--ranks", "from 2 to 65536"}},
		{words("--alpha 3us --beta 48GB/s --op all-to-all"), []string{`"all-to-all"`, "reduce-scatter"}},
		{words("--alpha 3us --beta 48GB/s -b 2"), []string{"-b 2", "4 bytes or more, one float32"}},
		{words("--alpha 3us --beta 48GB/s -b 2M -e 1M"), []string{"-b 2M", "-e 1M", "least size first"}},
		{words("--alpha 3us --beta 48GB/s --factor 1"), []string{`"1"`, "from 2"}},
		{words("--alpha 3us --beta 48GB/s extra"), []string{`"extra"`}},
	} {
		code, stdout, stderr := here(t, append([]string{"model"}, c.args...)...)
		if code != exit.Usage || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("model %q: exit code %d, %q, %q: want %d and one line of error", c.args, code, stdout, stderr, exit.Usage)
		}
		for _, part := range c.want {
			if !strings.Contains(stderr, part) {
				t.Errorf("model %q: no %q in %q", c.args, part, stderr)
			}
		}
	}
}
