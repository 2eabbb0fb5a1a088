package calls

import "testing"

// What ranks call is told once for all that call it: the minority first, and last those
// that call nothing.
func TestTabulate(t *testing.T) {
	call := func(words ...string) (list []Called) {
		for _, w := range words {
			if w == "idle" || w == "silent" {
				list = append(list, Called{State: w})
			} else {
				list = append(list, Called{Call: w})
			}
		}
		return list
	}
	for _, c := range []struct {
		calls  []Called
		want   string
		differ bool
	}{
		{call("a", "a", "b", "a"), "rank 2 calls b; ranks 0, 1, 3 call a", true},
		{call("a", "b"), "rank 0 calls a; rank 1 calls b", true},
		{call("b", "b", "a", "a"), "ranks 0, 1 call b; ranks 2, 3 call a", true},
		{call("idle", "b", "b", "a", "silent", "idle"), "rank 3 calls a; ranks 1, 2 call b; rank 4: silent; ranks 0, 5: idle", true},
		{call("a", "idle", "a"), "ranks 0, 2 call a; rank 1: idle", false},
		{call("a", "a"), "ranks 0, 1 call a", false},
	} {
		table := Tabulate(c.calls)
		if got := Tell("call", table); got != c.want || Differ(table) != c.differ {
			t.Errorf("%q, differ %v: expected %q, %v", got, Differ(table), c.want, c.differ)
		}
	}
}
