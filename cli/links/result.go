package links

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"ringcli/cli/render"
	"ringcli/cli/timing"
	"ringcli/ring/diagnose/links"
)

var nan = math.NaN()

// Link is what was measured of one directed pair of ranks.
type Link struct {
	Command  string `json:"command"`
	OK       bool   `json:"ok"`                // they have a connection
	From     int    `json:"from" col:"from|4"` // the rank that sends
	To       int    `json:"to" col:"to|4"`
	FromHost string `json:"from_host"`
	ToHost   string `json:"to_host"`
	// Latency is half a round trip of a small WRITE; 0: not measured.
	Latency LinkLatency `json:"latency_us" col:"P50=p50 us|8; P99=p99 us|8"`
	Write   float64     `json:"write_GBps" col:"GB/s|7"`        // of WRITEs while nothing else runs on the pair; with --shift, while all ranks send
	Both    float64     `json:"both_GBps" col:"both|7"`         // of the same while the other direction runs, too; 0: not measured
	Resent  *uint64     `json:"retransmissions" col:"resent|6"` // packets that the sender has sent again; null: its device does not count them
	Lost    *uint64     `json:"lost" col:"lost|5"`              // answers that a packet is missing; null, also with --shift: nobody counted them
	RNR     *uint64     `json:"rnr" col:"rnr|4"`                // answers that no receive is posted; null: as of lost
	Packets uint64      `json:"packets"`                        // that the sender has sent
	Device  string      `json:"device"`                         // of the sender, as in soft:lo
	Error   string      `json:"error,omitempty" col:"error|left"`
}

// LinkLatency are the percentiles of a pair's latency, in microseconds.
type LinkLatency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Adjust implements render.Adjuster.
func (l Link) Adjust(column string, c *render.Cell) {
	switch {
	case l.Error != "":
		c.Mood = render.Bad
	case c.Text == "0.000", c.Text == "-":
		c.Text, c.Mood = "-", render.Faint
	}
}

func (r *results) link(p links.Pair, x *figures, hosts []string) Link {
	return Link{
		Command: commandName, OK: !x.Dead, From: p.From, To: p.To, FromHost: hosts[p.From], ToHost: hosts[p.To],
		Latency: LinkLatency{timing.ThreePlaces(x.P50), timing.ThreePlaces(x.P99)}, Write: timing.SixPlaces(x.Alone), Both: timing.SixPlaces(x.Both),
		Resent: x.seen(resentUnseen, x.Resent), Lost: x.seen(lostUnseen, x.Lost), RNR: x.seen(rnrUnseen, x.RNR), Packets: uint64(x.Sent), Device: x.Device, Error: x.Why,
	}
}

// LinkFinding is a culprit: a sender, a receiver, a pair or a group.
type LinkFinding struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"` // never
	// Finding is what is wrong: dead, no connection; lossy, packets are missing; late, the
	// latency; slow, the bandwidth.
	Finding string `json:"finding"`
	// Culprit is a sender, a receiver, a node that is both, a pair or a group.
	Culprit   string   `json:"culprit"`
	From      []int    `json:"from"` // ranks that send; those of a receiver are all others, and not listed
	To        []int    `json:"to"`   // ranks that receive
	FromHosts []string `json:"from_hosts"`
	ToHosts   []string `json:"to_hosts"`
	Groups    []string `json:"groups,omitempty"` // from and to, where the list or --groups names them
	BothWays  bool     `json:"both_ways"`        // of a pair or of groups
	// Ratio is that of the bandwidth or latency to what it would be by all others; of lossy the
	// share of packets that are missing, of dead that of partners without a connection.
	Ratio      float64 `json:"ratio"`
	AgainRatio float64 `json:"again_ratio"` // the same of those that were measured again
	Partners   int     `json:"partners"`    // pairs of the culprit that show it
	Of         int     `json:"of"`          // pairs of the culprit
	Spreads    float64 `json:"spreads"`     // how many spreads of the noise it is off; 0 of counts
	Again      int     `json:"again"`       // pairs that were measured again, with partners that do well
	// Arrives is the longest path MTU of which packets arrive at To, or those from others at a rank,
	// where there is no connection: 4096, all do; 0, the shortest alone do; -1, none does; absent: not
	// probed. ArrivesBack is that of the other direction.
	Arrives     *int   `json:"arrives,omitempty"`
	ArrivesBack *int   `json:"arrives_back,omitempty"`
	Confidence  string `json:"confidence"` // certain or suspect
	Text        string `json:"text"`       // it in words
	Next        string `json:"next"`       // what to look at
}

