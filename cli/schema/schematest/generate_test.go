package schematest

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

type embedded struct {
	Side  string `json:"side"` // hidden by the outer one
	Inner int    `json:"inner"`
}

type nested struct {
	N uint64 `json:"n"`
}

type record struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Side    int    `json:"side"` // the outer one
	embedded
	Maybe   *float64         `json:"maybe"`
	Left    *nested          `json:"left,omitempty"`
	Null    *nested          `json:"null"`
	List    []nested         `json:"list"`
	Counts  map[string]int8  `json:"counts"`
	Address netip.Addr       `json:"address"`
	Raw     json.RawMessage  `json:"raw,omitempty"`
	Deep    map[string][]any `json:"deep,omitempty"`
	Hidden  string           `json:"-"`
	private int
}

type noCommand struct {
	OK      bool   `json:"ok"`
	Command string `json:"command"`
}

type noName struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Forgot  int
}

type noJSON struct {
	Command string   `json:"command"`
	OK      bool     `json:"ok"`
	C       chan int `json:"c"`
}

// home is the package of the test's records.
var home = reflect.TypeFor[record]().PkgPath()

func commentsOfTest(_, name string) string {
	return map[string]string{"record.Side": "the outer one"}[name]
}

func TestGenerate(t *testing.T) {
	text, err := Generate(home, []Record{{reflect.TypeFor[record](), []string{"b", "a"}}}, commentsOfTest, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"description": "the outer one"`) {
		t.Errorf("no comment in\n%s", text)
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:ringcli:output", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("urn:ringcli:output")
	if err != nil {
		t.Fatal(err)
	}
	half := 0.5
	full := record{
		Command: "a", OK: true, Side: 1, embedded: embedded{"left", 2}, Maybe: &half, Left: &nested{1 << 63}, Null: &nested{}, List: []nested{{1}},
		Counts: map[string]int8{"x": -1}, Address: netip.MustParseAddr("::1"), Raw: json.RawMessage(`[1]`), Deep: map[string][]any{"y": {1, "z", nil}}, private: 1,
	}
	for _, r := range []record{full, {Command: "b"}} {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(line)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(value); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	line, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"command":"a"`, `"command":"c"`}, {`"side":1`, `"side":"left"`}, {`"maybe":0.5`, `"maybe":"0.5"`}, {`"n":9223372036854775808`, `"n":-1`},
		{`"inner":2`, `"outer":2`}, {`"x":-1`, `"x":0.5`}, {`"list":[{"n":1}]`, `"list":[{"n":null}]`}, {`"ok":true`, `"ok":1`},
	} {
		bad := strings.Replace(string(line), change[0], change[1], 1)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(bad))
		if err != nil || bad == string(line) {
			t.Fatalf("%s is no change of %s: %v", change, line, err)
		}
		if s.Validate(value) == nil {
			t.Errorf("it lets pass %s", change[1])
		}
	}
}

func TestGenerateRefuses(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[noCommand](), reflect.TypeFor[noName](), reflect.TypeFor[noJSON]()} {
		if _, err := Generate(home, []Record{{typ, nil}}, commentsOfTest, nil); err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

func TestSourceComments(t *testing.T) {
	comments, err := SourceComments("ringcli", "../../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Record":       `A type of record and the values that its field "command" can have; without any, every text.`,
		"node.Type":    "a string, or two",
		"Record.Type":  "",
		"no such type": "",
	} {
		if got := comments("ringcli/cli/schema/schematest", name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := comments("net/netip", "Addr"); got != "" {
		t.Errorf("of another module: %q", got)
	}
	if _, err := SourceComments("ringcli", t.TempDir()); err == nil {
		t.Error("a directory without the module is read")
	}
}
