package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/collective"
	"ringcli/collective/backend"
	"ringcli/configs"
)

func init() {
	algorithms := collective.Algorithms()[1:] // without auto
	configs.Allow("algorithm", render.Words(algorithms), func(i int) []string { return algorithms[i].Aliases() })
}

// Variant is how an operation runs, as it is asked for: auto is what the library
// chooses.
type Variant struct {
	Algorithm collective.Algorithm `json:"algorithm"`
	Protocol  collective.Protocol  `json:"protocol"`
	// Backend is another one than our ring, which chooses the two itself; absent of our ring.
	Backend string `json:"backend,omitempty"`
}

// String is "ring/eager"; of what is left to the library nothing is said.
func (w Variant) String() string {
	switch {
	case w.Backend != "":
		return w.Backend
	case w.Protocol == collective.Auto:
		return w.Algorithm.String()
	case w.Algorithm == collective.AlgorithmAuto:
		return w.Protocol.String()
	}
	return w.Algorithm.String() + "/" + w.Protocol.String()
}

// variantOf is how an operation is going to run.
func variantOf(p collective.Call) Variant {
	return Variant{Algorithm: p.Algorithm, Protocol: p.Protocol}
}

// variantsOf are all that this ring has of an operation, without auto: the ring's first.
// All-reduce has all that others have.
func variantsOf(c *collective.Comm, op collective.Operation) Variants {
	var list Variants
	for _, a := range collective.Algorithms()[1:] {
		for _, p := range collective.Protocols()[1:] {
			if w := (Variant{Algorithm: a, Protocol: p}); w.runs(c, op) {
				list = append(list, w)
			}
		}
	}
	return list
}

// runs tells whether this ring has an operation so: what it has not is refused, such as
// an inbox of many ranks.
func (w Variant) runs(c *collective.Comm, op collective.Operation) bool {
	o := operation{op: op}
	if op.OnVectors() {
		o.count = 1
	}
	plan, err := c.Plan(o.by(w).call())
	return err == nil && variantOf(plan) == w
}

// short names a variant in a column: by the protocol alone where the ring runs,
// which has most of them, and by the algorithm alone where that runs eagerly, as
// most do. JSON has both.
func (w Variant) short() string {
	switch {
	case w.Backend != "", w.Protocol == collective.Direct:
		return w.String()
	case w.Algorithm == collective.AlgorithmRing:
		return w.Protocol.String()
	}
	return w.Algorithm.String()
}

// check refuses what no ring has.
func (w Variant) check(command string, op collective.Operation) error {
	if w.Backend != "" {
		return nil // checkBackends does
	}
	most := collective.AlgorithmRing // which can do every protocol, but a barrier's
	if !op.OnVectors() {
		most = collective.AlgorithmInbox
	}
	a := cmp.Or(w.Algorithm, most)
	if err := (collective.Rule{Op: op, Algorithm: a, Protocol: w.Protocol}).Validate(); err != nil {
		return exit.Usagef("%s: %w", command, err)
	}
	return nil
}

// Variants are those that are compared, in the order in which they were asked for.
type Variants []Variant

// label names one of them, or what auto takes, by what they differ in.
func (list Variants) label(w Variant) string {
	first := list[0]
	oneAlgorithm := !slices.ContainsFunc(list, func(o Variant) bool { return o.Algorithm != first.Algorithm })
	oneProtocol := !slices.ContainsFunc(list, func(o Variant) bool { return o.Protocol != first.Protocol })
	switch {
	case w.Backend == "" && slices.ContainsFunc(list, func(o Variant) bool { return o.Backend != "" }) && w == (Variant{}):
		return backend.Ring
	case w.Backend != "":
		return w.Backend
	case oneAlgorithm && w.Algorithm == first.Algorithm:
		return w.Protocol.String()
	case oneProtocol && (first.Protocol == collective.Auto || w.Protocol == first.Protocol):
		return w.Algorithm.String()
	}
	return w.String()
}

