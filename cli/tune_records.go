package cli

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"ringcli/cli/render"
	"ringcli/collective/reduce"
	"ringcli/configs"
)

// TunePoint is one operation at one size, in all ways that this ring has.
type TunePoint struct {
	Command   string     `json:"command"`
	OK        bool       `json:"ok"`
	Operation string     `json:"operation"`
	Bytes     uint64     `json:"bytes"` // of the whole vector
	Type      string     `json:"type"`
	Ranks     int        `json:"ranks"`
	Fastest   TunedWay   `json:"fastest"`
	Default   TunedWay   `json:"default"` // what auto takes without a table
	Gain      float64    `json:"gain"`    // the default's time by that of the fastest, the median of the rounds'
	Real      bool       `json:"beyond_noise"`
	Ways      []TunedWay `json:"ways"`
}

// TunedWay is an algorithm and a protocol at one size.
type TunedWay struct {
	Algorithm string  `json:"algorithm"`
	Protocol  string  `json:"protocol"`
	Time      float64 `json:"time_us"` // the median of the rounds' means, of the slowest rank
	Rounds    int     `json:"rounds"`  // that it took part in: one that is hopeless sits the others out
}

func (t *tuning) pointRow(p tunePoint) TunePoint {
	row := TunePoint{
		Command: "tune", OK: true, Operation: p.op.String(), Bytes: uint64(p.bytes), Type: reduce.Float32.String(), Ranks: t.m.comm.Size(),
	}
	times := p.times(len(t.list))
	best := p.standard
	for w, us := range times {
		if math.IsInf(us, 1) {
			continue
		}
		row.Ways = append(row.Ways, t.tuned(p, w, us))
		if us < times[best] {
			best = w
		}
	}
	row.Fastest, row.Default = t.tuned(p, best, times[best]), t.tuned(p, p.standard, times[p.standard])
	row.Gain, row.Real = p.gain(best)
	row.Gain = sixPlaces(row.Gain)
	return row
}

func (t *tuning) tuned(p tunePoint, w int, us float64) TunedWay {
	return TunedWay{Algorithm: t.list[w].algorithm.String(), Protocol: t.list[w].protocol.String(), Time: sixPlaces(us), Rounds: len(p.column(w))}
}

// Columns implements render.Record.
func (p TunePoint) Columns() []render.Column {
	return []render.Column{
		{Name: "operation", Width: 14, Left: true}, {Name: "bytes", Width: 8}, {Name: "fastest", Width: 18, Left: true}, {Name: "us", Width: 7},
		{Name: "default", Width: 12, Left: true}, {Name: "us", Width: 7}, {Name: "gain", Width: 6},
	}
}

