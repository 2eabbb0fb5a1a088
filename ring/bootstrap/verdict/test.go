package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ringcli/ring/bootstrap/calls"
)

// Test is what came of packets that one rank sent another over their queue pairs.
type Test struct {
	From int `json:"from"`
	To   int `json:"to"`
	// Sent are the payloads in bytes of the probes that were sent, several of each, and
	// Arrived those of which one has come.
	Sent    []int `json:"sent,omitempty"`
	Arrived []int `json:"arrived,omitempty"`
	// Counted is what both ends have counted, where the device has no probes: nothing passes.
	Counted string `json:"counted,omitempty"`
	Address string `json:"address"` // the receiver's, and its UDP port
	Port    uint16 `json:"port"`
	// Since is for how long requests of this edge were sent again in vain; 0: none has failed.
	Since time.Duration `json:"since_ns,omitempty"`
}

// Result is what an edge carries in a direction.
type Result string

// The results.
const (
	Nothing Result = "nothing"
	Some    Result = "some"  // of the packets, and longer ones than were lost
	Short   Result = "short" // packets, and nothing longer
	All     Result = "all"
)

// results are all, from that which explains most.
var results = []Result{Nothing, Some, Short, All}

// Result returns what arrives. Where a longer packet has come, those that are missing were lost.
func (t *Test) Result() Result {
	switch {
	case t.Counted != "" || len(t.Arrived) == 0:
		return Nothing
	case slices.Equal(t.Arrived, t.Sent):
		return All
	case slices.Equal(t.Arrived, t.Sent[:min(len(t.Arrived), len(t.Sent))]):
		return Short
	}
	return Some
}

// Longest is the payload of the longest packet that has arrived, in bytes.
func (t *Test) Longest() int { return slices.Max(append([]int{0}, t.Arrived...)) }

func (t *Test) String() string {
	edge := fmt.Sprintf("rank %d to rank %d: ", t.From, t.To)
	switch {
	case t.Counted != "":
		return edge + t.Counted
	case len(t.Arrived) == 0:
		return edge + fmt.Sprintf("no probe arrived, of %s bytes of payload", sizes(t.Sent))
	}
	return edge + fmt.Sprintf("of probes of %s bytes of payload, several of each, those of %s arrived", sizes(t.Sent), sizes(t.Arrived))
}

// sizes is as in "0, 256, 512".
func sizes(list []int) string {
	return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(list), "[]")), ", ")
}

// Culprit is as what a rank is at fault.
type Culprit string

// The culprits: what is sent to it does not arrive, what it sends does not, neither does.
const (
	Receiver Culprit = "receiver"
	Sender   Culprit = "sender"
	Whole    Culprit = "node"
)

// RollUp returns the verdict on tests of several edges; nil if all carry everything. A rank is
// named if all tests of it as receiver, with two other ranks at least, ended in the same bad
// way, or all as sender, or both. Else an edge is named: one edge of a rank says nothing
// against the rank.
func RollUp(tests []Test, name func(rank int) string) *Verdict {
	bad := slices.DeleteFunc(slices.Clone(tests), func(t Test) bool { return t.Result() == All })
	if len(bad) == 0 {
		return nil
	}
	v := &Verdict{Kind: KindEdge, Rank: -1, Confidence: Certain, Tests: tests}
	// What failed comes before what was tested because of it: a probe of that may be lost by chance.
	slices.SortFunc(bad, func(a, b Test) int {
		return cmp.Or(-cmp.Compare(a.Since, b.Since), slices.Index(results, a.Result())-slices.Index(results, b.Result()), a.From-b.From, a.To-b.To)
	})
	most := bad[:0]
	for _, t := range bad {
		for _, rank := range []int{t.From, t.To} {
			for _, as := range []Culprit{Whole, Receiver, Sender} {
				if found := common(tests, rank, as); len(found) > len(most) {
					most, v.Rank, v.Culprit = found, rank, as
				}
			}
		}
	}
	if len(most) == 0 {
		most = bad[:1]
		back := find(tests, bad[0].To, bad[0].From)
		v.Edge = Direction{bad[0].From, bad[0].To, back != nil && back.same(&bad[0])}
	}
	if slices.ContainsFunc(most, func(t Test) bool { return t.Counted != "" || t.Result() == Some }) {
		v.Confidence = Suspect
	}
	for i := range bad {
		v.Since = max(v.Since, bad[i].Since)
		v.Evidence = append(v.Evidence, bad[i].String())
	}
	var well []string
	for _, t := range tests {
		if t.Result() == All {
			well = append(well, fmt.Sprintf("rank %d to rank %d", t.From, t.To))
		}
	}
	if len(well) > 0 {
		v.Evidence = append(v.Evidence, "all probes arrived: "+strings.Join(well, ", "))
	}
	v.word(&most[0], name)
	return v
}

// same tells whether two tests ended in the same way.
func (t *Test) same(other *Test) bool {
	return t.Result() == other.Result() && (t.Result() != Short || t.Longest() == other.Longest())
}

func find(tests []Test, from, to int) *Test {
	i := slices.IndexFunc(tests, func(t Test) bool { return t.From == from && t.To == to })
	if i < 0 {
		return nil
	}
	return &tests[i]
}

