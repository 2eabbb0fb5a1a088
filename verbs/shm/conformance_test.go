package shm_test

import (
	"testing"

	"ringcli/verbs"
	_ "ringcli/verbs/shm"
	"ringcli/verbs/verbstest"
)

// open opens shm:0 or fails the test.
func open(t testing.TB) verbs.Context {
	t.Helper()
	device, err := verbs.Find("shm:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := device.Open(verbs.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

func TestConformance(t *testing.T) {
	verbstest.Run(t, verbstest.Harness{
		Open: func(t testing.TB) (a, b verbstest.Endpoint) {
			return verbstest.Endpoint{Context: open(t)}, verbstest.Endpoint{Context: open(t)}
		},
	})
}
