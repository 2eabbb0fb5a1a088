package diagnose

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// inRing returns n ranks in operation 7 round a ring, each of which awaits segment 3 of its
// left neighbour, has given its right one so many segments, and has all credits.
func inRing(n, given int) []Place {
	places := make([]Place, n)
	for r := range places {
		left, right := (r+n-1)%n, (r+1)%n
		places[r] = Place{
			Rank: r, Node: fmt.Sprintf("h%d:18600", r), Presence: Answers, Operation: 7, Running: true, Call: "all-reduce of 9 int32, sum, eager",
			Awaits: []Await{{From: left, Item: Data, Number: 3, Phase: "reduce-scatter", Segment: 3, What: "the data of segment 3", For: 5 * time.Second}},
			Gave:   []Given{{To: right, Item: Data, Count: given}},
		}
	}
	return places
}

// leave makes a rank one that says nothing.
func leave(p *Place, how Presence, evidence string, witnesses ...int) {
	*p = Place{Rank: p.Rank, Node: p.Node, Presence: how, Evidence: evidence, PID: 4711, Witnesses: witnesses}
}

func TestStall(t *testing.T) {
	type want struct {
		kind     StallKind
		rank     int
		from, to int
		certain  bool
		words    string
	}
	at := func(kind StallKind, rank int, certain bool, words string) want {
		return want{kind, rank, -1, -1, certain, words}
	}
	edge := func(from, to int, words string) want { return want{StallEdge, -1, from, to, false, words} }
	for _, test := range []struct {
		name   string
		least  int // ranks
		change func(p []Place)
		want   func(n int) []want // the first of them in this order
	}{
		{"a stopped rank", 2, func(p []Place) { leave(&p[1], Stopped, "process 4711 is in state T", 0) }, func(n int) []want {
			return []want{at(StallStopped, 1, true, fmt.Sprintf("rank 1 (h1:18600) is stopped: process 4711 is in state T; rank %d has waited for the data of segment 3 of rank 1 for 5s, in operation 7 (all-reduce of 9 int32, sum, eager, reduce-scatter): continue it (kill -CONT 4711)", 2%n))}
		}},
		{"a rank that is gone", 2, func(p []Place) { leave(&p[1], Gone, "there is no process 4711", 0) }, func(int) []want {
			return []want{at(StallGone, 1, true, "rank 1 (h1:18600) is gone")}
		}},
		{"a silent rank, seen from both sides", 3, func(p []Place) { leave(&p[1], Silent, "", 0, 2) }, func(int) []want {
			return []want{at(StallSilent, 1, true, "ranks 0 and 2 asked it")}
		}},
		{"a silent rank that lives", 3, func(p []Place) { leave(&p[1], Silent, "process 4711 of its host lives", 0, 2) }, func(int) []want {
			return []want{at(StallSilent, 1, false, "rank 1 (h1:18600) does not answer over TCP either, although process 4711 of its host lives: ranks 0 and 2 asked it, from both sides")}
		}},
		{"ranks that are gone, and nobody answers", 3, func(p []Place) {
			for r := range p[1:] {
				leave(&p[1+r], Gone, "there is no process 4711", 0)
			}
		}, func(n int) []want { return []want{at(StallGone, n-1, false, "is gone: there is no process 4711")} }},
		{"a silent rank, seen from one side", 2, func(p []Place) { leave(&p[1], Silent, "", 0) }, func(int) []want {
			return []want{at(StallSilent, 1, false, "rank 0 asked it")}
		}},
		{"two silent neighbours", 4, func(p []Place) { leave(&p[1], Silent, "", 0); leave(&p[2], Silent, "", 3) }, func(int) []want {
			return []want{at(StallSilent, 2, false, "rank 3 asked it"), at(StallSilent, 1, false, "rank 0 asked it")}
		}},
		{"nobody answers", 3, func(p []Place) {
			for r := range p[1:] {
				leave(&p[1+r], "", "")
			}
			leave(&p[1], Silent, "", 0)
			leave(&p[len(p)-1], Silent, "", 0)
		}, func(int) []want { return []want{at(StallIsolated, -1, false, "rank 0 (h0:18600) is isolated")} }},
		{"both neighbours are slow", 3, func(p []Place) {
			for r := range p[1:] {
				leave(&p[1+r], "", "")
			}
			leave(&p[1], Slow, "process 4711 of its host lives")
			leave(&p[len(p)-1], Slow, "process 4711 of its host lives")
		}, func(n int) []want { // it waits for that one
			return []want{at(StallWorks, n-1, false, fmt.Sprintf("rank %d (h%d:18600) does not answer in time: process 4711 of its host lives", n-1, n-1))}
		}},
		{"a rank that was stopped", 2, func(p []Place) { p[1].Slept, p[1].Woke = 7*time.Second, 300*time.Millisecond }, func(int) []want {
			return []want{at(StallStopped, 1, true, "stood still for 7s, until 300ms ago, by its own clock, stopped or without a CPU")}
		}},
		{"a slow rank", 2, func(p []Place) { p[1].Awaits, p[1].Gave = nil, nil }, func(int) []want {
			return []want{at(StallWorks, 1, false, "it is slow, or does not get on")}
		}},
		{"an idle rank", 2, func(p []Place) {
			p[1] = Place{Rank: 1, Node: p[1].Node, Presence: Answers, Operation: 6, Activity: "idle at its prompt for 12s"}
		}, func(int) []want {
			return []want{at(StallIdle, 1, true, "rank 1 (h1:18600) has not begun operation 7: it ended operation 6: idle at its prompt for 12s")}
		}},
		{"a rank in an earlier operation", 2, func(p []Place) {
			p[1] = Place{Rank: 1, Node: p[1].Node, Presence: Answers, Operation: 6, Running: true, Call: "barrier"}
		}, func(int) []want { return []want{at(StallBehind, 1, false, "still in operation 6 (barrier)")} }},
		{"a rank in another call", 3, func(p []Place) { p[1].Call = "barrier" }, func(n int) []want {
			return []want{at(StallMismatch, 1, true, fmt.Sprintf("runs barrier as operation 7, where %d others run all-reduce", n-1))}
		}},
		{"an edge that does not carry", 2, func(p []Place) { p[0].Gave[0].Count = 4 }, func(int) []want {
			return []want{edge(0, 1, "what rank 0 sends to rank 1 does not arrive: it has sent 4, and this is number 4")}
		}},
		{"an edge that does not carry the last segment", 2, func(p []Place) {
			p[0] = Place{Rank: 0, Node: p[0].Node, Presence: Answers, Operation: 7}
		}, func(int) []want { return []want{edge(0, 1, "it has ended operation 7")} }},
		{"an edge by its acknowledgements, there", 3, func(p []Place) {
			p[0].Awaits = append(p[0].Awaits, Await{From: 1, Item: Receipt, Number: 2, Segment: 2, What: "the acknowledgement of segment 2", For: 5 * time.Second})
			p[1].Gave = append(p[1].Gave, Given{0, Receipt, 2})
		}, func(int) []want { return []want{edge(0, 1, "it sent number 3, and 2 have come")} }},
		{"an edge by its acknowledgements, back", 3, func(p []Place) {
			p[0].Awaits = append(p[0].Awaits, Await{From: 1, Item: Receipt, Number: 2, Segment: 2, What: "the acknowledgement of segment 2", For: 5 * time.Second})
			p[1].Gave = append(p[1].Gave, Given{0, Receipt, 3})
		}, func(int) []want { return []want{edge(1, 0, "the acknowledgements of rank 1 do not arrive at rank 0")} }},
		{"a READ that nothing answers", 3, func(p []Place) { p[1].Awaits[0].Item = Answer }, func(int) []want {
			return []want{edge(1, 0, "its device does not answer rank 1")}
		}},
		{"credits that were lost", 3, func(p []Place) {
			p[0].Awaits = append(p[0].Awaits, Await{From: 1, Item: Credit, Number: 4, Segment: -1, What: "credits for 4 slots", For: 6 * time.Second})
			p[1].Gave = append(p[1].Gave, Given{0, Credit, 8})
		}, func(int) []want { return []want{edge(1, 0, "does not arrive: it has sent 8, and this is number 5")} }},
		{"a stopped rank and an edge", 4, func(p []Place) {
			leave(&p[1], Stopped, "state T", 0)
			p[2].Gave[0].Count = 9
		}, func(int) []want { return []want{at(StallStopped, 1, true, ""), edge(2, 3, "")} }},
		{"two stopped ranks", 4, func(p []Place) { leave(&p[1], Stopped, "state T", 0); leave(&p[3], Stopped, "state T", 2) }, func(n int) []want {
			if n == 4 {
				return []want{at(StallStopped, 1, true, ""), at(StallStopped, 3, true, "")}
			}
			return []want{at(StallStopped, 3, true, ""), at(StallStopped, 1, true, "")} // more wait for it
		}},
		{"victims only", 2, func([]Place) {}, func(int) []want { return []want{at(StallUnknown, -1, false, "every rank waits")} }},
		{"a rank that has not joined", 2, func(p []Place) {
			for r := range p {
				p[r].Running, p[r].Awaits, p[r].Gave = false, nil, nil
				if r != 1 {
					p[r].Awaits = []Await{{From: 1, Item: Join, Segment: -1, What: "be ready", For: 5 * time.Second}}
				}
			}
			p[1].Activity = "idle at its prompt for 3s"
		}, func(int) []want {
			return []want{at(StallIdle, 1, true, "has not come to be ready: idle at its prompt")}
		}},
	} {
		for n := test.least; n <= 8; n++ {
			t.Run(fmt.Sprintf("%s, %d ranks", test.name, n), func(t *testing.T) {
				places := inRing(n, 3)
				test.change(places)
				found := Stall(places, 0)
				wanted := test.want(n)
				if len(found) < len(wanted) {
					t.Fatalf("%v", found)
				}
				for i, w := range wanted {
					b := found[i]
					if b.Kind != w.kind || b.Rank != w.rank || b.From != w.from || b.To != w.to || b.Certain != w.certain || !strings.Contains(b.String(), w.words) {
						t.Errorf("%d: %+v\nexpected %+v", i, b, w)
					}
				}
				// Whoever waits and answers is a victim.
				for _, b := range found {
					if b.Rank >= 0 && b.Kind != StallMismatch && places[b.Rank].Presence == Answers && places[b.Rank].Slept == 0 && len(places[b.Rank].Awaits) > 0 {
						t.Errorf("a victim is blamed: %+v", b)
					}
					if len(found) > len(wanted) && b.Certain && !wanted[0].certain {
						t.Errorf("too much is certain: %v", found)
					}
				}
			})
		}
	}
}
