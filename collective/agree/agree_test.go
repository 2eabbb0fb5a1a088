package agree

import "testing"

// TestTurns: ranks take turns on the CPUs that they may run on, each on its own or all on all.
func TestTurns(t *testing.T) {
	for _, test := range []struct {
		allowed []string
		want    int
	}{
		{[]string{"0-1", "0-1"}, 1},
		{[]string{"0-1", "0-1", "0-1"}, 2},
		{[]string{"0", "1"}, 1},                     // bound to a CPU each
		{[]string{"3", "3"}, 2},                     // both to the same
		{[]string{"0-3", "0", "0", "4-7"}, 2},       // two to one, the others where there is room
		{[]string{"0-1", "0", "1"}, 2},              // two are bound, and the third has no other
		{[]string{"0-1", "1-2", "2-3", "0-3"}, 1},   // they overlap
		{[]string{"0-1", "1-2", "0-2", "0-2"}, 2},   // four on three
		{[]string{"0,2", "0,2", "1,3", "1,3"}, 1},   // sockets
		{[]string{"0,2", "0,2", "0,2", "1,3"}, 2},   // the second socket does not help
		{[]string{"0-1", ""}, 0},                    // not known
		{[]string{"0-63", "64-127", "0", "128"}, 1}, // many
	} {
		all := make([]Capabilities, len(test.allowed))
		for rank, list := range test.allowed {
			all[rank].Allowed = list
		}
		if got := Turns(all); got != test.want {
			t.Errorf("ranks on CPUs %q take %d turns: expected %d", test.allowed, got, test.want)
		}
	}
}
