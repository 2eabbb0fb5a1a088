package ring

import (
	"testing"

	"ringcli/verbs"
	"ringcli/verbs/cpu"
)

// Ranks of one host, each in a process of its own, share out its CPUs.
func TestSeat(t *testing.T) {
	cpus, err := cpu.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(cpus); n < 2 || n > 200 {
		t.Skipf("CPUs %v: expected 2 to 200", cpus)
	}
	servers := freshServers(t, len(cpus)+1)
	for _, c := range []struct {
		wait  verbs.WaitPolicy
		ranks int
		want  bool
	}{
		{verbs.WaitYield, len(cpus) + 1, true},
		{verbs.WaitYield, len(cpus) - 1, false},
		{verbs.WaitGosched, len(cpus) + 1, false},
	} {
		o := testOptions()
		o.Wait = c.wait
		rank := c.ranks - 1
		r, err := New(servers[:c.ranks], rank, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := r.Affinity(); (s != nil) != c.want || c.want && s.CPU() != cpus[rank%len(cpus)] {
			t.Errorf("%s, rank %d of %d on CPUs %v: %+v", c.wait, rank, c.ranks, cpus, s)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
