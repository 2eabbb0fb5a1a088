package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ringcli/trace"
)

// update writes the golden files: UPDATE_GOLDEN=1 go test ./cli/...
var update = os.Getenv("UPDATE_GOLDEN") != ""

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

func (s sample) Row() ([]Column, []Cell) {
	head := []Column{{Name: "command", Left: true, Width: 10}, {Name: "bytes", Width: 8}, {Name: "wrong"}}
	if s.Wrong == nil {
		return head, []Cell{{s.Command, Plain}, {"1", Plain}, {"N/A", Faint}}
	}
	return head, []Cell{{s.Command, Plain}, {"1", Plain}, {"7", Bad}}
}

// texts makes plain cells.
func texts(texts ...string) []Cell {
	cells := make([]Cell, len(texts))
	for i, t := range texts {
		cells[i].Text = t
	}
	return cells
}

type other struct {
	Name string `json:"name"`
}

func (o other) Row() ([]Column, []Cell) {
	return []Column{{Name: "name", Left: true}, {Name: "rank"}}, texts(o.Name, "3")
}

type both struct{ a, b sample }

func (p both) Row() ([]Column, []Cell) { return []Column{{Name: "pair", Left: true}}, texts("both") }
func (p both) Parts() []Record         { return []Record{p.a, p.b} }

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
			p.SetColor(c.color)
			printAll(t, p)
			golden := filepath.Join("testdata", c.name+".golden")
			if update {
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
	want := []string{"command", "ok", "bytes", "time_us_min", "time_us_max", "wrong", "first_min", "first_max", "list"}
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
	if trace.ColorWanted() {
		t.Error("NO_COLOR is not honoured")
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	if trace.ColorWanted() {
		t.Error("TERM=dumb is not honoured")
	}
}

// A list stays in its row: nothing that JSON shows is missing.
func TestCSVOfLists(t *testing.T) {
	seven := 7
	names, values, err := flatten(struct {
		Numbers []uint64          `json:"numbers"`
		Texts   []string          `json:"texts"`
		Phrases []string          `json:"phrases"`
		Structs []inner           `json:"structs"`
		Counted map[string]uint64 `json:"counted"`
		Maybe   []*int            `json:"maybe"`
		Raw     json.RawMessage   `json:"raw"`
		Any     any               `json:"any"`
		None    []inner           `json:"none"`
	}{
		[]uint64{0, 1 << 63}, []string{"a", "b"}, []string{"a b", "c"}, []inner{{1.5, 2}, {3, 4}},
		map[string]uint64{"sent": 2, "lost": 1}, []*int{nil, &seven}, json.RawMessage(`{"a":1}`), nil, nil,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0 9223372036854775808", "a b", "a b; c", `[{"min":1.5,"max":2},{"min":3,"max":4}]`,
		`{"lost":1,"sent":2}`, " 7", `{"a":1}`, "", "",
	}
	if !slices.Equal(values, want) {
		t.Errorf("%q are %q, want %q", names, values, want)
	}
}

type remark struct{ name, text string }

func (r remark) Row() ([]Column, []Cell) {
	return []Column{{Name: "name", Left: true}, {Name: "remark", Left: true}}, []Cell{{r.name, Plain}, {r.text, Bad}}
}

type attribute struct{ name, own, peer, mark string }

func (a attribute) Row() ([]Column, []Cell) {
	head := []Column{{Name: "name", Left: true}, {Name: "own", Left: true}, {Name: "peer", Left: true}, {Left: true}}
	return head, texts(a.name, a.own, a.peer, a.mark)
}

// A cell in the middle that is too wide ends its line; the rest of its row stays
// under its columns.
func TestNarrowTerminalInTheMiddle(t *testing.T) {
	const gid = "2001:db8:85a3:8d3:1319:8a2e:370:7348"
	var out bytes.Buffer
	p := New(&out, Table)
	p.SetWidth(func() int { return 60 })
	if err := p.Print(attribute{"gid", gid, gid, "<- fault"}, attribute{"mtu", "1024", "4096", "<- fault"}, attribute{"dgid", gid, "-", ""}); err != nil {
		t.Fatal(err)
	}
	want := `
name own              peer
gid  2001:db8:85a3:8d3:1319:8a2e:370:7348
                      2001:db8:85a3:8d3:1319:8a2e:370:7348
                                                    <- fault
mtu  1024             4096                          <- fault
dgid 2001:db8:85a3:8d3:1319:8a2e:370:7348
                      -
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestNarrowNote(t *testing.T) {
	var out bytes.Buffer
	p := New(&out, Table)
	p.SetWidth(func() int { return 30 })
	for _, text := range []string{"fits   in  one line", "no configuration file; looked for ringcli.yaml, /etc/ringcli/config.yaml"} {
		if err := p.Note(Plain, "%s", text); err != nil {
			t.Fatal(err)
		}
	}
	want := "# fits   in  one line\n# no configuration file;\n#   looked for ringcli.yaml,\n#   /etc/ringcli/config.yaml\n"
	if out.String() != want {
		t.Errorf("got %s\nwant %s", out.String(), want)
	}
}

// On a narrow terminal the last column goes on below, and no word is broken.
func TestNarrowTerminal(t *testing.T) {
	long := remark{"soft:enp65s0f0np0", "the port is down, and so is the link of it"}
	for _, c := range []struct {
		name  string
		width int
		rows  []Record
		want  string
	}{
		{"wide enough", 60, []Record{long}, `
name              remark
soft:enp65s0f0np0 the port is down, and so is the link of it
`},
		{"no terminal", 0, []Record{long}, `
name              remark
soft:enp65s0f0np0 the port is down, and so is the link of it
`},
		{"beside", 40, []Record{long, remark{"b", "up"}}, `
name              remark
soft:enp65s0f0np0 the port is down, and
                  so is the link of it
b                 up
`},
		{"below", 30, []Record{long, remark{"b", "up"}}, `
name              remark
soft:enp65s0f0np0
    the port is down, and so
    is the link of it
b                 up
`},
		{"a list", 40, []Record{remark{"list", "node0.example.org,node1.example.org,node2.example.org"}}, `
name remark
list node0.example.org,
     node1.example.org,node2.example.org
`},
		{"a long word", 40, []Record{remark{"soft:enp65s0f0np0", "2001:db8:85a3:8d3:1319:8a2e:370:7348"}}, `
name              remark
soft:enp65s0f0np0
    2001:db8:85a3:8d3:1319:8a2e:370:7348
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			p := New(&out, Table)
			p.SetWidth(func() int { return c.width })
			if err := p.Print(c.rows...); err != nil {
				t.Fatal(err)
			}
			if got := "\n" + out.String(); got != c.want {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
			for line := range strings.Lines(out.String()) {
				if c.width > 0 && len(line)-1 > c.width {
					t.Errorf("wider than %d columns: %s", c.width, line)
				}
			}
		})
	}
}

