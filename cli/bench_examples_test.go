package cli

import (
	"ringcli/cli/render"
	"ringcli/collective"
)

// exampleRows are a comparison of three protocols in which each is ahead once,
// and a lead of 2 % is none.
func exampleRows() []CompareRow {
	none, wrong := uint64(0), uint64(16383)
	var rows []CompareRow
	for _, r := range []struct {
		bytes uint64
		us    [3]float64
		auto  string
	}{
		{4 << 10, [3]float64{10, 20, 30}, "eager"},
		{64 << 10, [3]float64{50, 49, 90}, "eager"},
		{1 << 20, [3]float64{900, 700, 800}, "rendezvous-write"},
		{16 << 20, [3]float64{14000, 9999.94, 9900}, "rendezvous-write"},
		{1 << 30, [3]float64{2345678.5, 1234567, 1000000}, "rendezvous-write"},
	} {
		row := CompareRow{Auto: r.auto}
		for i, p := range []collective.Protocol{collective.Eager, collective.RendezvousWrite, collective.RendezvousRead} {
			m := exampleMeasurement("all-reduce")
			m.Bytes, m.Count, m.Protocol, m.PerRank, m.Wrong = r.bytes, r.bytes/4, p.String(), nil, &none
			m.Time = Times{Min: r.us[i] / 2, P50: r.us[i], P99: 2 * r.us[i], Max: 3 * r.us[i], Mean: r.us[i]}
			m.AlgBW, m.BusBW = Bandwidth(m.Command, r.bytes, 4, r.us[i])
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

// benchExamples are what a bench prints beside nccl-tests' table.
func benchExamples() []example {
	wrong := uint64(3)
	// Two sizes, one leader, nothing checked.
	plain := func(op string) example {
		return example{"bench " + op + " protocols", func(s *Session) error {
			rows := exampleRows()[:2]
			for _, r := range rows {
				for i := range r.Each {
					r.Each[i].Command, r.Each[i].Wrong = op, nil
				}
				if err := s.Out.Print(r); err != nil {
					return err
				}
			}
			return s.concludeComparison(summarise("bench "+op, rows, 0), rows)
		}}
	}
	return []example{
		plain("reduce-scatter"), plain("all-gather"),
		{"bench all-reduce protocols", func(s *Session) error {
			rows := exampleRows()
			if err := s.Out.Note(render.Faint, "%s", compareHead([]collective.Protocol{collective.Eager, collective.RendezvousWrite, collective.RendezvousRead})); err != nil {
				return err
			}
			for _, r := range rows {
				if err := s.Out.Print(r); err != nil {
					return err
				}
			}
			return s.concludeComparison(summarise("bench all-reduce", rows, 1), rows)
		}},
		printing("bench p2p recorder", []render.Record{
			RecorderPrice{Command: "bench p2p", OK: true, Figure: "WRITE bandwidth", Bytes: 1 << 20, Pairs: 31, On: 4.109, Off: 4.12, Ratio: 0.9982, Low: 0.9837, High: 1.0032},
			RecorderPrice{Command: "bench p2p", Figure: "WRITE bandwidth", Bytes: 64 << 10, Pairs: 1000, On: 38.25, Off: 42.5, Ratio: 0.9, Low: 0.875, High: 0.925, Floor: 0.97},
		}),
		printing("bench p2p wrong", []render.Record{
			P2PResult{
				Command: "bench p2p", Op: "READ", Bytes: 1 << 30, Iters: 10, BW: 1.5, MsgRate: 0.0015, Time: P2PTimes{Min: 700000, P50: 710000, P99: 720000, P999: 730000, Max: 740000},
				Wrong: &wrong, First: &WrongElement{Rank: 1, Offset: 4096, Got: "0x00", Want: "0x5a"},
			},
		}),
	}
}
