package verdict

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// What ranks of a ring see, and whom it makes them blame. Each Sighting is by, about and what.
func TestJudge(t *testing.T) {
	t.Parallel()
	const silent = 2 * time.Second
	fault := &Verdict{Kind: KindFailed, Rank: 2, By: 1, Text: "retries ran out"}
	see := func(by, about int, change func(*Sighting)) Sighting {
		s := Sighting{By: by, About: about, Due: true}
		change(&s)
		return s
	}
	mute := func(s *Sighting) { s.Silent, s.Call = silent, CallMute }
	hears := func(s *Sighting) { s.Due = false }
	ended := func(call Outcome) func(*Sighting) {
		return func(s *Sighting) { s.Ended, s.Call = "end of stream", call }
	}
	for name, c := range map[string]struct {
		size, own  int
		seen       []Sighting
		kind       Kind // "" is no verdict
		rank       int
		edge       Direction
		confidence Confidence
		text       string
	}{
		"a process dies": {4, 1, []Sighting{see(1, 2, ended(CallRefused))}, KindLost, 2, Direction{}, Certain, "process 102 on host h2 is dead"},
		"a process dies and another has its place": {4, 1, []Sighting{see(1, 2, ended(CallOther))}, KindLost, 2, Direction{}, Certain, "another process has its place"},
		"a process dies with its host, one has it": {4, 1, []Sighting{see(1, 2, ended(CallMute))}, KindLost, 2, Direction{}, Suspect, "does not answer any more"},
		"a process dies with its host, both have it": {
			4, 1, []Sighting{see(1, 2, ended(CallMute)), see(3, 2, ended(CallMute))}, KindLost, 2, Direction{}, Certain, "to both neighbours",
		},
		"a firewall resets one connection and refuses another": {
			4, 1, []Sighting{see(1, 2, ended(CallRefused)), see(2, 1, ended(CallRefused))}, KindEdge, -1, Direction{1, 2, true}, Certain, "was cut",
		},
		"a connection is cut and both live":     {4, 2, []Sighting{see(2, 1, ended(CallAnswered))}, KindEdge, -1, Direction{1, 2, true}, Certain, "was cut"},
		"a firewall resets a ring of two hosts": {2, 0, []Sighting{see(0, 1, ended(CallRefused))}, KindLost, 1, Direction{}, Suspect, "a firewall"},
		"the other of two dies, on this host":   {2, 1, []Sighting{see(1, 0, ended(CallRefused))}, KindLost, 0, Direction{}, Certain, "is dead"},
		"a firewall refuses, no more is seen":   {4, 1, []Sighting{see(1, 2, func(s *Sighting) { s.Silent, s.Call = silent, CallRefused })}, KindLost, 2, Direction{}, Suspect, "a firewall"},

		"a host is down, one tells":           {4, 1, []Sighting{see(1, 2, mute)}, KindSilent, 2, Direction{}, Suspect, "whether h2"},
		"so, and the other has not told yet":  {4, 1, []Sighting{see(1, 2, func(s *Sighting) { mute(s); s.Silent = 1600 * time.Millisecond })}, "", 0, Direction{}, "", ""},
		"a host is down, both neighbours say": {4, 1, []Sighting{see(1, 2, mute), see(3, 2, mute)}, KindSilent, 2, Direction{}, Certain, "neither neighbour"},
		"a host is cut off, and its process is seen to run": {
			4, 1, []Sighting{see(1, 2, func(s *Sighting) { mute(s); s.Process = ProcessRunning }), see(3, 2, mute)}, KindSilent, 2, Direction{}, Certain, "neither neighbour",
		},
		"the other of two":              {2, 0, []Sighting{see(0, 1, mute)}, KindSilent, 1, Direction{}, Suspect, "no third rank"},
		"what one of two sends is lost": {2, 0, []Sighting{see(0, 1, func(s *Sighting) { mute(s); s.Arrives = true })}, KindEdge, -1, Direction{0, 1, false}, Suspect, "from rank 0 to rank 1"},
		"it is not due yet":             {4, 1, []Sighting{see(1, 2, func(s *Sighting) { mute(s); s.Due = false })}, "", 0, Direction{}, "", ""},

		"an edge is cut both ways":                   {4, 1, []Sighting{see(1, 2, mute), see(2, 1, mute)}, KindEdge, -1, Direction{1, 2, true}, Certain, "nothing passes"},
		"an edge is cut, and only one end has told":  {4, 1, []Sighting{see(1, 2, mute), see(3, 2, func(s *Sighting) { s.Due, s.Call = false, CallAnswered })}, KindEdge, -1, Direction{1, 2, true}, Certain, "nothing passes"},
		"what 1 sends 2 is lost, 1 has the evidence": {4, 1, []Sighting{see(1, 2, func(s *Sighting) { mute(s); s.Arrives = true }), see(2, 1, mute)}, KindEdge, -1, Direction{1, 2, false}, Certain, "what rank 1"},
		"what 1 sends 2 is lost, as 2 sees it":       {4, 2, []Sighting{see(1, 2, func(s *Sighting) { mute(s); s.Arrives = true }), see(2, 1, mute)}, KindEdge, -1, Direction{1, 2, false}, Certain, "what rank 1"},
		"2 hears 1, and 1 does not hear 2":           {4, 1, []Sighting{see(1, 2, mute), see(2, 1, hears)}, KindEdge, -1, Direction{2, 1, false}, Certain, "what rank 2"},
		"the connection carries nothing, a new one would": {
			4, 1, []Sighting{see(1, 2, func(s *Sighting) { s.Silent, s.Call = silent, CallAnswered }), see(2, 1, hears)}, KindEdge, -1, Direction{2, 1, false}, Certain, "answers a new call",
		},

		"this rank hears nobody": {4, 1, []Sighting{see(1, 0, mute), see(1, 2, mute)}, KindIsolated, 1, Direction{}, Suspect, "hears neither"},
		"this rank hears nobody, and packets come": {
			3, 1, []Sighting{see(1, 0, func(s *Sighting) { mute(s); s.Arrives = true }), see(1, 2, func(s *Sighting) { mute(s); s.Arrives = true })}, KindIsolated, 1, Direction{}, Suspect, "what it sends is lost",
		},

		"a process is stopped, its host says so": {4, 1, []Sighting{see(1, 2, func(s *Sighting) { s.Silent, s.Process = silent, ProcessStopped })}, KindStopped, 2, Direction{}, Certain, "is stopped"},
		"an operation fails since the peer is stopped": {
			4, 1, []Sighting{see(1, 2, func(s *Sighting) { s.Fault, s.Process = fault, ProcessStopped })}, KindStopped, 2, Direction{}, Certain, "shows process 102 on host h2 so (retries ran out)",
		},
		"a process stands still elsewhere": {4, 1, []Sighting{see(1, 2, func(s *Sighting) { s.Silent, s.Call = silent, CallOpen })}, KindStopped, 2, Direction{}, Suspect, "stands still"},
		"a process was stopped, as it says": {
			4, 1, []Sighting{see(1, 2, func(s *Sighting) { s.Fault, s.Call = fault, CallAnswered }), {By: 2, About: 2, Slept: 3 * time.Second}}, KindStopped, 2, Direction{}, Certain, "for 3s",
		},

		"so, and not for long enough to fail an operation": {
			4, 1, []Sighting{see(1, 2, func(s *Sighting) { s.Fault, s.Call = fault, CallAnswered }), {By: 2, About: 2, Slept: 800 * time.Millisecond}}, KindStopped, 2, Direction{}, Suspect, "for 800ms",
		},
		"so, and it is silent since then": {
			4, 1, []Sighting{see(1, 2, mute), {By: 2, About: 2, Slept: 3 * time.Second, Age: time.Second}}, KindSilent, 2, Direction{}, Suspect, "is silent",
		},
		"so, while it was not heard": {
			4, 1, []Sighting{see(1, 2, mute), {By: 2, About: 2, Slept: 3 * time.Second, Age: 100 * time.Millisecond}}, KindStopped, 2, Direction{}, Certain, "for 3s",
		},
		"this rank was cut off, and nobody has waited": {
			4, 1, []Sighting{see(1, 2, func(s *Sighting) { ended(CallRefused)(s); s.Alone = silent }), see(1, 0, func(s *Sighting) { mute(s); s.Alone = silent })}, KindIsolated, 1, Direction{}, Suspect, "it was cut off",
		},
		"this rank was cut off, and sees on its host that nobody has waited": {
			4, 1, []Sighting{see(1, 2, func(s *Sighting) { mute(s); s.Process, s.Alone = ProcessDead, silent }), see(1, 0, func(s *Sighting) { mute(s); s.Alone = silent })}, KindIsolated, 1, Direction{}, Suspect, "it was cut off",
		},
		"a rank that slept a little is cut off from a neighbour": {
			4, 1, []Sighting{see(1, 2, mute), see(2, 1, mute), {By: 2, About: 2, Slept: silent / 2}}, KindEdge, -1, Direction{1, 2, true}, Certain, "nothing passes",
		},
		"a rank that slept for all that time is heard of again": {
			4, 1, []Sighting{see(1, 2, func(s *Sighting) { s.Silent, s.Call = silent, CallOpen }), {By: 2, About: 2, Slept: silent}}, KindStopped, 2, Direction{}, Certain, "for 2s",
		},

		"an operation fails and the peer is dead":    {4, 1, []Sighting{see(1, 2, func(s *Sighting) { s.Fault = fault; ended(CallRefused)(s) })}, KindLost, 2, Direction{}, Certain, "is dead"},
		"an operation fails and the peer is well":    {4, 1, []Sighting{see(1, 2, func(s *Sighting) { s.Fault, s.Call = fault, CallAnswered })}, KindFailed, 2, Direction{}, Suspect, "retries ran out"},
		"an operation fails since the peer's failed": {4, 1, []Sighting{see(1, 2, func(s *Sighting) { s.Fault, s.Call = fault, CallAnswered }), see(2, 3, func(s *Sighting) { s.Fault = fault; s.Due = false })}, "", 0, Direction{}, "", ""},
		"so, and nothing is heard of why": {
			4, 1, []Sighting{see(1, 2, func(s *Sighting) { s.Fault, s.Call, s.Late = fault, CallAnswered, true }), see(2, 3, func(s *Sighting) { s.Fault = fault; s.Due = false })},
			KindFailed, 2, Direction{}, Suspect, "retries ran out",
		},
		"an operation fails over a victim, and the culprit is known": {
			4, 1, []Sighting{see(1, 2, func(s *Sighting) { s.Fault, s.Call = fault, CallAnswered }), see(2, 3, ended(CallRefused))}, KindLost, 3, Direction{}, Certain, "rank 3 was lost",
		},
		"two die at once": {4, 0, []Sighting{see(0, 1, ended(CallRefused)), see(0, 3, ended(CallRefused))}, KindLost, 1, Direction{}, Certain, "rank 1 was lost"},
	} {
		p := &Panorama{
			Own: c.own, Size: c.size, Death: 1500 * time.Millisecond, Name: func(r int) string { return fmt.Sprintf("rank %d", r) },
			Where: func(r int) string { return fmt.Sprintf("process %d on host h%d", 100+r, r) },
			Near:  func(r int) bool { return r == 0 },
		}
		// The order in which things are heard of makes no difference.
		for range 2 {
			v := Judge(p, c.seen)
			slices.Reverse(c.seen)
			switch {
			case v == nil && c.kind == "":
			case v == nil || v.Kind != c.kind || v.Rank != c.rank || v.Edge != c.edge || v.Confidence != c.confidence || v.By != c.own || !strings.Contains(v.Error(), c.text):
				t.Errorf("%s: %+v\nexpected %s, rank %d, edge %v, %s, %q", name, v, c.kind, c.rank, c.edge, c.confidence, c.text)
			}
		}
	}
}

// Of verdicts that are found at once all ranks choose the same.
func TestBetter(t *testing.T) {
	t.Parallel()
	inOrder := []*Verdict{
		{Kind: KindStopped, Rank: 3, Confidence: Certain, By: 2},
		{Kind: KindLost, Rank: 1, Confidence: Certain, By: 2},
		{Kind: KindLost, Rank: 2, Confidence: Certain, By: 1},
		{Kind: KindLost, Rank: 2, Confidence: Certain, By: 3, Text: "a"},
		{Kind: KindLost, Rank: 2, Confidence: Certain, By: 3, Text: "b"},
		{Kind: KindEdge, Rank: -1, Confidence: Suspect, By: 0},
		{Kind: KindSilent, Rank: 0, Confidence: Suspect, By: 1},
		{Kind: KindTimeout, Rank: -1, Confidence: Suspect, By: 0},
	}
	for i, a := range inOrder {
		for j, b := range inOrder {
			if Better(a, b) != (i < j) {
				t.Errorf("%+v before %+v: %t", a, b, i >= j)
			}
		}
	}
}
