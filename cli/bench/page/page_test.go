package page

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"ringcli/cli/clitest"
	"ringcli/cli/command"
	"ringcli/cli/render"
	"ringcli/configs/chart"
)

func examplePage() Page {
	none, wrong := uint64(0), uint64(16383)
	curves := []Series{{Name: "eager"}, {Name: "rendezvous-write"}, {Name: "rendezvous-read"}}
	for _, r := range []struct {
		bytes uint64
		us    [3]float64
	}{
		{4 << 10, [3]float64{10, 20, 30}}, {64 << 10, [3]float64{50, 49, 90}}, {1 << 20, [3]float64{900, 700, 800}},
		{16 << 20, [3]float64{14000, 9999.94, 9900}}, {1 << 30, [3]float64{2345678.5, 1234567, 1000000}},
	} {
		for i, us := range r.us {
			p := Point{Bytes: r.bytes, Time: us, BW: 1.5 * float64(r.bytes) / us / 1e3, Wrong: &none, Way: "ring/" + curves[i].Name}
			if r.bytes == 1<<30 && i == 0 {
				p.Wrong = &wrong
			}
			curves[i].Points = append(curves[i].Points, p)
		}
	}
	return Page{
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
	p := Page{Title: "x", Series: []Series{{Name: "out of place", Points: []Point{{Bytes: 8, Time: 1}}}, {Name: "in place", Points: []Point{{Bytes: 8, Time: 1}}}}}
	if err := p.write(&out); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Count(text, "<circle") != 2 {
		t.Error(text)
	}
}

// A page says how it was measured.
func TestPageSaysHow(t *testing.T) {
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
