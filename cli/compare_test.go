package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ringcli/cli/bench"
	"ringcli/cli/exit"
	"ringcli/collective"
	"ringcli/collective/plan"
)

func TestBenchComparesProtocols(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.html")
	code, stdout, stderr := finish(t, "bench", "ar", "-n", "2", "-b", "64K", "-e", "1M", "-f", "4", "--iters", "3", "--protocol", "eager,receiver-initiated,rendezvous-read", "--html", page)
	rows := regexp.MustCompile(`(?m)^ +\d+( +[\d.]+ +[\d.]+ +0( [*<]{1,2})?){3}$`).FindAllString(stdout, -1)
	if code != exit.OK || len(rows) != 3 || !regexp.MustCompile(`(?m)^# \S+ is ahead (at every size|up to)`).MatchString(stdout) {
		t.Errorf("exit code %d, %d rows\n%s%s", code, len(rows), stdout, stderr)
	}
	for _, row := range rows {
		if strings.Count(row, "*") != 1 || strings.Count(row, "<") != 1 {
			t.Errorf("marks of %q", row)
		}
	}
	effort := `# bytes copied out of slots / handshakes, in one operation, of a rank
#        eager                   receiver-initiated      rendezvous-read
#    64K 32K/0                   -                       0/2
#   256K 128K/0                  -                       0/2
#     1M 512K/0                  -                       0/8
`
	if !strings.Contains(stdout, effort) {
		t.Errorf("%s\nwant in it\n%s", stdout, effort)
	}
	text, err := os.ReadFile(page)
	how := regexp.MustCompile(`<td>ringcli bench ar --begin=64K [^<]*</td>[\s\S]*<th>hosts</th><td>127[^<]*, 127[^<]*</td>`)
	if err != nil || !strings.Contains(string(text), "<td>1048576</td>") || !how.Match(text) || !strings.HasSuffix(string(text), "</html>\n") {
		t.Errorf("the page: %v\n%s", err, text)
	}
	code, stdout, _ = finish(t, "bench", "all-gather", "-n", "2", "-b", "1K", "-e", "1K", "--protocol", "eager,rendezvous-read", "--iters", "3", "--output", "json")
	all := objects(t, stdout)
	if code != exit.OK || len(all) != 3 || all[0]["protocol"] != "eager" || all[1]["protocol"] != "rendezvous-read" || all[2]["crossovers_bytes"] == nil || all[1]["wrong"] != 0.0 {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	for i, want := range []map[string]any{{"copied_bytes": 512.0, "handshakes": 0.0}, {"copied_bytes": 0.0, "handshakes": 1.0}} {
		if got := all[i]["per_operation"]; !reflect.DeepEqual(got, any(want)) {
			t.Errorf("%v: per operation %v, want %v", all[i]["protocol"], got, want)
		}
	}
	// What an operation has not is left out, and said.
	code, stdout, _ = finish(t, "bench", "rs", "-n", "2", "-b", "1K", "-e", "1K", "--protocol", "eager,receiver-initiated,rendezvous", "--iters", "1")
	if code != exit.OK || !strings.Contains(strings.ReplaceAll(stdout, "\n#   ", " "), "# left out: reduce-scatter: receiver-initiated: the first phase of all-reduce brings the address to write to, and here is none") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

// What is wrong is found in every protocol.
func TestAComparisonFindsCorruption(t *testing.T) {
	t.Parallel()
	code, stdout, _ := finishCorrupted(t, "flip@1", "local", "-n", "2", "--output", "json", "-c", "bench ar -b 4K -e 4K --iters 2 --protocol eager,rendezvous-read")
	all := objects(t, stdout)
	if code != exit.Critical || len(all) < 4 || all[0]["ok"] != false || all[1]["ok"] != false || all[2]["ok"] != false || all[2]["wrong"].(float64) < 2 {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

func TestBenchRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"bench", "ar", "-n", "2", "--protocol", "eager,fast"}, `unknown protocol "fast"`},
		{[]string{"bench", "ar", "-n", "2", "--protocol", "eager,eager"}, "eager is there twice"},
		{[]string{"bench", "ar", "-n", "2", "-b", "2", "-e", "8"}, "less than an element of float32"},
		{[]string{"bench", "ar", "-n", "2", "--html", filepath.Join(folder, "none", "page.html")}, "expected a file in a folder that can be written"},
		{[]string{"bench", "ar", "-n", "2", "--html", folder}, "no regular file"},
		{[]string{"bench", "p2p", "-n", "2", "--floor", "5"}, "bench p2p: --floor 5 means nothing here"},
		{[]string{"bench", "p2p", "-n", "2", "--protocol", "eager"}, "--protocol eager means nothing here"},
		{[]string{"bench", "p2p", "-n", "2", "--duration", "5s"}, "--duration 5s means nothing here"},
		{[]string{"bench", "ar", "-n", "2", "--outstanding", "6"}, "bench all-reduce: --outstanding 6 means nothing here: expected it with bench p2p only"},
		{[]string{"local", "-n", "2", "-c", "all-reduce --size 3"}, "--size 3 is less than an element of float32: expected at least 4 bytes"},
	} {
		code, stdout, stderr := finish(t, c.args...)
		if code != exit.Usage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d\n%s%s", c.args, code, stdout, stderr)
		}
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	// A size is rounded down to whole elements.
	code, stdout, _ := finish(t, "local", "-n", "2", "--output", "json", "-c", "all-reduce --size 7 --iters 1")
	if all := objects(t, stdout); code != exit.OK || all[0]["bytes"] != 4.0 || all[0]["count"] != 1.0 {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

// Names that do not fit are shortened, or stand in two lines.
func TestCompareHead(t *testing.T) {
	var list bench.Variants
	for _, a := range plan.Algorithms()[1:] {
		list = append(list, bench.Variant{Algorithm: a, Protocol: collective.Auto})
	}
	if got := bench.CompareHead(list); !slices.Equal(got, []string{"       ring       doubling   tree       inbox      hier"}) {
		t.Errorf("got %q", got)
	}
	got := bench.CompareHead(exampleAlgorithms()[0].Variants)
	if want := []string{
		"       ring       ring       ring       doubling   tree       inbox",
		"       eager      rdv-read   direct     eager      eager      direct",
	}; !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
