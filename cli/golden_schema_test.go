package cli

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"ringcli/cli/clitest"
	"ringcli/cli/doctor"
	"ringcli/cli/failure"
	"ringcli/cli/path"
	"ringcli/cli/render"
	"ringcli/cli/schema"
	"ringcli/cli/schema/schematest"
	"ringcli/configs/codes"
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
		case reflect.TypeFor[failure.Failure]():
			r.Commands = nil // whatever the user wrote
		case reflect.TypeFor[failure.SideFinding]():
			r.Commands = nil // whatever failed
		}
		records = append(records, r)
	}
	text, err := schematest.Generate("ringcli/cli", records, comments, map[reflect.Type][]string{
		reflect.TypeFor[codes.Code](): codes.Names(), reflect.TypeFor[doctor.Verdict](): render.Words(doctor.Verdicts),
		reflect.TypeFor[path.Check](): render.Words(path.Checks),
	})
	if err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, schemaFile, string(text))
	if !clitest.Update && string(text) != schema.JSON {
		t.Error("the schema that is built in is another")
	}
}

// The schema is strict: what is not a record of ours does not pass.
func TestTheSchemaRefuses(t *testing.T) {
	good := `{"command":"local","ok":false,"code":"lost","error":"x","exit_code":2}`
	if err := clitest.ValidLine(good); err != nil {
		t.Errorf("%s: %v", good, err)
	}
	for _, bad := range []string{
		`{}`, `[]`, `{"command":"local"}`,
		`{"command":"local","ok":false,"error":"x","exit_code":2}`,
		`{"command":"local","ok":false,"code":"perished","error":"x","exit_code":2}`,
		`{"command":"local","ok":false,"code":"lost","error":"x","exit_code":"2"}`,
		`{"command":"local","ok":false,"code":"lost","error":"x","exit_code":2,"more":1}`,
		`{"command":"ping","ok":true}`,
		`{"command":"status","ok":true,"rank":0,"peer":1,"bytes":1,"iters":1,"rtt_us":{"min":1,"p50":1,"p99":1,"max":1}}`,
		`{"command":"ping","ok":true,"rank":0,"peer":1,"bytes":1,"iters":1,"rtt_us":{"min":null,"p50":1,"p99":1,"max":1}}`,
	} {
		if clitest.ValidLine(bad) == nil {
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
