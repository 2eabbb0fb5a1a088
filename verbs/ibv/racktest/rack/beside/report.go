//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"ringcli/configs"
)

// Size is what was measured at one size.
type Size struct {
	Bytes     uint64
	Bandwidth Row // 1e6 bytes a second
	Latency   Row // half a round trip
}

// Row is one figure of all who were measured, medians of the rounds.
type Row struct {
	Perftest float64
	IBV      float64 // ringcli on rdma_rxe
	Soft     float64 // ringcli on soft
	// The ratios are each round's.
	IBVByPerftest Spread
	SoftByIBV     Spread
}

// Spread is a figure of all rounds.
type Spread struct {
	Median float64
	Min    float64
	Max    float64
}

func spread(rounds []round, of func(round) float64) Spread {
	var v []float64
	for _, r := range rounds {
		v = append(v, of(r))
	}
	slices.Sort(v)
	n := len(v)
	return Spread{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1]}
}

func summarize(bytes uint64, rounds []round) Size {
	row := func(perftest, ibv, soft func(round) float64) Row {
		return Row{
			Perftest: spread(rounds, perftest).Median, IBV: spread(rounds, ibv).Median, Soft: spread(rounds, soft).Median,
			IBVByPerftest: spread(rounds, func(r round) float64 { return ibv(r) / perftest(r) }),
			SoftByIBV:     spread(rounds, func(r round) float64 { return soft(r) / ibv(r) }),
		}
	}
	return Size{
		Bytes: bytes,
		Bandwidth: row(func(r round) float64 { return r.perftestBW }, func(r round) float64 { return r.ibvBW },
			func(r round) float64 { return r.softBW }),
		Latency: row(func(r round) float64 { return r.perftestLat }, func(r round) float64 { return r.ibvLat },
			func(r round) float64 { return r.softLat }),
	}
}

func (b *bench) print(out io.Writer, sizes []Size) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // Flush tells
	_, err := fmt.Fprintf(out, "Linux %s, %s, 2 machines of %d CPU, path MTU %d, %d messages in flight, WRITE\nmedians of %d interleaved rounds; ratios are each round's: median, least-greatest\n\n",
		b.rack.Kernel(), b.rack.Accelerator(), b.cpus, mtu, b.depth, b.rounds)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		title string
		row   func(Size) Row
	}{
		{"MB/s", func(s Size) Row { return s.Bandwidth }},
		{"us", func(s Size) Row { return s.Latency }},
	} {
		p("bytes\tperftest %s\tibv %s\tibv/perftest\t\tsoft %s\tsoft/ibv\t\t\n", part.title, part.title, part.title)
		for _, s := range sizes {
			row := part.row(s)
			p("%s\t%.2f\t%.2f\t%s\t%.2f\t%s\t\n", configs.FormatSize(s.Bytes), row.Perftest, row.IBV, row.IBVByPerftest, row.Soft, row.SoftByIBV)
		}
		p("\t\t\t\t\t\t\t\t\n")
	}
	return w.Flush()
}

// String is two cells of the table.
func (s Spread) String() string { return fmt.Sprintf("%.2f\t%.2f-%.2f", s.Median, s.Min, s.Max) }

// verdict is the floor's.
func verdict(sizes []Size, floor float64) error {
	for _, s := range sizes {
		if got := s.Bandwidth.IBVByPerftest.Median; s.Bytes == floorBytes && got < floor {
			return fmt.Errorf("%w: ringcli's bandwidth at 64K is %.2f of ib_write_bw's, expected at least %g (-floor)", errSlow, got, floor)
		}
	}
	return nil
}
