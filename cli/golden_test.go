package cli

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"ringcli/cli/clitest"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs"
)

// example is what a command prints, of fixed values that strain its columns.
type example struct {
	name  string // the command's, and after a blank that of a variant
	print func(s *session.Session) error
}

// printing is an example whose command only prints records, by one call or more.
func printing(name string, calls ...[]render.Record) example {
	return example{name, func(s *session.Session) error {
		for _, records := range calls {
			if err := s.Out.Print(records...); err != nil {
				return err
			}
		}
		return nil
	}}
}

func (e example) file(kind string) string {
	return filepath.Join("testdata", "golden", strings.ReplaceAll(e.name, " ", "-")+"."+kind)
}

// run prints the example as on a terminal of 80 columns, and returns the records
// that JSON and CSV show.
func (e example) run(t *testing.T, format render.Format, color bool) (text string, seen []render.Record) {
	t.Helper()
	cfg, err := configs.Load(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s := newInvocation(strings.NewReader(""), &out, &out, nil, nil).Session
	s.Config, s.Out = cfg, render.New(&out, format)
	s.Out.SetColor(color)
	s.Out.SetWidth(func() int { return 80 })
	s.Out.Seen = func(r render.Record) { seen = append(seen, r) }
	if err := e.print(s); err != nil {
		t.Fatalf("%s: %v", e.name, err)
	}
	return out.String(), seen
}

// views are the ways in which an example is kept.
var views = []struct {
	kind   string
	format render.Format
	color  bool
}{{"table", render.Table, false}, {"color", render.Table, true}, {"json", render.JSON, false}, {"csv", render.CSV, false}}

func TestGoldenExamples(t *testing.T) {
	files := map[string]bool{}
	for _, e := range examples() {
		for _, v := range views {
			text, _ := e.run(t, v.format, v.color)
			files[e.file(v.kind)] = true
			clitest.Golden(t, e.file(v.kind), text)
			switch v.kind {
			case "table":
				for line := range strings.Lines(text) {
					if utf8.RuneCountInString(line) > 81 {
						t.Errorf("%s: wider than 80 columns: %s", e.name, line)
					}
				}
			case "json":
				objects(t, text)
				clitest.ValidateJSON(t, text)
			}
		}
	}
	err := filepath.WalkDir("testdata/golden", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || files[path] {
			return err
		}
		if clitest.Update {
			return os.Remove(path)
		}
		t.Errorf("%s belongs to no example", path)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// noRecords are the commands that print no records of their own, and why.
var noRecords = map[string]string{
	"local":      "prints what its commands print",
	"shell":      "prints what its lines print",
	"source":     "prints what its lines print",
	"watch":      "prints what its command prints",
	"completion": "prints a script",
	"schema":     "prints the JSON Schema",
	"help":       "prints text",
	"close":      "prints a note",
	"expect":     "prints nothing, and fails or not",
	"set":        "prints a note",
	"sleep":      "prints nothing",
	"transcript": "prints nothing",
	"timing":     "prints nothing",
	"unalias":    "prints nothing",
	"wait":       "prints nothing",
	"stop":       "prints nothing",
	"cancel":     "prints nothing",
	"quit":       "prints nothing",
}

func TestEveryCommandHasAnExample(t *testing.T) {
	shown := map[string]bool{}
	for _, e := range examples() {
		name, _, _ := strings.Cut(e.name, " ")
		shown[name] = true
	}
	for _, c := range testTable.Rows {
		_, excused := noRecords[c.Name]
		switch {
		case !shown[c.Name] && !excused:
			t.Errorf("%s has no example of what it prints: add one to examples(), or say in noRecords why it prints no records", c.Name)
		case shown[c.Name] && excused:
			t.Errorf("%s prints records and prints none", c.Name)
		}
	}
}

// recordsSeen are the types of record that all examples print in a format, and
// the commands that they are of.
func recordsSeen(t *testing.T, format render.Format) map[reflect.Type]map[string]bool {
	t.Helper()
	types := map[reflect.Type]map[string]bool{}
	for _, e := range examples() {
		_, seen := e.run(t, format, false)
		for _, r := range seen {
			v := reflect.Indirect(reflect.ValueOf(r))
			if types[v.Type()] == nil {
				types[v.Type()] = map[string]bool{}
			}
			types[v.Type()][v.FieldByName("Command").String()] = true
		}
	}
	return types
}

// A type of record that no example prints would be missing from the schema.
func TestEveryRecordHasAnExample(t *testing.T) {
	shown := map[string]bool{}
	for _, format := range []render.Format{render.JSON, render.CSV} {
		for typ := range maps.Keys(recordsSeen(t, format)) {
			shown[typ.Name()] = true
		}
	}
	rooms, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	within, err := filepath.Glob("*/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range slices.Concat(paths, rooms, within) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !isRecord(spec) {
				return true
			}
			found++
			if !shown[spec.Name.Name] {
				t.Errorf("no example prints a %s: add one to examples()", spec.Name.Name)
			}
			return true
		})
	}
	if found < len(shown) {
		t.Errorf("%d types of record were found, but %d are shown", found, len(shown))
	}
}

// isRecord tells whether a type is a struct that begins as all records do.
func isRecord(spec *ast.TypeSpec) bool {
	typ, ok := spec.Type.(*ast.StructType)
	if !ok || len(typ.Fields.List) < 2 {
		return false
	}
	for i, name := range []string{"command", "ok"} {
		tag := typ.Fields.List[i].Tag
		if tag == nil || !strings.Contains(tag.Value, fmt.Sprintf("json:%q", name)) {
			return false
		}
	}
	return true
}