// common returns the tests of a rank as culprit if all are bad in the same way, and with two
// other ranks at least; none otherwise.
func common(tests []Test, rank int, as Culprit) (found []Test) {
	others := map[Culprit]map[int]bool{Receiver: {}, Sender: {}}
	for _, t := range tests {
		role, other := Receiver, t.From
		if t.From == rank {
			role, other = Sender, t.To
		}
		if t.From != rank && t.To != rank || as != Whole && as != role {
			continue
		}
		if t.Result() == All || len(found) > 0 && t.Result() != found[0].Result() {
			return nil
		}
		others[role][other] = true
		found = append(found, t)
	}
	for role, with := range others {
		if (as == Whole || as == role) && len(with) < 2 {
			return nil
		}
	}
	return found
}

// word puts a verdict in words; t is a test that it rests on.
func (v *Verdict) word(t *Test, name func(rank int) string) {
	defer func() {
		if v.Since > 0 {
			v.Text += fmt.Sprintf(" (for %s)", Span(v.Since))
		}
	}()
	from, to, port := name(t.From), name(t.To), fmt.Sprintf("UDP port %d", t.Port)
	open, between := "look for a filter (iptables -L -v -n, nft list ruleset) or a broken route", fmt.Sprintf("from rank %d to rank %d (%s, %s)", t.From, t.To, port, t.Address)
	long := fmt.Sprintf("over %d bytes", t.Longest())
	if t.Longest() == 0 && len(t.Sent) > 1 {
		long = fmt.Sprintf("of %d bytes and more", t.Sent[1])
	}
	smaller := fmt.Sprintf("look for the link with the smaller MTU (ip link; tracepath %s), or connect again with --mtu %d", t.Address, max(256, t.Longest()))
	drops := "see what drops them (ip -s link, ethtool -S, the switch's counters)"
	back := ""
	if other := find(v.Tests, t.To, t.From); other != nil && other.Result() == All {
		back = fmt.Sprintf("; what rank %d sends does", t.To)
	}
	if v.Rank < 0 {
		switch {
		case t.Result() == Nothing && v.Edge.Both:
			v.Text = fmt.Sprintf("no packet of %s passes between %s and %s, in either direction", port, from, to)
			v.Fix = fmt.Sprintf("%s %s, and back; TCP between them works", open, between)
		case t.Result() == Nothing:
			v.Text = fmt.Sprintf("what %s sends to %s over %s does not arrive%s", from, to, port, back)
			v.Fix = fmt.Sprintf("%s %s; TCP between them works", open, between)
		case t.Result() == Short:
			v.Text = fmt.Sprintf("packets with %s of payload from %s do not arrive at %s, and shorter ones do: the path's MTU is below the %d of the queue pair", long, from, to, t.Sent[len(t.Sent)-1])
			v.Fix = smaller
		default:
			v.Text = fmt.Sprintf("the path from %s to %s loses many packets", from, to)
			v.Fix = drops
		}
		return
	}
	var others []int
	clean := map[Culprit]bool{Receiver: true, Sender: true} // as that it is well
	for _, o := range v.Tests {
		switch {
		case o.To == v.Rank:
			others, clean[Receiver] = append(others, o.From), clean[Receiver] && o.Result() == All
		case o.From == v.Rank:
			others, clean[Sender] = append(others, o.To), clean[Sender] && o.Result() == All
		}
	}
	who, ranks := name(v.Rank), calls.Ranks(others)
	what := map[Result]string{Nothing: "nothing", Short: "no packet with " + long + " of payload", Some: "only a part of the packets"}[t.Result()]
	switch v.Culprit {
	case Receiver:
		v.Text = fmt.Sprintf("%s receives %s over %s, from %s", who, what, port, ranks)
		if clean[Sender] {
			v.Text += "; what it sends arrives"
		}
	case Sender:
		v.Text = fmt.Sprintf("%s that %s sends over %s arrives at %s", what, who, port, ranks)
		if clean[Receiver] {
			v.Text += "; what they send arrives at it"
		}
	default:
		v.Text = fmt.Sprintf("%s passes between %s and %s over %s, in either direction", what, who, ranks, port)
	}
	v.Fix = fmt.Sprintf("at rank %d, its port and its cable: %s", v.Rank, map[Result]string{Nothing: open + "; TCP to it works", Short: smaller, Some: drops}[t.Result()])
}

// Combine returns what two verdicts on tests say together, the same on all ranks whatever the
// order; nil if one of them does not rest on tests.
func Combine(a, b *Verdict, name func(rank int) string) *Verdict {
	if len(a.Tests) == 0 || len(b.Tests) == 0 {
		return nil
	}
	if Better(b, a) {
		a, b = b, a
	}
	var all []Test
	for _, t := range slices.Concat(a.Tests, b.Tests) {
		if find(all, t.From, t.To) == nil {
			all = append(all, t)
		}
	}
	switch len(all) {
	case len(a.Tests):
		return a
	case len(b.Tests):
		return b
	}
	slices.SortFunc(all, func(a, b Test) int { return cmp.Or(a.From-b.From, a.To-b.To) })
	v := RollUp(all, name)
	if v == nil {
		return a
	}
	v.By, v.Doing, v.Told = a.By, a.Doing, a.Told
	return v
}
