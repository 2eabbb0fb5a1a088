package tables

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/collective"
)

func exampleTable(ranks int, devices string) Saved {
	return Saved{
		Ranks: ranks, Devices: devices, Measured: time.Date(2026, 11, 21, 14, 0, 15, 0, time.UTC), Version: "v1.2.3",
		Table: collective.Table{Rules: []collective.Rule{
			{Op: collective.OpAllReduce, MaxBytes: 16 << 10, Algorithm: collective.AlgorithmInbox, Protocol: collective.Eager},
			{Op: collective.OpAllGather, Algorithm: collective.AlgorithmRing, Protocol: collective.RendezvousRead},
		}},
	}
}

func TestTableFileKeepsOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "table.json")
	if _, err := Read(path); !errors.Is(err, fs.ErrNotExist) || exit.Code(err) != exit.Usage {
		t.Fatalf("no file: %v", err)
	}
	f, err := CheckSave(path)
	if err != nil {
		t.Fatal(err)
	}
	two, four := exampleTable(2, "soft"), exampleTable(4, "shm+soft")
	for _, next := range []Saved{two, four, exampleTable(2, "soft")} {
		f = f.With(next)
		if err := f.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(path)
	if err != nil || !reflect.DeepEqual(got, File{[]Saved{two, four}}) {
		t.Errorf("got %+v, %v", got, err)
	}
	// Nothing but the file is left.
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestFindTable(t *testing.T) {
	any, ranks, devices, both := exampleTable(0, ""), exampleTable(4, ""), exampleTable(0, "shm"), exampleTable(4, "shm")
	f := File{[]Saved{any, ranks, devices, both}}
	for _, c := range []struct {
		ranks   int
		devices string
		want    Saved
	}{{4, "shm", both}, {4, "soft", ranks}, {2, "shm", devices}, {3, "soft", any}} {
		if got, ok := f.find(c.ranks, c.devices); !ok || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%d of %s: %+v", c.ranks, c.devices, got)
		}
	}
	if got, ok := (File{[]Saved{ranks, devices}}).find(2, "soft"); ok {
		t.Errorf("2 of soft: %+v", got)
	}
}

// What is wrong with a file is said with the line or the field, and what was
// expected.
func TestBrokenTables(t *testing.T) {
	rule := func(text string) string { return `{"tables":[{"ranks":2,"rules":[` + text + `]}]}` }
	for text, want := range map[string]string{
		"":                                "it is empty",
		"{\n\"tables\": [\n{,}\n]}":       "line 3: ",
		`{"tables":[`:                     "line 1: it ends in the middle",
		"mtu: 1024\n":                     "line 1: ",
		`[]`:                              "it is of type array: expected an object",
		`{}`:                              "it has no tables",
		`{"tables":[]} {}`:                "something after the end",
		`{"rules":[]}`:                    `unknown field "rules": expected tables`,
		`{"tables":[{"rank":2}]}`:         `tables[0]: unknown field "rank": expected ranks, devices, rules`,
		`{"tables":[{},{"ranks":"two"}]}`: "tables[1]: ranks is of type string: expected a whole number",
		`{"tables":[{"ranks":-1}]}`:       "tables[0]: ranks is -1: expected 1 or more",
		rule(`{"op":"all-reduce"}`):       "tables[0]: table: rule 1: algorithm auto: expected one of",
		rule(`{"algorithm":"ring"}`):      "tables[0].rules[0]: it has no op: expected one of all-reduce, reduce-scatter, all-gather",
		rule(`{"op":"all-reduce","algorithm":"star"}`):                       `tables[0].rules[0]: unknown algorithm "star": expected one of auto, ring`,
		rule(`{"op":"all-to-all","algorithm":"ring"}`):                       `tables[0].rules[0]: unknown operation "all-to-all"`,
		rule(`{"op":"all-reduce","algorithm":"ring","max_bytes":"32K"}`):     "tables[0].rules[0]: max_bytes is of type string: expected a whole number",
		rule(`{"op":"all-reduce","algorithm":"ring","bytes":32}`):            `tables[0].rules[0]: unknown field "bytes": expected op, ranks, max_bytes`,
		rule(`{"op":"all-reduce","algorithm":"tree","protocol":"rdv-read"}`): "tables[0]: table: rule 1: tree by rendezvous-read",
	} {
		_, err := parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%s:\n%v, want %s", text, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "table.json")
	if err := os.WriteFile(path, []byte(rule(`{"op":"x"}`)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "table "+path+": tables[0].rules[0]: ") || exit.Code(err) != exit.Usage {
		t.Errorf("%v", err)
	}
	if _, err := Read(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := CheckSave(path); err == nil {
		t.Error("a broken file would be overwritten")
	}
}

func TestTableFor(t *testing.T) {
	announced := Announcement{Path: "/x/table.json", Origin: "default", Tables: []Saved{exampleTable(4, "shm+soft")}}
	table, status := choose(announced, 4, []string{"soft", "shm", "soft", "shm"})
	if len(table.Rules) != 2 || status.Rules != 2 || status.Table != announced.Path || status.Devices != "shm+soft" || !strings.Contains(status.Why, "measured on 4 ranks of shm+soft, 2026-11-2") {
		t.Errorf("%+v", status)
	}
	for _, c := range []struct {
		announced Announcement
		want      string
	}{
		{announced, "/x/table.json has none for 4 ranks of soft"},
		{Announcement{Origin: "default"}, "`tune` measures a table for 4 ranks of soft"},
		{Announcement{Origin: "flag --table", Given: true}, "table is none (flag --table)"},
	} {
		if table, status := choose(c.announced, 4, []string{"soft", "soft"}); len(table.Rules) > 0 || status.Table != "" || status.Why != c.want {
			t.Errorf("%+v", status)
		}
	}
}

// Whatever a file of tables holds, it is tables whose rules can be followed, or an error.
func FuzzTables(f *testing.F) {
	for _, seed := range []string{
		`{"tables":[]}`, `{"tables":[{"ranks":2,"rules":[{"op":"all-reduce","max_bytes":1024,"algorithm":"ring","protocol":"eager"}]}]}`,
		`{"tables":[{"ranks":-1}]}`, `{"tables":[{"rules":[{"ranks":[3]}]}]}`, `{"tables":{}}`, `[`, `{"tables":[{"rules":[{"op":5}]}]} x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := parse(text)
		if err != nil {
			return
		}
		for _, s := range file.Tables {
			if err := s.Validate(); err != nil || s.Ranks < 0 {
				t.Errorf("%q: a table of %d ranks: %v", text, s.Ranks, err)
			}
		}
	})
}
