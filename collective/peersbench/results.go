//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"ringcli/collective"
	"ringcli/configs"
)

// Results are all that was measured.
type Results struct {
	Environment Environment
	Contenders  []About
	Rounds      []Placement
	Failures    []string
	Notes       []string
	cells       []*cellResults
	options     options
}

// Environment is where and how it was measured.
type Environment struct {
	CPU       string        `json:"cpu"`
	CPUs      int           `json:"cpus"`
	Kernel    string        `json:"kernel"`
	Date      time.Time     `json:"date"`
	Go        string        `json:"go"`
	Ringcli   string        `json:"ringcli"`
	Device    string        `json:"device"`
	Hosts     int           `json:"hosts,omitempty"`
	Rate      string        `json:"rate,omitempty"` // of each host's link
	Rounds    int           `json:"rounds"`
	InPlace   bool          `json:"in_place"`
	HugePages string        `json:"transparent_huge_pages"`
	Window    time.Duration `json:"window_ns"`
}

// About is what a contender said of itself.
type About struct {
	Name  string   `json:"name"`
	Ranks int      `json:"ranks"`
	What  string   `json:"what"`
	Text  string   `json:"text"`
	CPUs  []string `json:"cpus"` // of each rank
}

// Places are the CPUs of all ranks, in order; those of all, if all have the same.
func (a About) Places() string {
	list := a.CPUs
	if same := slices.Compact(slices.Clone(list)); len(same) == 1 {
		list = same
	}
	return strings.Join(list, " | ")
}

// Placement is where the CPUs were in a round, and what they could do there.
type Placement struct {
	Ranks    int     `json:"ranks"`
	Round    int     `json:"round"`   // from 0
	Line     Spread  `json:"line_ns"` // from one CPU to another, one way; before every cell
	Floor    float64 `json:"floor_us"`
	FloorOf  uint64  `json:"floor_bytes"`
	Others   Spread  `json:"others_cpus"` // CPUs that processes of others were busy with, by cell
	Steal    float64 `json:"stolen_cpus"` // and that the host of this virtual machine gave to others
	Duration float64 `json:"seconds"`
}

func (p Placement) String() string {
	text := fmt.Sprintf("%d ranks, round %d: a line takes %s ns from one CPU to the other", p.Ranks, p.Round+1, p.Line.text(whole))
	if p.Floor > 0 {
		text += fmt.Sprintf("; floor of %s: %s us", configs.FormatSize(p.FloorOf), figure(p.Floor))
	}
	return fmt.Sprintf("%s; others have %s CPUs, the host %.2f; %.1f s", text, p.Others.text(hundredths), p.Steal, p.Duration)
}

// Spread is a figure of several rounds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spread is of what is a number.
func spread(values []float64) Spread {
	v := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(v) == 0 {
		return Spread{}
	}
	slices.Sort(v)
	n := len(v)
	return Spread{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1]}
}

// text writes the three figures by a function for one.
func (s Spread) text(write func(float64) string) string {
	return fmt.Sprintf("%s (%s-%s)", write(s.Median), write(s.Min), write(s.Max))
}

