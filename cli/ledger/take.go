package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"ringcli/ring/diagnose/links"
)

// take keeps an entry.
func (l *Ledger) take(e entry) {
	r := e.Record
	switch e.Kind {
	case "Line":
		took, _ := r.number("duration")
		l.keep(found{class: "command", name: r.text("text"), ok: r["ok"] == true, why: r.text("error"), code: r.text("code"), detail: r.text("error"), seconds: took})
	case "Place":
		l.takePlace(r)
	case failure:
		l.takeFailure(r)
	default:
		l.takeRecord(e.Kind, r)
	}
}

func (l *Ledger) takePlace(r record) {
	rank, _ := r.number("rank")
	ranks, _ := r.number("ranks")
	if list := asList(r["hosts"]); len(list) > 0 {
		l.hosts.joined(list)
	}
	l.rankOf(int(rank))
	for each := range int(ranks) {
		l.rankOf(each)
	}
}

// takeFailure blames whom the verdict names: a rank, an edge, or nobody. Without a verdict the
// rank that has failed has a reason of its own.
func (l *Ledger) takeFailure(r record) {
	detail := r.indented()
	if _, again := r.number("retry_s"); again { // what came before does not count
		l.retries++
		l.cases, l.failed, l.blames, l.samples = nil, 0, nil, map[string]sample{}
		l.ranks, l.failures, l.shared = map[int]*found{}, nil, nil
		l.hosts.forget()
		return
	}
	l.failures = append(l.failures, r.text("code"))
	at, named := r.number("rank")
	if told, is := r["verdict"].(map[string]any); is {
		v := record(told)
		l.hosts.verdict(v)
		for rank := range l.hosts.ofRank {
			l.rankOf(rank)
		}
		if at, named = v.number("rank"); at < 0 {
			named = false
		}
		if from, to, is := v.edge(); is && !named {
			l.takeEdge(from, to, r, detail)
			return
		}
	}
	if !named {
		l.shared = &found{class: "run", name: r.text("command"), why: r.text("error"), code: r.text("code"), detail: detail}
		return
	}
	if c := l.rankOf(int(at)); c.ok || c.assumed {
		c.fail(r.text("error"), r.text("code"), detail)
	}
}

// takeEdge fails an edge, of which each rank of a parent's tells.
func (l *Ledger) takeEdge(from, to int, r record, detail string) {
	c := found{class: "edge", name: fmt.Sprintf("rank %d to rank %d", from, to), why: r.text("error"), code: r.text("code"), detail: detail}
	if slices.ContainsFunc(l.cases, func(o found) bool { return o.class == c.class && o.name == c.name && o.section == l.section }) {
		return
	}
	l.keep(c)
	l.sample(sample{"edge_success", []label{{"from", strconv.Itoa(from)}, {"to", strconv.Itoa(to)}}, 0})
}

// sample keeps a sample of the present section, if there is room.
func (l *Ledger) sample(s sample) {
	if l.section != "" {
		s.labels = append(slices.Clone(s.labels), label{"over", l.section})
	}
	if series := s.series(); len(l.samples) < most || l.samples[series].metric != "" {
		l.samples[series] = s
	}
}

func (l *Ledger) takeRecord(name string, r record) {
	k, is := kinds[name]
	if !is {
		return
	}
	for _, s := range k.samplesOf(r) {
		l.sample(s)
	}
	if name == "Preflight" && r.text("verdict") == "FAIL" {
		l.hosts.blame(true, r.ranks("ranks")...)
	}
	if name == "LinkFinding" {
		l.hosts.finding(r)
		about := links.Finding{Place: links.Place(r.text("culprit")), From: r.ranks("from"), To: r.ranks("to"), BothWays: r["both_ways"] == true}
		l.blames = append(l.blames, blame{about, r.text("text"), r.text("finding")})
	}
	for _, each := range slices.Clone(asList(r["per_rank"])) {
		if own, is := each.(map[string]any); is {
			rank, _ := record(own).number("rank")
			if wrong, is := record(own).number("wrong"); is && wrong > 0 {
				l.hosts.blame(false, int(rank)) // data goes by others to it
				l.rankOf(int(rank)).fail(fmt.Sprintf("%s of %s bytes: %.0f wrong elements", r.text("command"), r.text("bytes"), wrong), "wrong-data", r.indented())
			}
		}
	}
	if k.name == "" {
		return
	}
	c := found{class: k.class, name: k.nameOf(r), ok: r["ok"] == true}
	if c.class == "" {
		c.class = r.text("command")
	}
	if c.seconds, _ = r.number("seconds"); r.text("verdict") == "SKIP" {
		c.skipped, c.why = true, k.whyOf(r)
	}
	if !c.ok && !c.skipped {
		c.why, c.code, c.detail = k.whyOf(r), k.codeOf(r), r.indented()
	}
	if name == "Link" {
		c.from, _ = r.number("from")
		c.to, _ = r.number("to")
	}
	l.keep(c)
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

// indented is a record for a person.
func (r record) indented() string {
	text, _ := json.MarshalIndent(r, "", "  ") // it came from JSON
	return string(text)
}

// keep keeps a case, if there is room.
func (l *Ledger) keep(c found) {
	c.section = l.section
	switch {
	case len(l.cases) < most, !c.ok && !c.skipped && l.failed < most:
		l.cases = append(l.cases, c)
	default:
		l.left++
	}
	if !c.ok && !c.skipped {
		l.failed++
	}
}
