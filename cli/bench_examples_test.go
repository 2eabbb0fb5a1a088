package cli

import (
	"ringcli/cli/bench"
	"ringcli/cli/bench/corruption"
	"ringcli/cli/bench/p2p"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/timing"
	"ringcli/collective"
)

// exampleVariants are compared in exampleRows.
var exampleVariants = bench.Variants{
	{Algorithm: collective.AlgorithmRing, Protocol: collective.Eager}, {Algorithm: collective.AlgorithmRing, Protocol: collective.RendezvousWrite}, {Algorithm: collective.AlgorithmRing, Protocol: collective.RendezvousRead},
}

// exampleRows are a comparison of three protocols in which each is ahead once,
// and a lead of 2 % is none.
func exampleRows() []bench.CompareRow {
	none, wrong := uint64(0), uint64(16383)
	var rows []bench.CompareRow
	for _, r := range []struct {
		bytes uint64
		us    [3]float64
		auto  collective.Protocol
	}{
		{4 << 10, [3]float64{10, 20, 30}, collective.Eager},
		{64 << 10, [3]float64{50, 49, 90}, collective.Eager},
		{1 << 20, [3]float64{900, 700, 800}, collective.RendezvousWrite},
		{16 << 20, [3]float64{14000, 9999.94, 9900}, collective.RendezvousWrite},
		{1 << 30, [3]float64{2345678.5, 1234567, 1000000}, collective.RendezvousWrite},
	} {
		row := bench.CompareRow{Variants: exampleVariants, Auto: bench.Variant{Algorithm: collective.AlgorithmRing, Protocol: r.auto}}
		for i, w := range exampleVariants {
			m := exampleMeasurement("all-reduce")
			m.Bytes, m.Count, m.Protocol, m.PerRank, m.Wrong = r.bytes, r.bytes/4, w.Protocol, nil, &none
			m.Time = timing.Times{Min: r.us[i] / 2, P50: r.us[i], P99: 2 * r.us[i], Max: 3 * r.us[i], Mean: r.us[i]}
			m.AlgBW, m.BusBW = timing.Bandwidth(m.Command, r.bytes, 4, r.us[i])
			m.Effort = &[]bench.Effort{{Copied: r.bytes / 4 * 3}, {Handshakes: 6 * max(1, r.bytes>>20)}, {Handshakes: 6 * max(1, r.bytes>>20)}}[i]
			row.Each = append(row.Each, m)
			if r.us[i] < r.us[row.Best] {
				row.Best = i
			}
		}
		rows = append(rows, row)
	}
	rows[4].Each[0].OK, rows[4].Each[0].Wrong = false, &wrong
	return rows
}

// exampleAlgorithms are a comparison of six ways, of which each but one leads.
func exampleAlgorithms() []bench.CompareRow {
	none, wrong := uint64(0), uint64(16383)
	list := bench.Variants{
		{Algorithm: collective.AlgorithmRing, Protocol: collective.Eager}, {Algorithm: collective.AlgorithmRing, Protocol: collective.RendezvousRead}, {Algorithm: collective.AlgorithmRing, Protocol: collective.Direct},
		{Algorithm: collective.AlgorithmRecursiveDoubling, Protocol: collective.Eager}, {Algorithm: collective.AlgorithmTree, Protocol: collective.Eager}, {Algorithm: collective.AlgorithmInbox, Protocol: collective.Direct},
	}
	var rows []bench.CompareRow
	for _, r := range []struct {
		bytes uint64
		us    [6]float64
		auto  bench.Variant
	}{
		{8, [6]float64{100, 200, 50, 40, 45, 0.5}, list[5]},
		{32 << 10, [6]float64{123.25, 234567.5, 55, 45, 50, 60}, list[5]},
		{1 << 20, [6]float64{1000, 2000, 500, 999999.5, 4500, 550}, list[2]},
		{16 << 20, [6]float64{10000, 9000, 9500, 9999, 45000, 55000}, list[2]},
	} {
		row := bench.CompareRow{Variants: list, Auto: r.auto}
		for i, w := range list {
			m := exampleMeasurement("all-reduce")
			m.Bytes, m.Count, m.Algorithm, m.Protocol, m.PerRank, m.Wrong = r.bytes, r.bytes/4, w.Algorithm, w.Protocol, nil, &none
			m.Time = timing.Times{Min: r.us[i] / 2, P50: r.us[i], P99: 2 * r.us[i], Max: 3 * r.us[i], Mean: r.us[i]}
			m.AlgBW, m.BusBW = timing.Bandwidth(m.Command, r.bytes, 4, r.us[i])
			row.Each = append(row.Each, m)
			if r.us[i] < r.us[row.Best] {
				row.Best = i
			}
		}
		rows = append(rows, row)
	}
	rows[2].Each[4].OK, rows[2].Each[4].Wrong = false, &wrong
	return rows
}

// benchExamples are what a bench prints beside nccl-tests' table.
func benchExamples() []example {
	wrong := uint64(3)
	// Two sizes, one leader, nothing checked.
	plain := func(op string) example {
		return example{"bench " + op + " protocols", func(s *session.Session) error {
			rows := exampleRows()[:2]
			for _, r := range rows {
				for i := range r.Each {
					r.Each[i].Command, r.Each[i].Wrong = op, nil
				}
				if err := s.Out.Print(r); err != nil {
					return err
				}
			}
			return s.Out.Print(bench.Summarise("bench "+op, rows, 0))
		}}
	}
	return []example{
		plain("reduce-scatter"), plain("all-gather"), plain("broadcast"), plain("reduce"),
		{"bench all-reduce protocols", func(s *session.Session) error {
			rows := exampleRows()
			if err := s.Out.Note(render.Faint, "%s", bench.CompareHead(exampleVariants)[0]); err != nil {
				return err
			}
			for _, r := range rows {
				if err := s.Out.Print(r); err != nil {
					return err
				}
			}
			return s.Out.Print(bench.Summarise("bench all-reduce", rows, 1))
		}},
		{"bench all-reduce algorithms", func(s *session.Session) error {
			rows := exampleAlgorithms()
			for _, line := range bench.CompareHead(rows[0].Variants) {
				if err := s.Out.Note(render.Faint, "%s", line); err != nil {
					return err
				}
			}
			for _, r := range rows {
				if err := s.Out.Print(r); err != nil {
					return err
				}
			}
			return s.Out.Print(bench.Summarise("bench all-reduce", rows, 0))
		}},
		printing("bench p2p wrong", []render.Record{
			p2p.P2PResult{
				Command: "bench p2p", Op: "READ", Bytes: 1 << 30, Iters: 10, BW: 1.5, MsgRate: 0.0015, Time: p2p.P2PTimes{Min: 700000, P50: 710000, P99: 720000, P999: 730000, Max: 740000},
				Wrong: &wrong, First: &corruption.WrongElement{Rank: 1, Offset: 4096, Got: "0x00", Want: "0x5a"},
			},
		}),
	}
}
