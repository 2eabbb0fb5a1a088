package report

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ringcli/cli/report/redact"
)

// words are what was removed: "2 by the rule name".
func words(removed map[string]int) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(removed)) {
		list = append(list, fmt.Sprintf("%d by the rule %s", removed[name], name))
	}
	return strings.Join(list, ", ")
}

// stacks are how the names of variables begin that say how a ring, or a peer's stack, runs.
var stacks = []string{"RINGCLI_", "NCCL_", "UCX_", "OMPI_"}

// environment are the variables of the stacks, a line each; no other's name is told.
func environment(environ []string) []byte {
	var b bytes.Buffer
	slices.Sort(environ)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !slices.ContainsFunc(stacks, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		// Quoted, a value ends where it ends.
		if redact.IsName([]byte(name)) || strings.ContainsAny(value, "\r\n\"'\\") {
			value = strconv.Quote(value)
		}
		fmt.Fprintf(&b, "%s=%s\n", name, value)
	}
	return b.Bytes()
}