// Lines implements render.Told.
func (f LinkFinding) Lines() []render.Line {
	mood := render.Fair
	if f.Finding == string(links.Dead) {
		mood = render.Bad
	}
	return []render.Line{{Mood: mood, Text: f.Text}, {Mood: render.Faint, Text: "  next: " + f.Next}}
}

// LinksVerdict is the last word of links.
type LinksVerdict struct {
	Command  string  `json:"command"`
	OK       bool    `json:"ok"`
	Mode     string  `json:"mode"` // ring, mesh or shift
	Ranks    int     `json:"ranks"`
	Pairs    int     `json:"pairs"`          // directed, that were measured
	Rounds   int     `json:"rounds"`         // of disjoint pairs, those of suspects included
	Again    int     `json:"again"`          // rounds of suspects
	Seconds  float64 `json:"seconds"`        // it took
	Write    float64 `json:"write_GBps"`     // the median of the pairs
	Both     float64 `json:"both_GBps"`      // the same while the other direction runs, too
	Latency  float64 `json:"latency_p50_us"` // the median of the pairs
	Findings int     `json:"findings"`
	Ruled    int     `json:"ruled_out"` // suspects that did well when they were measured again
	// Undecided are suspects of which it was not told whether the load of the hosts makes them slow.
	Undecided int `json:"undecided"`
	Blind     int `json:"loss_unseen"` // directed pairs of which nobody counted what was lost
}

// Lines implements render.Told.
func (v LinksVerdict) Lines() []render.Line {
	text := fmt.Sprintf("%d pairs of %d ranks in %s, %.1f s: median %s GB/s", v.Pairs, v.Ranks, count(v.Rounds, "round"), v.Seconds, render.Figure(v.Write))
	if v.Both > 0 {
		text += fmt.Sprintf(", %s both ways at once", render.Figure(v.Both))
	}
	if v.Latency > 0 {
		text += fmt.Sprintf(", %s us", render.Figure(v.Latency))
	}
	lines := []render.Line{{Mood: render.Plain, Text: text}}
	if v.Ruled > 0 {
		lines = append(lines, render.Line{Mood: render.Faint, Text: fmt.Sprintf("%s did well when measured again", count(v.Ruled, "suspect"))})
	}
	if v.Undecided > 0 {
		lines = append(lines, render.Line{Mood: render.Faint, Text: fmt.Sprintf("%s not named: the load of the hosts may be why", count(v.Undecided, "suspect"))})
	}
	if v.Blind > 0 {
		lines = append(lines, render.Line{Mood: render.Faint, Text: fmt.Sprintf("what was lost was not counted on %d of %d pairs: none of them is called lossy", v.Blind, v.Pairs)})
	}
	if v.Findings == 0 {
		return append(lines, render.Line{Mood: render.Good, Text: "OK: nobody stands out"})
	}
	return append(lines, render.Line{Mood: render.Bad, Text: count(v.Findings, "culprit")})
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// names are those of ranks for people: "rank 3 (node3)".
func names(ranks []int, hosts []string) string {
	const most = 8
	var list []string
	for i, r := range ranks {
		if i == most {
			list = append(list, fmt.Sprintf("%d more", len(ranks)-most))
			break
		}
		list = append(list, fmt.Sprintf("%d (%s)", r, hosts[r]))
	}
	if len(ranks) == 1 {
		return "rank " + list[0]
	}
	return "ranks " + strings.Join(list, ", ")
}
