package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/render"
	"ringcli/configs"
	"ringcli/trace"
	"ringcli/verbs"
)

// largestSample is the longest message of --raw-udp and --recorder.
const largestSample = 1 << 20

// recorderSizes are the messages that the recorder's price is asked for: long
// ones, as segments are, and shorter ones, of which there are more a second.
var recorderSizes = []uint32{1 << 20, 64 << 10}

const (
	// A pair is slices by turns, on off off on, and so on, and what counts of each
	// side is the median slice: a disturbance is longer than a slice, hits both
	// sides alike, and is left out. recorderVolume is what a slice moves, which
	// takes some milliseconds.
	recorderSlices = 8
	recorderVolume = 32 << 20
	confidence     = 0.95
	// fewestPairs are those without which there is no interval of that
	// confidence: all of 5 pairs fall on one side of the median once in 16 times.
	fewestPairs = 6
)

// ratio is a quotient of two figures.
type ratio float64

func (r *ratio) String() string {
	if *r == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*r), 'g', -1, 64)
}
func (r *ratio) Type() string { return "ratio" }
func (r *ratio) Set(text string) error {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(v >= 0) || v > 100 {
		return fmt.Errorf("expected a ratio from 0 to 100, such as 0.97")
	}
	*r = ratio(v)
	return nil
}

// checkSamples refuses what --raw-udp and --recorder cannot do.
func checkSamples(fs *pflag.FlagSet) error {
	pairs := value[number](fs, "recorder").value
	switch {
	case pairs > 0 && pairs < fewestPairs:
		return usageError("bench p2p --recorder %d: expected at least %d pairs; fewer have no confidence interval of 95 %%", pairs, fewestPairs)
	case pairs > 0 && value[number](fs, "raw-udp").value > 0:
		return usageError("bench p2p: both --recorder and --raw-udp are given: expected one of them")
	case pairs == 0 && fs.Changed("floor-ratio"):
		return usageError("bench p2p: --floor-ratio without --recorder: expected both, such as --recorder 31 --floor-ratio 0.97")
	}
	return nil
}

// RecorderPrice is a bandwidth with the flight recorder on beside that with it
// off, medians of interleaved pairs.
type RecorderPrice struct {
	Command string  `json:"command"`
	OK      bool    `json:"ok"`     // not below the floor
	Figure  string  `json:"figure"` // "WRITE bandwidth"
	Bytes   int     `json:"bytes"`
	Pairs   int     `json:"pairs"`
	On      float64 `json:"on_GBps"`
	Off     float64 `json:"off_GBps"`
	// Ratio is the median of the pairs' ratios, on by off.
	Ratio float64 `json:"ratio"`
	// Low and High are the interval in which the median ratio lies with at least
	// 95 % confidence.
	Low   float64 `json:"ratio_low"`
	High  float64 `json:"ratio_high"`
	Floor float64 `json:"floor_ratio,omitempty"`
}

// Columns implements render.Record.
func (r RecorderPrice) Columns() []render.Column {
	return []render.Column{
		{Name: "figure", Width: 16, Left: true}, {Name: "bytes", Width: 8}, {Name: "pairs", Width: 5}, {Name: "on GB/s", Width: 8}, {Name: "off GB/s", Width: 8},
		{Name: "on/off", Width: 7}, {Name: "95 % confidence", Width: 15},
	}
}

// Cells implements render.Record.
func (r RecorderPrice) Cells() []render.Cell {
	cells := render.Texts(r.Figure, strconv.Itoa(r.Bytes), strconv.Itoa(r.Pairs), figure(r.On), figure(r.Off),
		fmt.Sprintf("%.4f", r.Ratio), fmt.Sprintf("%.4f-%.4f", r.Low, r.High))
	if r.Floor > 0 {
		cells[5].Mood = render.Good
		if !r.OK {
			cells[5].Mood = render.Bad
		}
	}
	return cells
}

