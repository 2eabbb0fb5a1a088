package ring

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"ringcli/configs/usage"
	"ringcli/verbs"
	"ringcli/verbs/cpu"
)

// Ranks of one host, each in a process of its own, share out its CPUs.
func TestAffinity(t *testing.T) {
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
		cpus  string
		want  []int
	}{
		{verbs.WaitYield, len(cpus) + 1, "", cpus},
		{verbs.WaitYield, len(cpus) + 1, "none", nil},
		{verbs.WaitYield, 1, "", nil},
		{verbs.WaitYield, 1, strconv.Itoa(cpus[1]), cpus[1:2]},
		{verbs.WaitYield, 2, cpu.FormatList([]int{cpus[1], cpus[0]}), cpus[:1]},
		{verbs.WaitGosched, len(cpus) + 1, "", nil},
	} {
		o := testOptions()
		o.Wait, o.CPUs = c.wait, c.cpus
		rank := c.ranks - 1
		r, err := New(servers[:c.ranks], rank, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a := r.host.Affinity(); (a != nil) != (c.want != nil) || a != nil && a.CPU() != c.want[rank%len(c.want)] {
			t.Errorf("%s, rank %d of %d on CPUs %q of %v: %+v", c.wait, rank, c.ranks, c.cpus, cpus, a)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// CPUs that are no list, or that this process may not run on, are an error before anything is
// opened.
func TestCPUsThatAreNone(t *testing.T) {
	cpus, err := cpu.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		"all":                           `cpus is "all": expected CPUs as in 0-3,8, auto or none`,
		"1,1":                           `cpus is "1,1": CPU 1 stands there twice, auto or none`,
		fmt.Sprintf("%d,8191", cpus[0]): fmt.Sprintf(`cpus is "%d,8191": this process may not run on CPU 8191, expected some of `, cpus[0]),
	} {
		o := testOptions()
		o.CPUs = given
		if _, err := New([]string{"a", "b"}, 0, o); !usage.Is(err) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}
