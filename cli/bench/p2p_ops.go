package bench

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/verbs"
)

// p2pOps are the operations of a p2p bench, in its order.
var p2pOps = []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpSend}

var p2pNames = map[verbs.Opcode]string{verbs.OpWrite: "WRITE", verbs.OpRead: "READ", verbs.OpSend: "SEND"}

func p2pName(op verbs.Opcode) string { return strings.ToLower(p2pNames[op]) }

func p2pWords(list []verbs.Opcode) []string {
	words := make([]string, len(list))
	for i, op := range list {
		words[i] = p2pName(op)
	}
	return words
}

// p2pOpsFlag is a p2p bench's --verbs: which are measured, in the order given.
func p2pOpsFlag(fs *pflag.FlagSet) *command.Parsed[[]verbs.Opcode] {
	p := &command.Parsed[[]verbs.Opcode]{
		Value: &p2pOps, Kind: "list", Completions: p2pWords(p2pOps),
		Text: func(list []verbs.Opcode) string { return strings.Join(p2pWords(list), ",") },
	}
	one := func(word string) (verbs.Opcode, error) {
		for _, op := range p2pOps {
			if strings.EqualFold(word, p2pName(op)) {
				return op, nil
			}
		}
		return 0, fmt.Errorf("expected %s, or several of them separated by commas", strings.Join(p.Completions, ", "))
	}
	p.Parse = func(list string) ([]verbs.Opcode, error) { return command.ParseList(list, "", one, p2pName) }
	fs.Var(p, "verbs", "p2p: what to measure, separated by commas")
	return p
}