// priceRecorder measures WRITE bandwidth with the recorder on and off by turns.
func (s *Session) priceRecorder(ctx context.Context, p *p2pPath, pairs int, floor float64) error {
	m := s.member
	was := trace.RecorderOn()
	defer trace.SetRecorder(was)
	on, off := make([][]float64, len(recorderSizes)), make([][]float64, len(recorderSizes))
	for pair := -1; pair < pairs; pair++ { // pair -1 warms up
		if _, stop, err := m.takeTurn(ctx, s, 1); stop || err != nil {
			if err == nil {
				err = errStopped("%d of %d pairs", max(pair, 0), pairs)
			}
			return err
		}
		end := s.Progress.Clock("p2p, recorder on and off, pair %d/%d", pair+1, pairs)
		for i, bytes := range recorderSizes {
			with, without, err := m.recorderPair(ctx, p, bytes, pair&1)
			if err != nil {
				end()
				return err
			}
			if pair >= 0 {
				on[i], off[i] = append(on[i], with), append(off[i], without)
			}
		}
		end()
	}
	mine := make([]RecorderPrice, len(recorderSizes))
	for i, bytes := range recorderSizes {
		mine[i] = priceOf(int(bytes), on[i], off[i], floor)
	}
	all, err := shareOut(ctx, m, mine) // the leader measured
	if err != nil {
		return err
	}
	worst := error(nil)
	for _, r := range all[0] {
		if !r.OK && worst == nil {
			worst = sharedError(ExitWarning, "slow: %s at %s with the flight recorder on is %.4f of that with it off, expected at least %s",
				r.Figure, configs.FormatSize(uint64(r.Bytes)), r.Ratio, figure(r.Floor))
		}
	}
	return errors.Join(s.Out.Print(asRecords(all[0])...), worst)
}

// recorderPair measures a bandwidth in GB/s with the recorder on and off.
func (m *Member) recorderPair(ctx context.Context, p *p2pPath, bytes uint32, first int) (on, off float64, err error) {
	var bandwidths [2][]float64
	for i := range 2 * recorderSlices {
		side := ((i+1)/2 + first) % 2
		trace.SetRecorder(side == 0)
		bw, err := p.sample(ctx, bytes)
		if err := m.agree(ctx, err); err != nil {
			return 0, 0, err
		}
		bandwidths[side] = append(bandwidths[side], bw)
	}
	return median(bandwidths[0]), median(bandwidths[1]), nil
}

// sample is a bandwidth in GB/s, on the active side.
func (p *p2pPath) sample(ctx context.Context, bytes uint32) (float64, error) {
	if p.role == bystander {
		return 0, nil
	}
	took, err := p.stream(ctx, verbs.OpWrite, bytes, recorderVolume/int(bytes))
	return gigabytes(recorderVolume, took), err
}

// priceOf puts the pairs together.
func priceOf(bytes int, on, off []float64, floor float64) RecorderPrice {
	r := RecorderPrice{
		Command: "bench p2p", Figure: "WRITE bandwidth", Bytes: bytes, Pairs: len(on),
		On: sixPlaces(median(on)), Off: sixPlaces(median(off)), Floor: floor,
	}
	var ratios []float64
	for i := range on {
		if off[i] > 0 {
			ratios = append(ratios, on[i]/off[i])
		}
	}
	low, high := medianInterval(ratios)
	r.Ratio, r.Low, r.High = sixPlaces(median(ratios)), sixPlaces(low), sixPlaces(high)
	r.OK = r.Ratio >= floor
	return r
}

// medianInterval returns bounds of the median of what v is a sample of, with at
// least 95 % confidence, whatever its distribution: the order statistics that the
// sign test does not reject (Gibbons, Chakraborti: Nonparametric statistical
// inference, 5.2). Below six values it is from the least to the greatest.
func medianInterval(v []float64) (low, high float64) {
	n := len(v)
	if n == 0 {
		return 0, 0
	}
	v = slices.Sorted(slices.Values(v))
	// tail is the probability that k or fewer of n fall below the median.
	cut, term, tail := 0, 1.0, 0.0
	for range n {
		term /= 2
	}
	for k := 0; k < n/2; k++ {
		tail += term
		if 2*tail > 1-confidence {
			break
		}
		cut = k
		term *= float64(n-k) / float64(k+1)
	}
	return v[cut], v[n-1-cut]
}