func hundredths(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

func thousandths(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

func whole(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }

// cellResults are what was measured in one cell, by contender.
type cellResults struct {
	cell
	// By round: nanoseconds of a line, NaN with one CPU, and CPUs that others had.
	line, others []float64
	of           map[string]*times
}

// times are a contender's in a cell.
type times struct {
	Iters int       // in a round; 0 if it does not run
	us    []float64 // of an iteration, by round; NaN where it failed
	over  [][]Link  // by round in which it did not fail, and by host; empty without hosts
}

func (t *times) put(round int, us float64) { put(&t.us, round, us) }

func put(list *[]float64, round int, v float64) {
	for len(*list) <= round {
		*list = append(*list, math.NaN())
	}
	(*list)[round] = v
}

// median is 0 where nothing was measured.
func (t *times) median() float64 {
	if t == nil {
		return 0
	}
	return spread(t.us).Median
}

func newResults(o options, cpus int) *Results {
	e := Environment{
		CPU: cpuModel(), CPUs: cpus, Kernel: kernelRelease(), Date: time.Now(), Go: runtime.Version() + " " + runtime.GOARCH, Ringcli: "unknown",
		Device: o.device, Rounds: o.rounds, InPlace: o.inPlace, HugePages: hugePages(), Window: o.window,
	}
	if o.hosts > 0 {
		e.Hosts, e.Rate = o.hosts, o.rate
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		e.Ringcli = info.Main.Version
	}
	return &Results{Environment: e, options: o}
}

func (r *Results) cell(c cell) *cellResults {
	for _, have := range r.cells {
		if have.cell == c {
			return have
		}
	}
	r.cells = append(r.cells, &cellResults{cell: c, of: map[string]*times{}})
	return r.cells[len(r.cells)-1]
}

// cellsOf are those of an operation on so many ranks.
func (r *Results) cellsOf(op collective.Operation, ranks int) (list []*cellResults) {
	for _, c := range r.cells {
		if c.op == op && c.ranks == ranks {
			list = append(list, c)
		}
	}
	return list
}

func (r *Results) of(c cell, name string) *times {
	in := r.cell(c)
	if in.of[name] == nil {
		in.of[name] = &times{}
	}
	return in.of[name]
}

// keep takes what was measured of a cell in a round.
func (r *Results) keep(c cell, round int, t taking) {
	in := r.cell(c)
	put(&in.line, round, t.line)
	put(&in.others, round, t.others)
	for name, us := range t.us {
		r.of(c, name).put(round, us)
		if links := t.over[name]; links != nil {
			r.of(c, name).over = append(r.of(c, name).over, links)
		}
	}
}

// placement is of a round that has just been measured.
func (r *Results) placement(ranks, round int, took time.Duration) Placement {
	p := Placement{Ranks: ranks, Round: round, Duration: took.Seconds()}
	var lines, others []float64
	for _, c := range r.cells {
		if c.ranks != ranks || len(c.line) <= round {
			continue
		}
		lines, others = append(lines, c.line[round]), append(others, c.others[round])
		if t := c.of["floor"]; t != nil && len(t.us) > round && c.bytes >= p.FloorOf && t.us[round] > 0 {
			p.Floor, p.FloorOf = t.us[round], c.bytes
		}
	}
	p.Line, p.Others = spread(lines), spread(others)
	return p
}

// stop notes that the rounds have ended early, and how much of them there is.
func (r *Results) stop(why error) error {
	whole := map[int]int{} // rounds by ranks
	for _, p := range r.Rounds {
		whole[p.Ranks]++
	}
	more := 0
	for _, c := range r.cells {
		if len(c.line) > whole[c.ranks] {
			more++
		}
	}
	err := fmt.Errorf("stopped after %d of %d rounds and %d cells of the next: %w", len(r.Rounds), r.options.rounds*len(r.options.rankNumbers), more, why)
	r.Notes = append(r.Notes, err.Error())
	return err
}

// best is the name of the contender of a role with the least median; empty for none.
func (c *cellResults) best(of role) string {
	best := ""
	for _, who := range contenders {
		if m := c.of[who.name].median(); who.role == of && m > 0 && (best == "" || m < c.of[best].median()) {
			best = who.name
		}
	}
	return best
}

// Ratio is the time of the fastest reference by a contender's: above 1 the contender is
// faster. The reference is the one with the least median; the ratio is each round's.
type Ratio struct {
	Operation string `json:"operation"`
	Ranks     int    `json:"ranks"`
	Bytes     uint64 `json:"bytes"`
	Contender string `json:"contender"`
	Reference string `json:"reference"`
	Spread    Spread `json:"ratio"`
}

// ratio compares a contender in a cell; ok is false where one of both is missing.
func (c *cellResults) ratio(name, reference string) (r Ratio, ok bool) {
	ours, theirs := c.of[name], c.of[reference]
	if ours == nil || theirs == nil {
		return r, false
	}
	var each []float64
	for round := range min(len(ours.us), len(theirs.us)) {
		each = append(each, theirs.us[round]/ours.us[round])
	}
	r = Ratio{c.op.String(), c.ranks, c.bytes, name, reference, spread(each)}
	return r, r.Spread.Median > 0
}

// reference is whom a contender is compared with in a cell.
func (c *cellResults) reference(who contender) string {
	switch who.role {
	case roleOurs:
		return c.best(rolePeer)
	case roleSoft:
		return c.best(roleTCP)
	}
	return ""
}

// ratios are all.
func (r *Results) ratios() []Ratio {
	var list []Ratio
	for _, c := range r.cells {
		for _, who := range contenders {
			if ratio, ok := c.ratio(who.name, c.reference(who)); ok {
				list = append(list, ratio)
			}
		}
	}
	return list
}

// byBaseline are the ratios of ours by the same of --baseline: above 1 it has become faster.
func (r *Results) byBaseline() []Ratio {
	var list []Ratio
	for _, c := range r.cells {
		for _, old := range baselines("") {
			if ratio, ok := c.ratio(old.of, old.name); ok {
				list = append(list, ratio)
			}
		}
	}
	return list
}

// geometric is the geometric mean of the medians of some ratios, and how many they are.
func geometric(list []Ratio, op collective.Operation, ranks int, name string) (mean float64, n int) {
	sum := 0.0
	for _, r := range list {
		if r.Operation == op.String() && r.Ranks == ranks && r.Contender == name {
			sum += math.Log(r.Spread.Median)
			n++
		}
	}
	if n == 0 {
		return 0, 0
	}
	return math.Exp(sum / float64(n)), n
}

// json writes everything, an object a line, whose first field is its kind.
func (r *Results) json(w io.Writer) error {
	var errs []error
	line := func(kind string, fields any) {
		text, err := json.Marshal(fields)
		if err == nil {
			_, err = fmt.Fprintf(w, "{\"kind\":%q,%s\n", kind, text[1:]) // behind the object's brace
		}
		errs = append(errs, err)
	}
	line("environment", r.Environment)
	for _, a := range r.Contenders {
		line("contender", a)
	}
	for _, p := range r.Rounds {
		line("round", p)
	}
	for _, c := range r.cells {
		for _, who := range contenders {
			t := c.of[who.name]
			if t.median() == 0 {
				continue
			}
			line("cell", struct {
				Operation string     `json:"operation"`
				Ranks     int        `json:"ranks"`
				Bytes     uint64     `json:"bytes"`
				Moved     int        `json:"bytes_measured"`
				Contender string     `json:"contender"`
				Iters     int        `json:"iters"`
				Median    float64    `json:"median_us"`
				Times     []*float64 `json:"time_us"`
				Line      []*float64 `json:"line_ns"`
				Others    []*float64 `json:"others_cpus"`
				Links     []Link     `json:"links_bytes,omitempty"`
				Least     float64    `json:"least_link_bytes,omitempty"`
			}{c.op.String(), c.ranks, c.bytes, c.count() * elemSize, who.name, t.Iters, t.median(), numbers(t.us), numbers(c.line), numbers(c.others), t.links(), c.leastOver(r.options.hosts)})
		}
	}
	for _, ratio := range append(r.ratios(), r.byBaseline()...) {
		line("ratio", ratio)
	}
	for _, text := range r.Notes {
		line("note", map[string]string{"text": text})
	}
	for _, text := range r.Failures {
		line("failure", map[string]string{"text": text})
	}
	return errors.Join(errs...)
}

// numbers has null where there is no number.
func numbers(list []float64) []*float64 {
	out := make([]*float64, len(list))
	for i := range list {
		if !math.IsNaN(list[i]) {
			out[i] = &list[i]
		}
	}
	return out
}
