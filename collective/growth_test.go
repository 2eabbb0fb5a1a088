package collective

import (
	"fmt"
	"math"
	"testing"
	"time"
	"unsafe"

	"ringcli/collective/program"
	"ringcli/collective/script"
	"ringcli/verbs/soft/rc/rctest/fabric"
	"ringcli/verbs/verbstest"
)

// growth is a figure by ranks; a row of the table.
type growth struct {
	ranks                     int
	us, messages, bytes, plan float64
}

// TestGrowth is how an all-reduce grows with the ranks: a mebibyte round the ring and by recursive
// doubling. RINGTEST_MATRIX=full takes 1,000 and 10,000 ranks; see make growth. Round 10,000 ranks
// goes the twentieth part of the steps, which are all alike.
func TestGrowth(t *testing.T) {
	sizes := []int{16, 64}
	if verbstest.Full() {
		sizes = []int{64, 1000, 10_000}
	}
	for _, a := range []Algorithm{AlgorithmRing, AlgorithmRecursiveDoubling} {
		var rows []growth
		for _, n := range sizes {
			// Chunks that are all alike have programs that are, too.
			bytes := (1 << 20) / (4 * n) * 4 * n
			share := 1.0
			if a == AlgorithmRing && n == 10_000 {
				share = 20
			}
			k := simulatedCall(t, n, bytes, CallOptions{Algorithm: a})
			net, begun := fabric.NewMessages(simulatedPorts(n)), time.Now()
			ns, err := Simulate(net, simulatedCosts, k, n, int(share))
			if err != nil {
				t.Fatal(err)
			}
			messages, sent := net.Sent()
			g := growth{n, share * ns / 1e3, share * float64(messages) / float64(n), share * float64(sent) / float64(n), float64(planBytes(&k, n))}
			rows = append(rows, g)
			t.Logf("%s on %d: %d bytes, %.1f us, a rank: %.1f messages, %.0f bytes, %.0f bytes of plan and partial results; took %s",
				a, n, bytes, g.us, g.messages, g.bytes, g.plan, time.Since(begun).Round(time.Millisecond))
			// What the network takes of the time. Of ranks that are no power of two some hand over their
			// vectors and get the results.
			chunk := simulatedAlpha + float64(bytes/n)/simulatedRate*1e9
			least := 2 * float64(n-1) * chunk / 1e3
			most := 2 * least
			if a == AlgorithmRecursiveDoubling {
				// Groups of segments follow one another: their latencies pass together.
				hops, sent := math.Floor(math.Log2(float64(n)))*simulatedAlpha/1e3, 2*float64(n-1)*float64(bytes/n)/simulatedRate*1e6
				least, most = hops+sent, 2*(2*hops+sent)
				if n&(n-1) != 0 {
					most += 2 * 2 * (simulatedAlpha + float64(bytes)/simulatedRate*1e9) / 1e3
				}
			}
			if g.us < 0.99*least || g.us > most {
				t.Errorf("%s on %d: %.1f us, want %.1f to %.1f", a, n, g.us, least, most)
			}
		}
		text := a.String() + ", exponents:"
		for i, of := range []func(growth) float64{
			func(g growth) float64 { return g.us }, func(g growth) float64 { return g.messages },
			func(g growth) float64 { return g.bytes }, func(g growth) float64 { return g.plan },
		} {
			name, by := [...]string{"time", "messages", "bytes", "plan"}[i], exponent(rows, of)
			text += fmt.Sprintf(" %s %.2f", name, by)
			if most := growthMost[a][i]; by > most {
				t.Errorf("%s: %s grow with the ranks to the power of %.2f, expected at most %.2f", a, name, by, most)
			}
		}
		t.Log(text)
	}
}

// growthMost are the exponents of time, messages, bytes and plan at most. Round the ring there are as
// many steps as ranks, each of a message, of which 10,000 have headers as long as a chunk; the plan is
// as long, but segments get shorter. By doubling there are as many as the logarithm has: from 16 to 64
// ranks that is the power of 0.29, from 64 to 10,000 of 0.16; each has a partial result.
var growthMost = map[Algorithm][4]float64{
	AlgorithmRing:              {1, 1.05, 0.15, 0.15},
	AlgorithmRecursiveDoubling: {0.3, 0.3, 0.1, 0.3},
}

// exponent is the power of the ranks with which a figure grows: least squares of the logarithms.
func exponent(rows []growth, of func(growth) float64) float64 {
	var x, y, xx, xy float64
	for _, g := range rows {
		a, b := math.Log(float64(g.ranks)), math.Log(of(g))
		x, y, xx, xy = x+a, y+b, xx+a*a, xy+a*b
	}
	n := float64(len(rows))
	return (n*xy - x*y) / (n*xx - x*x)
}

// planBytes is what a rank keeps of a plan besides its slots: the steps or moves, and the
// partial results.
func planBytes(k *Call, n int) int {
	if k.Algorithm == AlgorithmRing {
		var c program.Counts
		c.Program.Size = n
		k.LayOut(&c, k.Op.Program())
		return len(c.Program.Steps)*int(unsafe.Sizeof(program.Step{})) + 3*k.Depth*k.Segment
	}
	var s script.Script
	k.Script(&s, 0, n, nil)
	return len(s.Moves)*int(unsafe.Sizeof(script.Move{})) + len(s.Areas)*k.Depth*k.Segment
}
