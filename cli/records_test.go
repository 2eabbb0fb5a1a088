package cli

import (
	"bytes"
	"strings"
	"testing"

	"ringcli/cli/render"
)

// The names that scripts rely on.
func TestTheContractOfAMeasurement(t *testing.T) {
	var out bytes.Buffer
	if err := render.New(&out, render.JSON).Print(exampleMeasurement("all-reduce")); err != nil {
		t.Fatal(err)
	}
	o := objects(t, out.String())[0]
	for _, name := range strings.Fields("command ok bytes count type op protocol algorithm ranks iters time_us algbw_GBps busbw_GBps wrong per_rank") {
		if _, found := o[name]; !found {
			t.Errorf("no %q in %s", name, out.String())
		}
	}
	for _, name := range strings.Fields("min p50 p99 max") {
		if _, found := o["time_us"].(map[string]any)[name]; !found {
			t.Errorf("no time_us.%s in %s", name, out.String())
		}
	}
}
