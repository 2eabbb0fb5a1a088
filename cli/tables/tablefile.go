package tables

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/collective"
	"ringcli/collective/plan"
)

// File holds tables that were tuned, one for each kind of ring:
//
//	{"tables": [{"ranks": 4, "devices": "soft", "rules": [
//	    {"op": "all-reduce", "max_bytes": 32768, "algorithm": "recursive-doubling"}]}]}
type File struct {
	Tables []Saved `json:"tables"`
}

// Saved is a table and what it was measured on.
type Saved struct {
	Ranks    int       `json:"ranks,omitempty"`   // 0: any number
	Devices  string    `json:"devices,omitempty"` // the providers of the ring's edges, such as shm+soft; empty: any
	Measured time.Time `json:"measured,omitzero"` // when
	Version  string    `json:"version,omitempty"` // of ringcli
	collective.Table
}

// find returns the table for such a ring: the first of those that say most about
// what they are for.
func (f File) find(ranks int, devices string) (t Saved, ok bool) {
	said := func(t Saved) int { return min(t.Ranks, 1) + min(len(t.Devices), 1) }
	for _, each := range f.Tables {
		fits := (each.Ranks == 0 || each.Ranks == ranks) && (each.Devices == "" || each.Devices == devices)
		if fits && (!ok || said(each) > said(t)) {
			t, ok = each, true
		}
	}
	return t, ok
}

// With returns the file with a table in the place of the one for the same rings.
func (f File) With(t Saved) File {
	next := File{slices.Clone(f.Tables)}
	same := slices.IndexFunc(next.Tables, func(o Saved) bool { return o.Ranks == t.Ranks && o.Devices == t.Devices })
	if same < 0 {
		next.Tables = append(next.Tables, t)
	} else {
		next.Tables[same] = t
	}
	return next
}

// UserPath is where tune saves, and auto looks; empty for who has no home.
func UserPath() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "ringcli", "table.json")
}

// Read reads a file of tables. A file that is not there is an error that
// wraps fs.ErrNotExist.
func Read(path string) (File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is no regular file")
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return File{}, exit.Usagef("table %s: %w: expected a file that `ringcli tune` has saved", path, err)
	}
	f, err := parse(text)
	if err != nil {
		return File{}, exit.Usagef("table %s: %w", path, err)
	}
	return f, nil
}

// parse takes a file apart piece by piece, so that an error can say which it
// is about.
func parse(text []byte) (f File, err error) {
	var whole struct {
		Tables []json.RawMessage `json:"tables"`
	}
	if err := strict(text, "", "tables", &whole); err != nil {
		return f, err
	}
	if whole.Tables == nil {
		return f, fmt.Errorf("it has no tables: expected an object such as `ringcli tune` saves")
	}
	for i, part := range whole.Tables {
		where := fmt.Sprintf("tables[%d]", i)
		var t struct {
			Saved
			Rules []json.RawMessage `json:"rules"`
		}
		if err := strict(part, where, "ranks, devices, rules and eager_max", &t); err != nil {
			return f, err
		}
		for j, part := range t.Rules {
			where := fmt.Sprintf("%s.rules[%d]", where, j)
			var r struct {
				collective.Rule
				Op *collective.Operation `json:"op"`
			}
			if err := strict(part, where, "op, ranks, max_bytes, algorithm and protocol", &r); err != nil {
				return f, err
			}
			if r.Op == nil {
				return f, fmt.Errorf("%s: it has no op: expected one of %s", where, strings.Join(render.Words(Operations), ", "))
			}
			r.Rule.Op = *r.Op
			t.Table.Rules = append(t.Table.Rules, r.Rule)
		}
		if t.Ranks < 0 {
			return f, fmt.Errorf("%s: ranks is %d: expected 1 or more, or 0 for any number", where, t.Ranks)
		}
		if err := t.Validate(); err != nil {
			return f, fmt.Errorf("%s: %w", where, err)
		}
		f.Tables = append(f.Tables, t.Saved)
	}
	return f, nil
}

// strict decodes one JSON value that has no other than these fields. What is wrong
// it says in terms of the file: the line, the field, and what was expected.
func strict(text []byte, where, fields string, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = fmt.Errorf("there is something after the end: expected one object")
		}
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("it is empty: expected an object with %s", fields)
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("line %d: it ends in the middle of a value: expected the rest of an object with %s", lineAt(text, int64(len(text))), fields)
	case errors.As(err, &syntax):
		err = fmt.Errorf("line %d: %w: expected JSON, an object with %s", lineAt(text, syntax.Offset), err, fields)
	case errors.As(err, &kind):
		what := kind.Field
		if at := strings.LastIndexByte(what, '.'); at >= 0 { // it is embedded
			what = what[at+1:]
		}
		if what == "" {
			what = "it"
		}
		err = fmt.Errorf("%s is of type %s: expected %s", what, kind.Value, jsonKind(kind.Type.Kind().String()))
	default:
		if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			err = fmt.Errorf("unknown field %s: expected %s", name, fields)
		}
	}
	if where != "" {
		err = fmt.Errorf("%s: %w", where, err)
	}
	return err
}

// jsonKind is what a Go kind is called in JSON.
func jsonKind(kind string) string {
	switch {
	case kind == "string":
		return "text"
	case strings.HasPrefix(kind, "int"):
		return "a whole number"
	case kind == "slice":
		return "an array"
	}
	return "an object"
}

func lineAt(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n"))
}

// Write writes the file whole or not at all, and makes its folder.
func (f File) Write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return exit.Usagef("--save %s: %w: expected a folder that can be made", path, err)
	}
	return render.WriteFile("--save "+path, path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(f)
	})
}

// CheckSave makes sure, before anything is measured for it, that a table can be
// saved, and reads what is there already.
func CheckSave(path string) (f File, err error) {
	if err := render.CheckReplaceable("--save", path); err != nil {
		return f, err
	}
	f, err = Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return f, err
}

// What is tuned.
var Operations = plan.AllOperations()
