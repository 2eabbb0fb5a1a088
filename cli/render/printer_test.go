package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

type inner struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

type sample struct {
	Command string   `json:"command"`
	OK      bool     `json:"ok"`
	Bytes   uint64   `json:"bytes"`
	Time    inner    `json:"time_us"`
	Wrong   *uint64  `json:"wrong"`
	First   *inner   `json:"first,omitempty"`
	List    []string `json:"list,omitempty"`
	Hidden  string   `json:"-"`
}

func (s sample) Columns() []Column {
	return []Column{{Name: "command", Left: true, Width: 10}, {Name: "bytes", Width: 8}, {Name: "wrong"}}
}

func (s sample) Cells() []Cell {
	if s.Wrong == nil {
		return []Cell{{s.Command, Plain}, {"1", Plain}, {"N/A", Faint}}
	}
	return []Cell{{s.Command, Plain}, {"1", Plain}, {"7", Bad}}
}

type other struct {
	Name string `json:"name"`
}

func (o other) Columns() []Column { return []Column{{Name: "name", Left: true}, {Name: "rank"}} }
func (o other) Cells() []Cell     { return Texts(o.Name, "3") }

type both struct{ a, b sample }

func (p both) Columns() []Column { return []Column{{Name: "pair", Left: true}} }
func (p both) Cells() []Cell     { return Texts("both") }
func (p both) Parts() []Record   { return []Record{p.a, p.b} }

func printAll(t *testing.T, p *Printer) {
	t.Helper()
	wrong := uint64(7)
	one := sample{Command: "all-reduce", OK: true, Bytes: 1, Time: inner{1.5, 2}, Hidden: "x"}
	two := sample{Command: "é, \"b\"", Bytes: 2, Wrong: &wrong, First: &inner{0.25, 1e9}, List: []string{"a"}}
	for _, r := range []Record{one, two, other{"a name that is long"}, both{one, two}} {
		if err := p.Print(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Note(Good, "%d of %d", 3, 4); err != nil {
		t.Fatal(err)
	}
	if err := p.Print(one, two); err != nil {
		t.Fatal(err)
	}
}

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name   string
		format Format
		color  bool
	}{{"table", Table, false}, {"color", Table, true}, {"json", JSON, false}, {"csv", CSV, false}} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			p := New(&out, c.format)
			p.color = c.color
			printAll(t, p)
			golden := filepath.Join("testdata", c.name+".golden")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestJSONIsOneObjectALine(t *testing.T) {
	var out bytes.Buffer
	printAll(t, New(&out, JSON))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 7 {
		t.Fatalf("%d lines, want 7:\n%s", len(lines), out.String())
	}
	for _, line := range lines {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestCSVReadsBack(t *testing.T) {
	var out bytes.Buffer
	p := New(&out, CSV)
	wrong := uint64(7)
	for _, w := range []*uint64{nil, &wrong} {
		if err := p.Print(sample{Command: "a, \"b\"", Wrong: w}); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"command", "ok", "bytes", "time_us_min", "time_us_max", "wrong", "first_min", "first_max"}
	if len(rows) != 3 || strings.Join(rows[0], " ") != strings.Join(want, " ") {
		t.Fatalf("got %q, want the header %q once and two rows", rows, want)
	}
	if rows[1][0] != "a, \"b\"" || rows[1][5] != "" || rows[2][5] != "7" {
		t.Errorf("rows are %q", rows[1:])
	}
}

func TestNoColorOffATerminal(t *testing.T) {
	var out bytes.Buffer
	if p := New(&out, Table); p.color {
		t.Error("a buffer is taken for a terminal")
	}
	t.Setenv("NO_COLOR", "1")
	if ColorWanted() {
		t.Error("NO_COLOR is not honoured")
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	if ColorWanted() {
		t.Error("TERM=dumb is not honoured")
	}
}

func TestCSVRefusesWhatIsNoStruct(t *testing.T) {
	if _, _, err := flatten(7); err == nil {
		t.Error("7 was flattened")
	}
}
