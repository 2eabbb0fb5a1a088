package cli

import (
	"ringcli/cli/bench"
	"ringcli/cli/session"
	"ringcli/collective"
)

// tuneExamples are what a tune prints: points, rules, and how it ends.
func tuneExamples() []example {
	write := bench.Variant{Algorithm: collective.AlgorithmRing, Protocol: collective.RendezvousWrite}
	direct := bench.Variant{Algorithm: collective.AlgorithmInbox, Protocol: collective.Direct}
	ring := bench.TunedVariant{Variant: write, Time: 123456.5, Rounds: 9}
	doubling := bench.TunedVariant{Variant: bench.Variant{Algorithm: collective.AlgorithmRecursiveDoubling, Protocol: collective.Eager}, Time: 98765.4, Rounds: 9}
	inbox := bench.TunedVariant{Variant: direct, Time: 0.25, Rounds: 10}
	return []example{
		{"tune", func(s *session.Session) error {
			if err := s.Out.Print(
				bench.TunePoint{Command: "tune", OK: true, Operation: "all-reduce", Bytes: 8, Type: "float32", Ranks: 8, Fastest: inbox, Default: inbox, Gain: 1, Variants: []bench.TunedVariant{ring, doubling, inbox}},
				bench.TunePoint{Command: "tune", OK: true, Operation: "reduce-scatter", Bytes: 16 << 20, Type: "float32", Ranks: 8, Fastest: doubling, Default: ring, Gain: 1.25, Real: true, Variants: []bench.TunedVariant{ring, doubling}},
				bench.TunePoint{Command: "tune", OK: true, Operation: "all-gather", Bytes: 16 << 20, Type: "float32", Ranks: 8, Fastest: doubling, Default: ring, Gain: 1.25, Variants: []bench.TunedVariant{ring, doubling}},
			); err != nil {
				return err
			}
			if err := s.Out.Print(
				bench.TuneRule{Command: "tune", OK: true, Operation: "all-reduce", Ranks: 8, From: 8, UpTo: 65536, Variant: direct, Default: true, Gain: 1},
				bench.TuneRule{Command: "tune", OK: true, Operation: "all-reduce", Ranks: 8, From: 256 << 10, Variant: bench.Variant{Algorithm: collective.AlgorithmRing, Protocol: collective.ReceiverInitiated}, Gain: 1.125},
				bench.TuneRule{Command: "tune", OK: true, Operation: "reduce-scatter", Ranks: 8, From: 128 << 10, Variant: bench.Variant{Algorithm: collective.AlgorithmRecursiveDoubling, Protocol: collective.RendezvousWrite}, Gain: 1.25},
			); err != nil {
				return err
			}
			return s.Out.Print(bench.TuneSummary{
				Command: "tune", OK: true, Ranks: 8, Devices: "shm", Points: 33, Of: 33, Variants: 7, Rounds: 360, Iterations: 1234567, Seconds: 44.5, Rules: 1, Gain: 1.125,
				Saved: "/home/operator/.config/ringcli/table.json",
			})
		}},
		{"tune nothing", func(s *session.Session) error {
			return s.Out.Print(bench.TuneSummary{Command: "tune", OK: true, Ranks: 2, Devices: "ibv+soft", Points: 30, Of: 33, Variants: 3, Rounds: 99, Iterations: 99, Seconds: 1, Gain: 1})
		}},
	}
}
