//go:build linux

package cases

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

type outcome struct {
	Seed   uint64 `json:"seed"`
	Number int    `json:"case"`
	Said   string `json:"said"`
}

// The cases of a log are not run again: those of this seed whose line is whole. Of a case that
// is there twice the last line counts.
func TestFinished(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	o := options{log: log, seed: 1, from: 2, cases: 3}
	if all, err := finished[outcome](o); err != nil || len(all) > 0 {
		t.Errorf("no log: %v, %v", all, err)
	}
	const text = `{"seed":1,"case":1,"said":"before"}
{"seed":1,"case":2,"said":"first"}
{"seed":2,"case":3,"said":"other seed"}
{"said":"no case"}
{"seed":1,"case":2,"said":"again"}
{"seed":1,"case":4,"said":"last"}
{"seed":1,"case":3,"sa`
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := finished[outcome](o)
	if err != nil || !slices.Equal(slices.Sorted(maps.Keys(all)), []int{2, 4}) || all[2].Said != "again" {
		t.Errorf("%v, %v", all, err)
	}
}

// A case that is ended from outside says which it was.
func TestBroken(t *testing.T) {
	r := Rig[outcome]{Name: "rig", Broken: func(seed uint64, number int, err error) outcome { return outcome{seed, number, err.Error()} }}
	if o := r.isolated(options{ringcli: "/nowhere", seed: 7}, 3); o.Seed != 7 || o.Number != 3 || o.Said == "" { // this program knows none of the flags
		t.Errorf("%+v", o)
	}
}
