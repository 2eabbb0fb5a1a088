package bench

import (
	"fmt"
	"math"
	"time"

	"ringcli/cli/render"
	"ringcli/cli/tables"
	"ringcli/cli/timing"
	"ringcli/collective"
	"ringcli/collective/reduce"
)

// TunePoint is one operation at one size, in all ways that this ring has.
type TunePoint struct {
	Command   string         `json:"command"`
	OK        bool           `json:"ok"`
	Operation string         `json:"operation" col:"operation|14"`
	Bytes     uint64         `json:"bytes" col:"bytes|8|size"` // of the whole vector
	Type      string         `json:"type"`
	Ranks     int            `json:"ranks"`
	Fastest   TunedVariant   `json:"fastest" col:"Algorithm=fastest|18; Time=us|7"`
	Default   TunedVariant   `json:"default" col:"Algorithm=default|12; Time=us|7"` // what auto takes without a table
	Gain      float64        `json:"gain" col:"gain|6|%.2fx"`                       // the default's time by that of the fastest, the median of the rounds'
	Real      bool           `json:"beyond_noise"`
	Variants  []TunedVariant `json:"ways"`
}

// TunedVariant is an algorithm and a protocol at one size.
type TunedVariant struct {
	Variant
	Time   float64 `json:"time_us"` // the median of the rounds' means, of the slowest rank
	Rounds int     `json:"rounds"`  // that it took part in: one that is hopeless sits the others out
}

func (t *tuning) pointRow(p tunePoint) TunePoint {
	row := TunePoint{
		Command: "tune", OK: true, Operation: p.op.String(), Bytes: uint64(p.bytes), Type: reduce.Float32.String(), Ranks: t.m.Comm.Size(),
	}
	if !p.op.OnVectors() {
		row.Type = ""
	}
	times := p.times(len(t.list))
	best := p.standard
	for w, us := range times {
		if math.IsInf(us, 1) {
			continue
		}
		row.Variants = append(row.Variants, t.tuned(p, w, us))
		if us < times[best] {
			best = w
		}
	}
	row.Fastest, row.Default = t.tuned(p, best, times[best]), t.tuned(p, p.standard, times[p.standard])
	row.Gain, row.Real = p.gain(best)
	row.Gain = timing.SixPlaces(row.Gain)
	return row
}

func (t *tuning) tuned(p tunePoint, w int, us float64) TunedVariant {
	return TunedVariant{Variant: t.list[w], Time: timing.SixPlaces(us), Rounds: len(p.rounds.of(w))}
}

// Adjust implements render.Adjuster.
func (p TunePoint) Adjust(column string, cell *render.Cell) {
	switch {
	case column == "fastest":
		cell.Text = p.Fastest.short()
	case column == "default":
		cell.Text = shortened.Replace(p.Default.short())
	case column == "gain" && p.Real:
		cell.Mood = render.Good
	case column == "gain":
		*cell = render.Cell{Text: "-", Mood: render.Faint}
	}
}

// TuneRule is what is taken for a run of sizes of one operation.
type TuneRule struct {
	Command   string `json:"command"`
	OK        bool   `json:"ok"`
	Operation string `json:"operation" col:"operation|14"`
	Ranks     int    `json:"ranks"`
	From      uint64 `json:"from_bytes" col:"from|unit"`   // the least size that was measured
	UpTo      uint64 `json:"up_to_bytes" col:"up to|unit"` // 0: any size
	Variant   `col:"Algorithm=algorithm|18; Protocol=protocol|16"`
	Default   bool    `json:"default"`                                 // it is also what auto takes without a table, at each size
	Gain      float64 `json:"gain" col:"gain over default|left|%.2fx"` // over the default, where that is another: the geometric mean of the sizes'
}

func (t *tuning) ruleRow(points []tunePoint, s tuneStretch) TuneRule {
	gain, _ := gainOf(points, s)
	return TuneRule{
		Command: "tune", OK: true, Operation: points[s.first].op.String(), Ranks: t.m.Comm.Size(),
		From: uint64(points[s.first].bytes), UpTo: uint64(s.upTo), Variant: t.list[s.variant],
		Default: s.isDefault(points), Gain: timing.SixPlaces(gain),
	}
}

// Adjust implements render.Adjuster.
func (r TuneRule) Adjust(column string, cell *render.Cell) {
	switch {
	case column == "protocol" && r.Protocol == collective.ReceiverInitiated:
		cell.Text = shortened.Replace(cell.Text)
	case column == "up to" && r.UpTo == 0:
		cell.Text = "any"
	case column == "gain over default" && r.Default:
		*cell = render.Cell{Text: "is the default", Mood: render.Faint}
	case column == "gain over default":
		cell.Mood = render.Good
	}
}

// TuneSummary ends a tune.
type TuneSummary struct {
	Command    string  `json:"command"`
	OK         bool    `json:"ok"`
	Ranks      int     `json:"ranks"`
	Devices    string  `json:"devices"` // the providers of all edges
	Points     int     `json:"points"`  // that were measured: an operation at a size
	Of         int     `json:"of"`
	Variants   int     `json:"ways"`
	Rounds     int     `json:"rounds"`
	Iterations int     `json:"iterations"` // on this rank
	Seconds    float64 `json:"seconds"`
	Rules      int     `json:"rules"`
	Gain       float64 `json:"gain"`           // over the default: the geometric mean of all points'
	Saved      string  `json:"saved"`          // the file; empty if it was not
	CPUs       []int   `json:"cpus,omitempty"` // that the ranks poll on; absent where it is not settled for all
}

func (t *tuning) printSummary(path string, saved tables.Saved) error {
	sum := TuneSummary{
		Command: "tune", OK: true, Ranks: saved.Ranks, Devices: saved.Devices, CPUs: t.m.CPUs, Of: tunedPoints(), Variants: len(t.list),
		Rounds: t.rounds, Iterations: t.iterations, Seconds: math.Round(time.Since(t.begun).Seconds()*10) / 10, Rules: len(saved.Rules), Saved: path, Gain: 1,
	}
	logs := 0.0
	for _, points := range t.points {
		sum.Points += len(points)
		for _, s := range stretchesOf(points, chooseVariants(points, len(t.list)), true) {
			gain, n := gainOf(points, s)
			logs += math.Log(gain) * float64(n)
		}
	}
	if sum.Points > 0 {
		sum.Gain = timing.SixPlaces(math.Exp(logs / float64(sum.Points)))
	}
	return t.s.Out.Print(sum)
}

// Lines implements render.Told.
func (t TuneSummary) Lines() []render.Line {
	lines := []render.Line{{
		Text: fmt.Sprintf("measured %d of %d sizes in %d ways: %d rounds, %d iterations, %.1f s", t.Points, t.Of, t.Variants, t.Rounds, t.Iterations, t.Seconds),
	}}
	if t.Points < t.Of {
		lines = append(lines, render.Line{Mood: render.Fair, Text: "the budget was spent before the longest: for them the built-in choice stays"})
	}
	gain := render.Line{Text: "no rules: nothing is faster than the built-in choice beyond noise"}
	if t.Rules > 0 {
		rules := "rules"
		if t.Rules == 1 {
			rules = "rule"
		}
		gain = render.Line{Mood: render.Good, Text: fmt.Sprintf("%d %s; %.2fx the speed of the built-in choice, geometric mean", t.Rules, rules, t.Gain)}
	}
	where := "in force for this ring, and not saved"
	if t.Saved != "" {
		where = "in force for this ring, and saved to " + t.Saved
	}
	return append(lines, gain, render.Line{Text: where})
}
