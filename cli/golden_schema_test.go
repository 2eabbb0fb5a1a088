package cli

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"ringcli/cli/render"
	"ringcli/cli/schema"
	"ringcli/cli/schema/schematest"
)

const schemaFile = "schema/ringcli.schema.json"

func TestGoldenSchema(t *testing.T) {
	comments, err := schematest.SourceComments("ringcli", "..")
	if err != nil {
		t.Fatal(err)
	}
	var records []schematest.Record
	for typ, commands := range recordsSeen(t, render.JSON) {
		r := schematest.Record{Type: typ, Commands: slices.Sorted(maps.Keys(commands))}
		switch typ {
		case reflect.TypeFor[Failure]():
			r.Commands = nil // whatever the user wrote
		case reflect.TypeFor[SideFinding]():
			r.Commands = nil // whatever failed
		}
		records = append(records, r)
	}
	text, err := schematest.Generate(records, comments)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, schemaFile, string(text))
	if !update && string(text) != schema.JSON {
		t.Error("the schema that is built in is another")
	}
}

// compiled is the schema of a line, and of each type of record.
var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:ringcli:output", document); err != nil {
		return nil, err
	}
	return c.Compile("urn:ringcli:output")
})

// validateJSON checks each line of output that is a record against the schema.
// A last line that is cut off, as of a process that was killed, is no line.
func validateJSON(t *testing.T, output string) {
	t.Helper()
	if _, err := compiled(); err != nil {
		t.Error(err)
		return
	}
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, `{"command":`) || !strings.HasSuffix(line, "}\n") {
			continue
		}
		if err := validLine(line); err != nil {
			t.Errorf("the JSON Schema does not describe %s%v\n(a new type of record, or of command, needs an example; then `make golden`)", line, err)
		}
	}
}

func validLine(line string) error {
	s, err := compiled()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	if err != nil {
		return err
	}
	return s.Validate(value)
}

// The schema is strict: what is not a record of ours does not pass.
func TestTheSchemaRefuses(t *testing.T) {
	good := `{"command":"local","ok":false,"error":"x","exit_code":2}`
	if err := validLine(good); err != nil {
		t.Errorf("%s: %v", good, err)
	}
	for _, bad := range []string{
		`{}`, `[]`, `{"command":"local"}`,
		`{"command":"local","ok":false,"error":"x","exit_code":"2"}`,
		`{"command":"local","ok":false,"error":"x","exit_code":2,"more":1}`,
		`{"command":"ping","ok":true}`,
		`{"command":"status","ok":true,"rank":0,"peer":1,"bytes":1,"iters":1,"rtt_us":{"min":1,"p50":1,"p99":1,"max":1}}`,
		`{"command":"ping","ok":true,"rank":0,"peer":1,"bytes":1,"iters":1,"rtt_us":{"min":null,"p50":1,"p99":1,"max":1}}`,
	} {
		if validLine(bad) == nil {
			t.Errorf("the schema lets pass: %s", bad)
		}
	}
}

// Each field is described, so that a script's author need not read the source.
func TestTheSchemaDescribes(t *testing.T) {
	var s struct {
		Defs map[string]struct {
			Description string
			Properties  map[string]any
		} `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(schema.JSON), &s); err != nil {
		t.Fatal(err)
	}
	for name, d := range s.Defs {
		if d.Description == "" || len(d.Properties) == 0 {
			t.Errorf("%s: a description of %q, %d properties: the type's comment says what it is", name, d.Description, len(d.Properties))
		}
	}
}
