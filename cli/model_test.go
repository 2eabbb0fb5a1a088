package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringcli/cli/clitest"
	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// modelled runs model with JSON and returns its lines by what they are: times, the
// summary, edges.
func modelled(t *testing.T, args ...string) (times, summaries, edges []map[string]any) {
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
		switch {
		case o["fastest"] == nil:
			edges = append(edges, o)
		case o["crossovers_bytes"] != nil:
			summaries = append(summaries, o)
		default:
			times = append(times, o)
		}
	}
	return times, summaries, edges
}

// TestModel: a cluster that is yet to be bought has a row for each size and each variant,
// one the fastest, and the crossovers between them.
func TestModel(t *testing.T) {
	verbstest.Long(t)
	times, summaries, edges := modelled(t, words("--ranks 256 --alpha 3us --beta 48GB/s --op all-reduce")...)
	sizes, fastest := map[float64]int{}, map[float64]int{}
	for _, o := range times {
		sizes[o["bytes"].(float64)]++
		if o["fastest"].(bool) {
			fastest[o["bytes"].(float64)]++
		}
	}
	if len(sizes) != 21 || len(fastest) != 21 || len(times) != 21*5 || len(edges) != 0 || len(summaries) != 1 {
		t.Fatalf("%d sizes, %d of them with a fastest, %d times, %d edges, %d summaries: want 21, 21, 105, 0, 1", len(sizes), len(fastest), len(times), len(edges), len(summaries))
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
		if times, _, _ := modelled(t, append(words(line), words("--alpha 3us --beta 400Gb/s")...)...); len(times) == 0 {
			t.Errorf("model %s: nothing", line)
		}
	}
}

// meshFile has all pairs of n ranks, alike but for one.
func meshFile(t *testing.T, n, from, to int, line string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintln(&b, `{"command":"links","ok":true,"pairs":6}`)
	fmt.Fprintln(&b, `{"command":"links","ok":false,"finding":"slow","from":[2],"to":[]}`)
	for a := range n {
		for z := range n {
			switch {
			case a == from && z == to:
				fmt.Fprintln(&b, line)
			case a != z:
				fmt.Fprintf(&b, `{"command":"links","ok":true,"from":%d,"to":%d,"from_host":"node%d","to_host":"node%d","latency_us":{"p50":3,"p99":9},"write_GBps":12,"retransmissions":0}`+"\n", a, z, a, z)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "links.json")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestModelFromLinks: this cluster's own figures, the pair that costs the ring most, and an
// order of the list that does without.
func TestModelFromLinks(t *testing.T) {
	file := meshFile(t, 6, 2, 3, `{"command":"links","ok":true,"from":2,"to":3,"latency_us":{"p50":3},"write_GBps":3}`)
	_, _, edges := modelled(t, "--from", file)
	if len(edges) != 2 {
		t.Fatalf("%d edges: want those of the least and the greatest size", len(edges))
	}
	if e := edges[0]; !e["ok"].(bool) {
		t.Errorf("the bandwidth of a pair costs small vectors: %v", e)
	}
	e := edges[1]
	if e["from"] != 2.0 || e["to"] != 3.0 || e["from_host"] != "node2" || e["ok"].(bool) || e["order"] == nil {
		t.Errorf("%v: want node2 to node3 named, and another order", e)
	}
	if with, without := e["time_us"].(float64), e["without_us"].(float64); with < 3*without || e["order_us"].(float64) > 1.01*without {
		t.Errorf("%.0f us with it, %.0f without, %.0f in another order: want some four times, and as without", with, without, e["order_us"])
	}
	_, stdout, _ := here(t, "model", "--from", file, "-b", "1M")
	for _, want := range []string{"# rank 2 (node2) to rank 3 (node3), 3.000 us and 3.000 GB/s where 3.000 us and 12.00 GB/s are usual, makes 1G by rendezvous-", "# a better order of the list: node0,node"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	dead := meshFile(t, 4, 2, 3, `{"command":"links","ok":false,"from":2,"to":3}`)
	times, _, edges := modelled(t, "--from", dead, "-b", "1M", "-e", "1M")
	if len(edges) != 1 || edges[0]["time_us"] != nil || edges[0]["order"] == nil {
		t.Errorf("a pair that carries nothing: %v", edges)
	}
	for _, o := range times {
		if o["algorithm"] == "ring" && (o["ok"].(bool) || o["time_us"] != nil) {
			t.Errorf("a ring over a pair that carries nothing: %v", o)
		}
	}
}

// A pair that carries nothing has no figure in any row, whichever algorithm goes over it.
func TestModelOfADeadEdge(t *testing.T) {
	for _, n := range []int{2, 4, 7} {
		dead := meshFile(t, n, 0, 1, `{"command":"links","ok":false,"from":0,"to":1}`)
		for _, op := range []string{"all-reduce", "all-gather", "reduce-scatter"} {
			times, summary, _ := modelled(t, "--from", dead, "-b", "1K", "-e", "1M", "-f", "1024", "--op", op)
			live := 0
			for _, o := range times {
				if o["ok"] != (o["time_us"] != nil) {
					t.Errorf("%v", o)
				}
				if o["time_us"] != nil {
					live++
				}
			}
			if n == 2 && (live > 0 || summary[0]["ok"] != false) {
				t.Errorf("%s: %d times over the one pair, which carries nothing: %v", op, live, summary)
			}
		}
	}
}

// TestModelRefuses: each mistake says what was given and what was expected.
func TestModelRefuses(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "links.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	half := `{"command":"links","ok":true,"from":0,"to":1,"latency_us":{"p50":3},"write_GBps":12}` + "\n"
	for _, c := range []struct {
		args []string
		want []string
	}{
		{words(""), []string{"no cluster", "--alpha 3us --beta 48GB/s", "--from FILE"}},
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
		{words("--from x --alpha 3us"), []string{"--from with", "expected the file"}},
		{[]string{"--from", ""}, []string{"is a variable not set?"}},
		{words("--from /no/such/file"), []string{"/no/such/file"}},
		{[]string{"--from", write("")}, []string{"none of its 0 lines", "ringcli links --ring --output json"}},
		{[]string{"--from", write("size time\n")}, []string{"line 1", "links --ring"}},
		{[]string{"--from", write(half)}, []string{"rank 1 to rank 0 is not in it"}},
		{[]string{"--from", write("[1]\n")}, []string{"line 1 is no record of links", "links --ring"}},
		{[]string{"--from", write(strings.Repeat("x", 2<<20))}, []string{"line 1 is longer than"}},
		{[]string{"--from", write(strings.Replace(half, `"p50":3`, `"p99":3`, 1))}, []string{"no latency", "links --shift"}},
		{[]string{"--from", write(strings.Replace(half, `"p50":3`, `"p50":1e300`, 1))}, []string{"p50 1e+300", "at most"}},
		{[]string{"--from", write(`{"command":"links","ok":false,"from":0,"to":1}` + "\n" + `{"command":"links","ok":false,"from":1,"to":0}`)}, []string{"none of its 2 pairs has a connection"}},
		{[]string{"--from", write(half + half)}, []string{"line 2", "from 0 to 1 is there twice"}},
		{[]string{"--from", write(strings.Replace(half, `"to":1`, `"to":0`, 1))}, []string{"from 0 to 0"}},
		{[]string{"--from", write(strings.Replace(half, `:12`, `:0`, 1))}, []string{"write_GBps 0", "above zero"}},
		{[]string{"--from", write(strings.Replace(half, `"to":1`, `"to":99999999`, 1))}, []string{"from 0 to 99999999"}},
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
