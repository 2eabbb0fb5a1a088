package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"ringcli/cli/chart"
	"ringcli/cli/clitest"
	"ringcli/cli/command"
	"ringcli/cli/render"
)

func examplePage() page {
	curves := make([]series, 3)
	for _, r := range threeRows() {
		for i, m := range r.Each {
			curves[i].Name = m.Protocol.String()
			curves[i].add(m)
		}
	}
	return page{
		Title: "all-reduce on 4 ranks of <soft:lo>", Time: "time (us)", BW: "busbw (GB/s)", Series: curves,
		Environment: []environment{{"device", "<soft:lo>"}, {"ranks", "4"}, {"MTU", "4096 bytes"}, {"date", "2026-01-02 15:04 UTC"}},
	}
}

func TestPage(t *testing.T) {
	var out bytes.Buffer
	if err := examplePage().write(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	clitest.Golden(t, "testdata/page.html", text)
	if found := regexp.MustCompile(`(?i)https?:|src=|href=|@import|url\(|<script|<soft`).FindString(text); found != "" {
		t.Errorf("the page is not by itself: it has %q", found)
	}
	for what, n := range map[string]int{"<polyline": 6, "<circle": 30, "<tr>": 3*(1+5) + 4, "<caption": 3, "size (bytes)": 2, "</svg>": 2, `class="bad">16383<`: 1, "prefers-color-scheme: dark": 1} {
		if got := strings.Count(text, what); got != n {
			t.Errorf("%d of %s, want %d", got, what, n)
		}
	}
	frame := chart.New("", "", nil)
	for _, c := range regexp.MustCompile(`cx="([\d.]+)" cy="([\d.]+)"`).FindAllStringSubmatch(text, -1) {
		x, errX := strconv.ParseFloat(c[1], 64)
		y, errY := strconv.ParseFloat(c[2], 64)
		if errX != nil || errY != nil || x < float64(frame.X0) || x > float64(frame.X1) || y <= float64(frame.Y0) || y >= float64(frame.Y1) {
			t.Errorf("outside of the frame: %s", c[0])
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Error("a coordinate is no number")
	}
}

// A ring of one has no busbw, and a single size no extent.
func TestPageOfLittle(t *testing.T) {
	var out bytes.Buffer
	p := page{Title: "x", Series: []series{{Name: "out of place", Points: []point{{Bytes: 8, Time: 1}}}, {Name: "in place", Points: []point{{Bytes: 8, Time: 1}}}}}
	if err := p.write(&out); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Count(text, "<circle") != 2 {
		t.Error(text)
	}
}

// A page says where and how it was measured: each host with its ranks, once.
func TestPageSaysWhereAndHow(t *testing.T) {
	a, b := host{"node0", "EPYC", 4, "6.1"}, host{"node1", "Xeon", 8, "6.6"}
	if got, want := fmt.Sprint(hostLines([]host{a, b, a})), "[{host of rank 0, 2 node0: EPYC, 4 CPUs, Linux 6.1} {host of rank 1 node1: Xeon, 8 CPUs, Linux 6.6}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if h := thisHost(); h.Name == "" || h.CPU == "" || h.CPUs < 1 || h.Kernel == "" {
		t.Errorf("%+v", h)
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.String("end", "64M", "")
	fs.Int("iters", 20, "")
	fs.String("html", "", "")
	if err := fs.Parse([]string{"--iters=5", "--html=page.html"}); err != nil {
		t.Fatal(err)
	}
	if got := commandOf(command.Call{Name: "bench", Args: []string{"all-reduce"}, Flags: fs}); got != "ringcli bench all-reduce --iters=5" {
		t.Error(got)
	}
	p := page{Series: []series{{Points: []point{{Iters: 20}, {Iters: 20}}}}}
	if got := p.iterations(); got != "20 of each size" {
		t.Error(got)
	}
	p.Series = append(p.Series, series{Points: []point{{Iters: 4000}}})
	if got := p.iterations(); got != "20 to 4000 of a size" {
		t.Error(got)
	}
}

func TestPageFileIsWholeOrNotThere(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "page.html")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	content := func() string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		left, err := filepath.Glob(filepath.Join(folder, ".*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		return string(text)
	}
	f, err := render.CreateFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil || content() != "before" {
		t.Errorf("given up: %v, %q", err, content())
	}
	if f, err = render.CreateFile(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Put(examplePage().write); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil || !strings.HasSuffix(content(), "</html>\n") {
		t.Errorf("written: %v, %q", err, content())
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
