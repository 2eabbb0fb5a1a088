package hosts

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"ringcli/configs/usage"
)

// rangeWords are numbers in brackets, as Slurm lists hosts: node[0-3,7] (the manual of
// scontrol, "hostnames"). An address in brackets has a colon.
var rangeWords = regexp.MustCompile(`\[[0-9]+(?:[-,][0-9]+)*\]`)

// maxHosts bounds what one entry stands for: more is a mistake.
const maxHosts = 1 << 16

// splitCommas splits a list at its commas, but for those in brackets of numbers.
func splitCommas(list string) (parts []string) {
	begin, inside := 0, rangeWords.FindAllStringIndex(list, -1)
	for i := range len(list) {
		for len(inside) > 0 && inside[0][1] <= i {
			inside = inside[1:]
		}
		if list[i] == ',' && (len(inside) == 0 || i < inside[0][0]) {
			parts, begin = append(parts, list[begin:i]), i+1
		}
	}
	return append(parts, list[begin:])
}

// Expand returns the hosts that an entry stands for: node[08-10,12] for node08, node09,
// node10 and node12, each perhaps with what follows, such as its port. Of several brackets
// the last counts fastest. An entry without is itself.
func Expand(entry string) (list []string, err error) {
	at := rangeWords.FindStringIndex(entry)
	if at == nil {
		return []string{entry}, nil
	}
	rest, err := Expand(entry[at[1]:])
	if err != nil {
		return nil, err
	}
	for _, part := range strings.Split(entry[at[0]+1:at[1]-1], ",") {
		numbers := strings.Split(part, "-")
		first, last := numbers[0], numbers[len(numbers)-1]
		from, errFrom := strconv.ParseUint(first, 10, 32)
		to, errTo := strconv.ParseUint(last, 10, 32)
		if len(numbers) > 2 || errFrom != nil || errTo != nil || from > to {
			return nil, usage.Errorf("server list: %q in %q: expected a number, or two with the smaller first, as in node[0-3,7]", part, entry)
		}
		if uint64(len(list))+(to-from+1)*uint64(len(rest)) > maxHosts {
			return nil, usage.Errorf("server list: %q stands for more than %d hosts", entry, maxHosts)
		}
		for n := from; n <= to; n++ {
			for _, r := range rest {
				list = append(list, fmt.Sprintf("%s%0*d%s", entry[:at[0]], len(first), n, r))
			}
		}
	}
	return list, nil
}