type edge struct {
	Side string `json:"side"`
	QPN  int    `json:"qpn"`
}

// An outer field hides that of an embedded struct, as in JSON.
func TestCSVOfEmbedded(t *testing.T) {
	names, values, err := flatten(struct {
		Side string `json:"side"`
		edge
		Other edge `json:"other"`
	}{"left", edge{"right", 7}, edge{"up", 8}})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names, " ") + " = " + strings.Join(values, " "); got != "side qpn other_side other_qpn = left 7 up 8" {
		t.Error(got)
	}
}

func TestCSVRefusesWhatIsNoStruct(t *testing.T) {
	if _, _, err := flatten(7); err == nil {
		t.Error("7 was flattened")
	}
}

// A note ends a table, so that what follows has a header again; an aside does not.
func TestAside(t *testing.T) {
	var b strings.Builder
	p := New(&b, Table)
	row := func() {
		if err := p.Print(other{"one"}); err != nil {
			t.Fatal(err)
		}
	}
	row()
	if err := p.Aside(Faint, "of two", "lines"); err != nil {
		t.Fatal(err)
	}
	row()
	if err := p.Note(Plain, "the end"); err != nil {
		t.Fatal(err)
	}
	row()
	const want = "name rank\none     3\n# of two\n# lines\none     3\n# the end\nname rank\none     3\n"
	if b.String() != want {
		t.Errorf("got\n%s\nexpected\n%s", b.String(), want)
	}
	b.Reset()
	if p = New(&b, JSON); p.Aside(Plain, "not for programs") != nil || b.Len() > 0 {
		t.Errorf("JSON has %q", b.String())
	}
}

func TestComplaints(t *testing.T) {
	const text = "/no/such/file/that/is/longer/than/the/width is not there:  expected a file"
	for width, want := range map[int]string{
		0:  "ringcli: " + text + "\n",
		30: "\x1b[31;1mringcli:\x1b[0;22m\n  /no/such/file/that/is/longer/than/the/width\n  is not there: expected a\n  file\n",
	} {
		var out bytes.Buffer
		p := New(&out, CSV)
		p.SetColor(width > 0)
		p.SetWidth(func() int { return width })
		if err := p.Complain(Bad, text); err != nil || out.String() != want {
			t.Errorf("%d columns: %v\n%q, want\n%q", width, err, out.String(), want)
		}
	}
}

// What a peer or a stranger has sent does not drive the terminal.
func TestComplaintsAreTame(t *testing.T) {
	var out bytes.Buffer
	if err := New(&out, Table).Complain(Bad, "rank 1 says \x1b[2J\x07é\u202e"); err != nil || out.String() != "ringcli: rank 1 says \ufffd[2J\ufffdé\ufffd\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestCSVHasAHeaderATable(t *testing.T) {
	type one struct {
		A int `json:"a"`
	}
	type other struct {
		B int `json:"b"`
	}
	var out bytes.Buffer
	p := New(&out, CSV)
	for _, r := range []Record{one{1}, one{2}, other{3}, one{4}} {
		if err := p.Print(r); err != nil {
			t.Fatal(err)
		}
	}
	if want := "a\n1\n2\n\nb\n3\n\na\n4\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
