package hosts

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"

	"ringcli/configs/usage"
)

// saysOfHosts are what a list says of the hosts before it: in which rack or other group they
// are; of how many ranks each of them is the host, as host files of Open MPI have it, in which a
// limit (max_slots) alone is that number, too (measured: 4.1.4).
var saysOfHosts = regexp.MustCompile(`^(?:(?:rack|group)=([0-9A-Za-z._-]+)|slots=([1-9][0-9]{0,4})|max[_-]slots=([1-9][0-9]{0,4}))$`)

// described takes what is said of hosts out of the entries of a list: the hosts that the rest
// stands for, one for each rank, and the group of each of them.
func described(entries []string) (hosts, groups []string, err error) {
	first, slots, limit := 0, 0, 0 // of the last entry
	repeat := func() error {
		n := cmp.Or(slots, limit, 1)
		if len(hosts)-first > maxHosts/n {
			return usage.Errorf("server list: %d slots of %q stand for more than %d hosts", n, hosts[first], maxHosts)
		}
		hosts, groups = times(hosts, first, n), times(groups, first, n)
		return nil
	}
	for i, e := range entries {
		found := saysOfHosts.FindStringSubmatch(e)
		switch {
		case found == nil:
			list, err := Expand(e)
			if err == nil {
				err = repeat()
			}
			if err != nil {
				return nil, nil, err
			}
			first, slots, limit = len(hosts), 0, 0
			hosts, groups = append(hosts, list...), append(groups, make([]string, len(list))...)
		case len(hosts) == 0:
			return nil, nil, usage.Errorf("server list: entry %d is %q: expected a host before it, as in node0 rack=A or node0 slots=8", i, e)
		case found[1] != "":
			for i := first; i < len(groups); i++ {
				groups[i] = found[1]
			}
		case found[2] != "" && slots > 0:
			return nil, nil, usage.Errorf("server list: entry %d is %q, and %q has a number of slots before it: expected one", i, e, hosts[first])
		case found[2] != "":
			slots, _ = strconv.Atoi(found[2]) // at most five digits
		default:
			limit, _ = strconv.Atoi(found[3]) // so
		}
	}
	err = repeat()
	return hosts, groups, err
}

// times repeats each entry from the first on.
func times(list []string, first, n int) []string {
	out := slices.Clone(list[:first])
	for _, e := range list[first:] {
		out = append(out, slices.Repeat([]string{e}, n)...)
	}
	return out
}

// Groups returns the group of each entry of a list, as in "node0 rack=A"; "" where there is
// none.
func Groups(list string) ([]string, error) {
	entries, err := splitList(list, true)
	if err != nil {
		return nil, err
	}
	_, groups, err := described(entries)
	return groups, err
}

// PortsLikeSlots says of a list whose entries all have the same port, one below 1024, what was
// perhaps meant; "" of others.
func PortsLikeSlots(nodes []Node) string {
	if len(nodes) == 0 || nodes[0].Port >= 1024 || slices.ContainsFunc(nodes, func(n Node) bool { return n.Port != nodes[0].Port }) {
		return ""
	}
	n := nodes[0]
	return "the list's " + n.String() + " is TCP port " + strconv.Itoa(n.Port) + " of host " + n.Host + ", as of all its hosts: if that is a number of ranks, write " +
		strconv.Quote(n.Host+" slots="+strconv.Itoa(n.Port)) + ", or give a machine file of MPICH as @mpich:FILE"
}
