package hosts

import (
	"regexp"

	"ringcli/configs/usage"
)

// groupWords are what a list says of a host behind it: in which rack it is, or in which group
// of another kind.
var groupWords = regexp.MustCompile(`^(?:rack|group)=([0-9A-Za-z._-]+)$`)

// grouped takes the groups out of the entries of a list: the hosts that the rest stands for,
// and the group of each of them.
func grouped(entries []string) (hosts, groups []string, err error) {
	alike := 0 // of the last entry
	for i, e := range entries {
		found := groupWords.FindStringSubmatch(e)
		switch {
		case found == nil:
			list, err := Expand(e)
			if err != nil {
				return nil, nil, err
			}
			alike = len(list)
			hosts, groups = append(hosts, list...), append(groups, make([]string, alike)...)
		case len(hosts) == 0:
			return nil, nil, usage.Errorf("server list: entry %d is %q: expected a host before it, as in node0 rack=A", i, e)
		default:
			for i := len(groups) - alike; i < len(groups); i++ {
				groups[i] = found[1]
			}
		}
	}
	return hosts, groups, nil
}

// Groups returns the group of each entry of a list, as in "node0 rack=A"; "" where there is
// none.
func Groups(list string) ([]string, error) {
	entries, err := splitList(list, true)
	if err != nil {
		return nil, err
	}
	_, groups, err := grouped(entries)
	return groups, err
}
