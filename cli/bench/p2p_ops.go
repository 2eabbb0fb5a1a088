package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/render"
	"ringcli/verbs"
)

// p2pOp is an operation that a p2p bench measures.
type p2pOp verbs.Opcode

var p2pOps = []p2pOp{p2pOp(verbs.OpWrite), p2pOp(verbs.OpRead), p2pOp(verbs.OpSend)}

func (o p2pOp) String() string {
	return strings.ToLower(strings.TrimPrefix(verbs.Opcode(o).String(), "RDMA_"))
}

// p2pOpsFlag is a p2p bench's --verbs: which are measured, in the order given.
func p2pOpsFlag(fs *pflag.FlagSet) *command.Parsed[[]p2pOp] {
	words := render.Words(p2pOps)
	p := listValue(words, "", func(word string) (p2pOp, error) {
		if i := slices.Index(words, strings.ToLower(word)); i >= 0 {
			return p2pOps[i], nil
		}
		return 0, fmt.Errorf("expected %s, or several of them separated by commas", strings.Join(words, ", "))
	})
	p.Value = &p2pOps
	fs.Var(p, "verbs", "p2p: what to measure, separated by commas")
	return p
}
