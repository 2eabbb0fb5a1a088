//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"ringcli/configs"
)

// Report is what was measured.
type Report struct {
	Kernel      string  `json:"kernel"`
	Accelerator string  `json:"accelerator"`
	CPUs        int     `json:"cpus"`
	MTU         int     `json:"mtu"`
	Depth       int     `json:"depth"`
	Rounds      int     `json:"rounds"`
	Floor       float64 `json:"floor"`
	Sizes       []Size  `json:"sizes"`
	Costs       []Cost  `json:"costs,omitempty"`
}

// Size is what was measured at one size.
type Size struct {
	Bytes     uint64 `json:"bytes"`
	Bandwidth Row    `json:"bandwidth_MBps"` // 1e6 bytes a second
	Latency   Row    `json:"latency_us"`     // half a round trip
}

// Row is one figure of all who were measured, medians of the rounds.
type Row struct {
	Perftest float64 `json:"perftest"`
	IBV      float64 `json:"ibv"`  // ringcli on rdma_rxe
	Soft     float64 `json:"soft"` // ringcli on soft
	// The ratios are each round's.
	IBVByPerftest Spread `json:"ibv_by_perftest"`
	SoftByIBV     Spread `json:"soft_by_ibv"`
}

// Spread is a figure of all rounds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Cost is a line of a benchmark of verbs/ibv.
type Cost struct {
	What        string  `json:"what"`
	Nanoseconds float64 `json:"ns"`
	Allocations int     `json:"allocations"`
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

func (r Report) print(out io.Writer, format string) error {
	if format == "json" {
		return json.NewEncoder(out).Encode(r)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // Flush tells
	_, err := fmt.Fprintf(out, "Linux %s, %s, 2 machines of %d CPU, path MTU %d, %d messages in flight, WRITE\nmedians of %d interleaved rounds; ratios are each round's: median, least-greatest\n\n",
		r.Kernel, r.Accelerator, r.CPUs, r.MTU, r.Depth, r.Rounds)
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
		for _, s := range r.Sizes {
			row := part.row(s)
			p("%s\t%.2f\t%.2f\t%s\t%.2f\t%s\t\n", configs.FormatSize(s.Bytes), row.Perftest, row.IBV, row.IBVByPerftest, row.Soft, row.SoftByIBV)
		}
		p("\t\t\t\t\t\t\t\t\n")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, c := range r.Costs {
		if _, err := fmt.Fprintf(out, "verbs/ibv %-24s %8.0f ns %3d allocations\n", c.What, c.Nanoseconds, c.Allocations); err != nil {
			return err
		}
	}
	return nil
}

// String is two cells of the table.
func (s Spread) String() string { return fmt.Sprintf("%.2f\t%.2f-%.2f", s.Median, s.Min, s.Max) }

// verdict is the floor's.
func (r Report) verdict() error {
	for _, s := range r.Sizes {
		if got := s.Bandwidth.IBVByPerftest.Median; s.Bytes == floorBytes && got < r.Floor {
			return fmt.Errorf("%w: ringcli's bandwidth at 64K is %.2f of ib_write_bw's, expected at least %g (--floor)", errSlow, got, r.Floor)
		}
	}
	return nil
}
