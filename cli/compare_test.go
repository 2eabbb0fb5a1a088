package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ringcli/cli/render"
	"ringcli/collective"
)

func TestProtocolList(t *testing.T) {
	for text, want := range map[string]string{
		"eager": "eager", "auto": "auto", "eager,rendezvous": "eager,rendezvous-write", " Eager , rdv-read ": "eager,rendezvous-read",
		"fast": "", "": "", "eager,": "", "auto,eager": "", "rendezvous,rendezvous-write": "",
	} {
		l := newProtocolList()
		l.list = []collective.Protocol{collective.Eager}
		err := l.Set(text)
		if want == "" {
			if err == nil || l.String() != "eager" {
				t.Errorf("%q: %v, and the list is %s", text, err, l)
			}
			continue
		}
		if err != nil || l.String() != want {
			t.Errorf("%q: %s, %v, want %s", text, l, err, want)
		}
	}
}

func TestWhoIsAheadWhere(t *testing.T) {
	rows := exampleRows()
	sum := summarise("bench all-reduce", rows, 1.6)
	// 2 % at 64K, and 1 % at 16M, are no lead.
	want := []Stretch{
		{"ring", "eager", 4 << 10, 64 << 10, "eager"},
		{"ring", "rendezvous-write", 1 << 20, 16 << 20, "rendezvous-write"},
		{"ring", "rendezvous-read", 1 << 30, 1 << 30, "rendezvous-read"},
	}
	if !slices.Equal(sum.Ahead, want) || !slices.Equal(sum.Crossovers, []uint64{1 << 20, 1 << 30}) {
		t.Errorf("ahead: %v, crossovers at %d", sum.Ahead, sum.Crossovers)
	}
	if sum.OK || *sum.Wrong != 16383 || sum.Sizes != 5 {
		t.Errorf("%+v", sum)
	}
	for floor, code := range map[float64]int{0: ExitOK, 1.6: ExitOK, 1.7: ExitWarning} {
		sum := summarise("bench all-reduce", rows[:4], floor)
		if err := sum.verdict(); ExitCode(err) != code && floor < 1.7 {
			t.Errorf("floor %g: %v", floor, err)
		}
	}
	sum = summarise("bench all-reduce", rows, 1.7)
	if err := sum.verdict(); ExitCode(err) != ExitWarning || !strings.Contains(err.Error(), "rendezvous-write, is 1.676 GB/s, expected at least 1.700") || sum.OK {
		t.Errorf("below the floor: %v", err)
	}
}

func TestStretchWords(t *testing.T) {
	stretch := func(name string, from, to uint64) Stretch {
		return Stretch{From: from, To: to, name: name}
	}
	a, b, c := stretch("eager", 8, 256<<10), stretch("rendezvous-write", 512<<10, 4<<20), stretch("eager", 8<<20, 8<<20)
	for want, list := range map[string][]Stretch{
		"eager is ahead at every size":                                               {a},
		"eager is ahead up to 256K, rendezvous-write from 512K":                      {a, b},
		"eager is ahead up to 256K, rendezvous-write from 512K to 4M, eager from 8M": {a, b, c},
		"eager is ahead up to 8M, rendezvous-write at 16M, eager from 32M":           {a, c, stretch("rendezvous-write", 16<<20, 16<<20), stretch("eager", 32<<20, 64<<20)},
	} {
		if got := stretchWords(list, "is ahead"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFolded(t *testing.T) {
	got := folded("one two three four", 9)
	if want := []string{"one two", "  three", "  four"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestBenchComparesProtocols(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.html")
	code, stdout, stderr := finish(t, "bench", "ar", "-n", "2", "-b", "64K", "-e", "1M", "-f", "4", "--iters", "3", "--protocol", "eager,rendezvous,rendezvous-read", "--html", page)
	rows := regexp.MustCompile(`(?m)^ +\d+( +[\d.]+ +[\d.]+ +0( [*<]{1,2})?){3}$`).FindAllString(stdout, -1)
	if code != ExitOK || len(rows) != 3 || !regexp.MustCompile(`(?m)^# \S+ is ahead (at every size|up to)`).MatchString(stdout) {
		t.Errorf("exit code %d, %d rows\n%s%s", code, len(rows), stdout, stderr)
	}
	for _, row := range rows {
		if strings.Count(row, markBest) != 1 || strings.Count(row, markAuto) != 1 {
			t.Errorf("marks of %q", row)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "<td>1048576</td>") || !strings.HasSuffix(string(text), "</html>\n") {
		t.Errorf("the page: %v\n%s", err, text)
	}
	code, stdout, _ = finish(t, "bench", "all-gather", "-n", "2", "-b", "1K", "-e", "1K", "--protocol", "eager,rendezvous-read", "--iters", "3", "--output", "json")
	all := objects(t, stdout)
	if code != ExitOK || len(all) != 3 || all[0]["protocol"] != "eager" || all[1]["protocol"] != "rendezvous-read" || all[2]["crossovers_bytes"] == nil || all[1]["wrong"] != 0.0 {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

// What is wrong is found in every protocol.
func TestAComparisonFindsCorruption(t *testing.T) {
	t.Parallel()
	code, stdout, _ := finish(t, "local", "-n", "2", "--output", "json", "--corrupt", "flip@1", "-c", "bench ar -b 4K -e 4K --iters 2 --protocol eager,rendezvous-read")
	all := objects(t, stdout)
	if code != ExitCritical || len(all) < 4 || all[0]["ok"] != false || all[1]["ok"] != false || all[2]["ok"] != false || all[2]["wrong"].(float64) < 2 {
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
		if code != ExitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d\n%s%s", c.args, code, stdout, stderr)
		}
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	// A size is rounded down to whole elements.
	code, stdout, _ := finish(t, "local", "-n", "2", "--output", "json", "-c", "all-reduce --size 7 --iters 1")
	if all := objects(t, stdout); code != ExitOK || all[0]["bytes"] != 4.0 || all[0]["count"] != 1.0 {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

func TestCompareRowMarks(t *testing.T) {
	cells := render.Cells(exampleRows()[1])
	if cells[4].Text != markAuto || cells[8].Text != markBest || cells[8].Mood != render.Good || cells[12].Text != "" {
		t.Errorf("got %v", cells)
	}
}