// allChoices stands for all but auto.
const allChoices = "all"

// listFlag declares a bench's --algorithm or --protocol, which is a setting's value
// elsewhere, and here several of them, which are compared; AddFlags leaves it alone.
// The first of all is auto.
func listFlag[T comparable](fs *pflag.FlagSet, name string, all []T, parse func(string) (T, error)) *command.Parsed[[]T] {
	setting, _ := configs.Lookup(name)
	p := command.ListOf(append(render.Words(all), allChoices), name+" ", func(word string) (T, error) {
		if word == "" {
			return all[0], fmt.Errorf("expected one %s, several separated by commas, such as %v,%v, or %s", name, all[1], all[2], allChoices)
		}
		return parse(word)
	})
	parseList := p.Parse
	p.Parse = func(text string) ([]T, error) {
		if strings.EqualFold(strings.TrimSpace(text), allChoices) {
			return slices.Clone(all[1:]), nil
		}
		list, err := parseList(text)
		if len(list) > 1 && slices.Contains(list, all[0]) {
			return nil, fmt.Errorf("expected auto alone: it is one of the others at each size, and what it takes is marked")
		}
		return list, err
	}
	// The default is the table's own, which is valid.
	_ = p.Set(fmt.Sprint(setting.Default))
	fs.Var(p, name, setting.FlagUsage()+"; several, separated by commas, or all, are compared")
	return p
}

// asked returns what was asked for by a flag or a setting: one, or in a bench as
// many as are compared.
func asked[T collective.Protocol | collective.Algorithm](s *session.Session, call command.Call, name string, parse func(string) (T, error)) ([]T, error) {
	if f := call.Flags.Lookup(name); f != nil && f.Changed {
		if p, ok := f.Value.(*command.Parsed[[]T]); ok {
			return *p.Value, nil
		}
	}
	c, err := settings(s, call, name)
	if err != nil {
		return nil, err
	}
	one, err := parse(c.Get(name).String())
	if err != nil {
		return nil, exit.Usagef("%w", err)
	}
	return []T{one}, nil
}

// possible leaves out of several variants what this ring or the library has not, and
// says so: of one also why.
func possible(m *session.Member, s *session.Session, o operation, list Variants) (Variants, error) {
	var can Variants
	var left []string
	var last error
	for _, w := range list {
		if w.Backend != "" {
			can = append(can, w)
			continue
		}
		if _, err := m.Comm.Plan(o.by(w).call()); err != nil {
			left, last = append(left, w.String()), exit.Sharedf(exit.Usage, "%w", err)
			continue
		}
		can = append(can, w)
	}
	text := "left out: " + strings.Join(left, ", ")
	switch {
	case len(can) == 0:
		return nil, last
	case len(left) == 0 || s.Out.Format() != render.Table:
		return can, nil
	case len(left) == 1:
		text = "left out: " + last.Error()
	}
	if err := s.Out.Notes(render.Faint, render.Folded(text, 78)...); err != nil {
		return nil, err
	}
	return can, nil
}

// askedVariants returns the variants to run an operation that were asked for: each algorithm
// with each protocol that there is for it. Several protocols are the ring's unless
// an algorithm is named.
func askedVariants(s *session.Session, call command.Call) (Variants, error) {
	algorithms, err := asked(s, call, "algorithm", collective.ParseAlgorithm)
	if err != nil {
		return nil, err
	}
	protocols, err := asked(s, call, "protocol", collective.ParseProtocol)
	if err != nil {
		return nil, err
	}
	if len(protocols) > 1 && algorithms[0] == collective.AlgorithmAuto {
		algorithms = []collective.Algorithm{collective.AlgorithmRing}
	}
	others, ring := vendors(call)
	if !ring {
		return others, nil
	}
	var list Variants
	for _, a := range algorithms {
		for _, p := range protocols {
			list = append(list, Variant{Algorithm: a, Protocol: p})
		}
	}
	return append(list, others...), nil
}
