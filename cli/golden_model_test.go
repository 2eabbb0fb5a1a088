package cli

import (
	"ringcli/cli/bench"
	"ringcli/cli/links"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/collective"
)

func modelExamples() []example {
	eager, read := bench.Variant{Algorithm: collective.AlgorithmTree, Protocol: collective.Eager}, bench.Variant{Algorithm: collective.AlgorithmRing, Protocol: collective.RendezvousRead}
	times := func(bytes uint64, us ...float64) (r links.ModelSize) {
		list := []bench.Variant{{Algorithm: collective.AlgorithmRing, Protocol: collective.Eager}, {Algorithm: collective.AlgorithmRing, Protocol: collective.ReceiverInitiated}, read, eager,
			{Algorithm: collective.AlgorithmRecursiveDoubling, Protocol: collective.Eager}, {Algorithm: collective.AlgorithmTree, Protocol: collective.Eager}, {Algorithm: collective.AlgorithmInbox, Protocol: collective.Direct}}
		for i := range us {
			m := links.ModelTime{
				Command: "model", OK: true, Operation: collective.OpAllReduce, Ranks: 7, Bytes: bytes, Algorithm: list[i].Algorithm, Protocol: list[i].Protocol,
				Segment: 128 << 10, Depth: 4, Time: us[i], AlgBW: 0.5, BusBW: 0.875, Fastest: i == 1, Auto: i%3 == 1,
			}
			r.Each = append(r.Each, m)
		}
		return r
	}
	few, much := times(1<<10, 1.5, 0.875, 3, 44.5, 5, 60, 2), times(1<<30, 1234567, 83362, 999999, 123.4, 57327, 1e6, 2e5)
	share := much
	share.BusBW = true
	return []example{
		{"model", func(s *session.Session) error {
			if err := s.Out.Print(few, much); err != nil || s.Out.Format() != render.Table {
				return err
			}
			return s.Out.Print(share)
		}},
		{"model summary", func(s *session.Session) error {
			return s.Out.Print(links.ModelSummary{
				Command: "model", OK: true, Operation: collective.OpAllReduce, Ranks: 1024,
				Costs:   links.ModelCosts{Alpha: 3, Beta: 48, Gamma: 20, Copy: 20, Overhead: 0.3, Software: 5, Line: 0.1},
				Fastest: []links.ModelStretch{{Variant: eager, From: 1 << 10}, {Variant: read, From: 12160 << 10}}, Crossovers: []uint64{12160 << 10},
				Auto: []links.ModelStretch{{Variant: eager, From: 1 << 10}}, AutoWorst: 86.914, AutoWorstAt: 64 << 10,
			})
		}},
	}
}
