package cli

import (
	"fmt"
	"slices"
	"strings"

	"ringcli/verbs"
)

// p2pVerbs is the value of a p2p bench's --verbs: which of p2pOps are measured, in
// the order given.
type p2pVerbs []verbs.Opcode

func (v *p2pVerbs) Type() string { return "list" }

func (v *p2pVerbs) String() string { return strings.Join(v.names(), ",") }

// Words are offered by completion.
func (v *p2pVerbs) Words() []string { return (*p2pVerbs)(&p2pOps).names() }

func (v *p2pVerbs) names() []string {
	var names []string
	for _, op := range *v {
		names = append(names, strings.ToLower(p2pNames[op]))
	}
	return names
}

func (v *p2pVerbs) Set(text string) error {
	var list p2pVerbs
	for name := range strings.SplitSeq(text, ",") {
		at := slices.Index(v.Words(), strings.ToLower(strings.TrimSpace(name)))
		if at < 0 {
			return fmt.Errorf("expected %s, or several of them separated by commas", strings.Join(v.Words(), ", "))
		}
		if slices.Contains(list, p2pOps[at]) {
			return fmt.Errorf("expected each once; %s is there twice", v.Words()[at])
		}
		list = append(list, p2pOps[at])
	}
	*v = list
	return nil
}
