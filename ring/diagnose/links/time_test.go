package links_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ringcli/ring/diagnose/links"
	"ringcli/ring/diagnose/links/linkstest"
	"ringcli/verbs/soft/rc/rctest/fabric"
)

// What the steps of a mesh take: a pair is measured for 100 ms; a rank takes its queue pair to
// its next peer by four calls of a driver; a part of a barrier goes from rank to rank round the
// ring, which takes each a read, an HMAC, JSON and a write.
const (
	spanOfPair = 100 * time.Millisecond
	connecting = time.Millisecond
	handling   = 50 * time.Microsecond
	hop        = 30 * time.Microsecond // of TCP, one way
	perByte    = 10 * time.Nanosecond  // of JSON
	wordBytes  = 250                   // of a part that says how a round went
	pairBytes  = 120                   // of one that says what was measured, for each pair
)

// What links --mesh takes from the first round to the verdict, with five culprits that are
// measured again three times: the rounds are those of the tournament and of Retests, with a
// barrier after each that goes round the ring by messages under a virtual clock. LINKS_SEEDS=232:
// says it for 232 ranks, beside the 19 hours of a test for each pair and the 28 minutes of
// group testing that a published design reckons with.
func TestTimeOfMesh(t *testing.T) {
	n := 32
	if all := os.Getenv("LINKS_SEEDS"); strings.HasPrefix(all, "232:") {
		n = 232
	}
	w := linkstest.New(n, 1, "slow sender", "slow receiver", "slow pair", "lossy pair", "late pair")
	v := links.Judge(w.Measure(nil), links.Options{})
	var phases [][][]int // the rounds between which all tell what they have measured
	for round := range links.Rounds(n) {
		if round == 0 {
			phases = append(phases, nil)
		}
		phases[0] = append(phases[0], links.Circle(n, round))
	}
	for range links.Confirmations(n) {
		batches := v.Retests(n)
		var rounds [][]int
		for _, b := range batches {
			rounds = append(rounds, links.Disjoint(n, b)...)
		}
		phases = append(phases, rounds)
		v = v.Confirm(w.Measure(slices.Concat(batches...)))
	}
	if g := w.Grade(v.Final()); g.Found != 5 || len(g.False) > 0 {
		t.Errorf("%+v", g)
	}
	m := &mesh{Messages: fabric.NewMessages(fabric.NewPorts(fabric.Options{Nodes: n, Latency: hop, Rate: 1.25e9})), n: n, at: make([]int, n), came: map[int][]int{}, free: make([]float64, n), parts: make([][]uint64, n)}
	for _, rounds := range phases {
		for _, meets := range rounds {
			m.steps = append(m.steps, step{meets, wordBytes})
		}
		m.steps = append(m.steps, step{nil, wordBytes + len(rounds)*pairBytes})
	}
	for rank := range n {
		m.begin(rank)
	}
	if !m.Run(m, time.Hour) {
		t.Fatal("it takes more than an hour")
	}
	messages, _ := m.Sent()
	took := time.Duration(m.Now())
	t.Logf("%d ranks, %d pairs: %d rounds of %s and %d of suspects in %s; %d messages of barriers", n, n*(n-1)/2, len(phases[0]), spanOfPair,
		len(m.steps)-len(phases[0])-len(phases), took.Round(100*time.Millisecond), messages)
	if least := time.Duration(len(m.steps)-len(phases)) * spanOfPair; took < least || took > 2*least {
		t.Errorf("it takes %s: expected %s for the pairs, and as much again for the barriers at most", took, least)
	}
}

// step is a round with its barrier, or a barrier alone.
type step struct {
	meets []int
	bytes int // of a part of the barrier
}

// mesh goes through the steps on all ranks.
type mesh struct {
	*fabric.Messages
	n     int
	steps []step
	at    []int         // by rank: the step
	came  map[int][]int // by step: parts that came, by rank
	free  []float64     // by rank: when it has handled what came
	parts [][]uint64    // by rank: the tags of what it handles, in the order in which they came
}

// begin has a rank measure its pair.
func (m *mesh) begin(rank int) {
	if m.at[rank] == len(m.steps) {
		return
	}
	takes := time.Duration(0)
	if meets := m.steps[m.at[rank]].meets; meets != nil && meets[rank] >= 0 {
		takes = connecting + spanOfPair
	}
	m.Wake(m.Now()+float64(takes), m.n+rank)
}

func (m *mesh) Acked(int, int, uint64) {}

// Arrived has a rank handle a part when it has handled those before.
func (m *mesh) Arrived(_, to, bytes int, tag uint64) {
	m.free[to] = max(m.free[to], m.Now()) + float64(handling) + float64(bytes)*float64(perByte)
	m.parts[to] = append(m.parts[to], tag)
	m.Wake(m.free[to], to)
}

// Woke: a rank has handled a part, or, n further on, is done with its pair.
func (m *mesh) Woke(node int) {
	if rank := node - m.n; rank >= 0 {
		m.pass(rank, m.at[rank], rank)
		return
	}
	tag := int(m.parts[node][0])
	m.parts[node] = slices.Delete(m.parts[node], 0, 1)
	m.pass(node, tag/m.n, tag%m.n)
}

// pass notes the part of a rank at another, and sends it on until it has been everywhere.
func (m *mesh) pass(rank, at, origin int) {
	if m.came[at] == nil {
		m.came[at] = make([]int, m.n)
	}
	if right := (rank + 1) % m.n; right != origin {
		m.Send(rank, right, m.steps[at].bytes, uint64(at*m.n+origin))
	}
	if m.came[at][rank]++; m.came[at][rank] == m.n {
		m.at[rank]++
		m.begin(rank)
	}
}