// Cells implements render.Record.
func (p TunePoint) Cells() []render.Cell {
	gain := render.Cell{Text: "-", Mood: render.Faint}
	if p.Real {
		gain = render.Cell{Text: times(p.Gain), Mood: render.Good}
	}
	return append(render.Texts(p.Operation, eightDigits(p.Bytes), shortWay(p.Fastest.Algorithm, p.Fastest.Protocol), figure(p.Fastest.Time),
		narrow.Replace(shortWay(p.Default.Algorithm, p.Default.Protocol)), figure(p.Default.Time)), gain)
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// times writes a ratio: "1.25x".
func times(ratio float64) string { return strconv.FormatFloat(ratio, 'f', 2, 64) + "x" }

// TuneRule is what is taken for a run of sizes of one operation.
type TuneRule struct {
	Command   string  `json:"command"`
	OK        bool    `json:"ok"`
	Operation string  `json:"operation"`
	Ranks     int     `json:"ranks"`
	From      uint64  `json:"from_bytes"`  // the least size that was measured
	UpTo      uint64  `json:"up_to_bytes"` // 0: any size
	Algorithm string  `json:"algorithm"`
	Protocol  string  `json:"protocol"`
	Default   bool    `json:"default"` // it is also what auto takes without a table, at each size
	Gain      float64 `json:"gain"`    // over the default, where that is another: the geometric mean of the sizes'
}

func (t *tuning) ruleRow(points []tunePoint, s tuneStretch) TuneRule {
	w := t.list[s.way]
	gain, _ := gainOf(points, s)
	return TuneRule{
		Command: "tune", OK: true, Operation: points[s.first].op.String(), Ranks: t.m.comm.Size(),
		From: uint64(points[s.first].bytes), UpTo: uint64(s.upTo), Algorithm: w.algorithm.String(), Protocol: w.protocol.String(),
		Default: s.isDefault(points), Gain: sixPlaces(gain),
	}
}

// Columns implements render.Record.
func (r TuneRule) Columns() []render.Column {
	return []render.Column{
		{Name: "operation", Width: 14, Left: true}, {Name: "from"}, {Name: "up to"}, {Name: "algorithm", Width: 18, Left: true}, {Name: "protocol", Width: 16, Left: true},
		{Name: "gain over default", Left: true},
	}
}

// Cells implements render.Record.
func (r TuneRule) Cells() []render.Cell {
	upTo, gain := "any", render.Cell{Text: "is the default", Mood: render.Faint}
	if r.UpTo > 0 {
		upTo = configs.FormatSize(r.UpTo)
	}
	if !r.Default {
		gain = render.Cell{Text: times(r.Gain), Mood: render.Good}
	}
	return append(render.Texts(r.Operation, configs.FormatSize(r.From), upTo, r.Algorithm, r.Protocol), gain)
}

// TuneSummary ends a tune.
type TuneSummary struct {
	Command    string  `json:"command"`
	OK         bool    `json:"ok"`
	Ranks      int     `json:"ranks"`
	Devices    string  `json:"devices"` // the providers of all edges
	Points     int     `json:"points"`  // that were measured: an operation at a size
	Of         int     `json:"of"`
	Ways       int     `json:"ways"`
	Rounds     int     `json:"rounds"`
	Iterations int     `json:"iterations"` // on this rank
	Seconds    float64 `json:"seconds"`
	Rules      int     `json:"rules"`
	Gain       float64 `json:"gain"`  // over the default: the geometric mean of all points'
	Saved      string  `json:"saved"` // the file; empty if it was not
}

func (t *tuning) printSummary(path string, saved savedTable) error {
	sum := TuneSummary{
		Command: "tune", OK: true, Ranks: saved.Ranks, Devices: saved.Devices, Of: len(tunedSizes) * len(tunedOperations), Ways: len(t.list),
		Rounds: t.rounds, Iterations: t.iterations, Seconds: math.Round(time.Since(t.begun).Seconds()*10) / 10, Rules: len(saved.Rules), Saved: path, Gain: 1,
	}
	logs := 0.0
	for _, points := range t.points {
		sum.Points += len(points)
		for _, s := range stretchesOf(points, chooseWays(points, len(t.list)), true) {
			gain, n := gainOf(points, s)
			logs += math.Log(gain) * float64(n)
		}
	}
	if sum.Points > 0 {
		sum.Gain = sixPlaces(math.Exp(logs / float64(sum.Points)))
	}
	return t.s.concludeTune(sum)
}

// concludeTune prints the summary: some lines for people, an object for programs.
func (s *Session) concludeTune(sum TuneSummary) error {
	if s.Out.Format() != render.Table {
		return s.Out.Print(sum)
	}
	if err := s.Out.Note(render.Plain, "measured %d of %d sizes in %d ways: %d rounds, %d iterations, %.1f s", sum.Points, sum.Of, sum.Ways, sum.Rounds, sum.Iterations, sum.Seconds); err != nil {
		return err
	}
	if sum.Points < sum.Of {
		if err := s.Out.Note(render.Fair, "the budget was spent before the longest: for them the built-in choice stays"); err != nil {
			return err
		}
	}
	mood, text := render.Good, fmt.Sprintf("%s; %s the speed of the built-in choice, geometric mean", plural(sum.Rules, "rule"), times(sum.Gain))
	if sum.Rules == 0 {
		mood, text = render.Plain, "no rules: nothing is faster than the built-in choice beyond noise"
	}
	if err := s.Out.Note(mood, "%s", text); err != nil {
		return err
	}
	where := "in force for this ring, and not saved"
	if sum.Saved != "" {
		where = "in force for this ring, and saved to " + sum.Saved
	}
	return s.Out.Note(render.Plain, "%s", where)
}

// Columns implements render.Record.
func (s TuneSummary) Columns() []render.Column {
	return []render.Column{{Name: "ranks"}, {Name: "devices", Left: true}, {Name: "measured"}, {Name: "of"}, {Name: "rules"}, {Name: "gain"}, {Name: "saved", Left: true}}
}

// Cells implements render.Record.
func (s TuneSummary) Cells() []render.Cell {
	return render.Texts(strconv.Itoa(s.Ranks), s.Devices, strconv.Itoa(s.Points), strconv.Itoa(s.Of), strconv.Itoa(s.Rules), times(s.Gain), s.Saved)
}
