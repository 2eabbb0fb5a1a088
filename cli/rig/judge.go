package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// grade is what came of a case.
type grade string

const (
	right  grade = "right"
	nobody grade = "nobody" // no accusation names the fault
	wrong  grade = "wrong"  // an accusation is wrong, perhaps beside a right one
	broken grade = "broken" // the rig itself failed
)

// accusation is what a rank says of a rank or of an edge, in JSON.
type accusation struct {
	By       int    // the rank that printed it
	Source   string // lateness, links, path, doctor, comparison, verdict or own: of the rank itself
	Kind     string
	Rank     int   // -1: it is of an edge
	From, To []int // of an edge, or of groups
	Both     bool
	Role     string // of a rank that is slow: sender, receiver, node, or rank, if that is not known
	Certain  bool
	Text     string
	after    time.Duration // of the fault
}

func (a *accusation) is(called *regexp.Regexp) bool {
	return called.MatchString(a.Kind) || called.MatchString(a.Text)
}

// ends are the ranks of an edge, or of groups.
func (a *accusation) ends() []int { return slices.Concat(a.From, a.To) }

// who is what is accused.
func (a *accusation) who() string {
	if a.Rank >= 0 {
		return fmt.Sprintf("rank %d", a.Rank)
	}
	return fmt.Sprintf("%v to %v, both ways: %t", a.From, a.To, a.Both)
}

func (a *accusation) String() string {
	return fmt.Sprintf("rank %d, %s: %s: %s: %.300s", a.By, a.Source, a.Kind, a.who(), a.Text)
}

// record is a line of JSON.
type record map[string]any

func (r record) text(field string) string { s, _ := r[field].(string); return s }
func (r record) yes(field string) bool    { b, _ := r[field].(bool); return b }

func (r record) number(field string) int {
	if v, is := r[field].(float64); is {
		return int(v)
	}
	return -1
}

func (r record) list(field string) (list []int) {
	all, _ := r[field].([]any)
	for _, each := range all {
		if v, is := each.(float64); is {
			list = append(list, int(v))
		}
	}
	return list
}

func (r record) records(field string) (list []record) {
	all, _ := r[field].([]any)
	for _, each := range all {
		if m, is := each.(map[string]any); is {
			list = append(list, m)
		}
	}
	return list
}

// own are the codes of failures that a rank reports of itself.
var own = []string{"port-taken", "address-foreign", "no-device", "no-gid", "port-down", "memlock", "no-memory", "descriptors", "threads", "permission", "configuration"}

// accusations reads a line of a rank.
func accusations(by int, text string) (list []*accusation) {
	var r record
	if json.Unmarshal([]byte(text), &r) != nil {
		return nil
	}
	add := func(a accusation) {
		a.By = by
		list = append(list, &a)
	}
	edge := func(from, to int) (a accusation) { return accusation{Rank: -1, From: []int{from}, To: []int{to}} }
	for _, l := range r.records("late") {
		a := accusation{Rank: l.number("rank")}
		if strings.HasSuffix(l.text("kind"), "edge") {
			a = edge(l.number("rank"), l.number("to"))
		}
		_, a.Role, _ = strings.Cut(l.text("kind"), "slow-")
		a.Source, a.Kind, a.Text = "lateness", l.text("kind"), l.text("text")
		add(a)
	}
	switch {
	case r.text("finding") != "": // of links
		a := accusation{Rank: -1, From: r.list("from"), To: r.list("to"), Both: r.yes("both_ways")}
		if a.Role = r.text("culprit"); a.Role != "pair" && a.Role != "group" {
			a.Rank = a.ends()[0]
		}
		a.Source, a.Kind, a.Certain, a.Text = "links", r.text("finding"), r.text("confidence") == "certain", r.text("text")
		add(a)
	case r.text("command") == "path" && r.text("verdict") == "FAIL":
		a := edge(r.number("from"), r.number("to"))
		a.Source, a.Kind, a.Text = "path", r.text("check"), r.text("value")+": "+r.text("fix")
		add(a)
	case r.text("command") == "doctor" && r.text("verdict") == "FAIL":
		for _, rank := range r.list("ranks") {
			add(accusation{Source: "doctor", Kind: r.text("check"), Rank: rank, Certain: true, Text: r.text("of") + ": " + r.text("value") + ": " + r.text("fix")})
		}
	}
	// Of a comparison of both ends. Of several findings the first is the likeliest, and others
	// may be its consequences.
	if f := append(r.records("findings"), r)[0]; f.text("severity") == "fault" {
		add(accusation{Source: "comparison", Kind: f.text("attribute"), Rank: f.number("rank"), Text: f.text("text")})
	}
	if v, is := r["verdict"].(map[string]any); is {
		list = append(list, verdict(by, v)...)
	} else if slices.Contains(own, r.text("code")) && r.text("command") != "doctor" {
		add(accusation{Source: "own", Kind: r.text("code"), Rank: by, Certain: true, Text: r.text("error")})
	}
	return list
}

// verdict reads that of a ring's failure. A rank that left, or canceled an operation, is not
// at fault.
func verdict(by int, v record) []*accusation {
	a := accusation{By: by, Source: "verdict", Kind: v.text("kind") + " " + v.text("code"), Rank: v.number("rank"), Certain: v.text("confidence") == "certain", Text: v.text("text")}
	e, ofEdge := v["edge"].(map[string]any)
	switch {
	case slices.Contains([]string{"left", "canceled", "regrouped"}, v.text("kind")):
		return nil
	case a.Rank < 0 && ofEdge:
		a.From, a.To, a.Both = []int{record(e).number("from")}, []int{record(e).number("to")}, record(e).yes("both")
	case a.Rank < 0:
		return nil
	}
	return []*accusation{&a}
}

// accuse reads what the ranks have printed.
func (o *outcome) accuse(r *ring) {
	for i, rank := range r.world {
		rank.mu.Lock()
		for _, l := range rank.lines {
			if !r.quit.IsZero() && l.at.After(r.quit) {
				break // it is about what the rig did
			}
			for _, a := range accusations(i, l.text) {
				a.after = l.at.Sub(r.struck)
				o.accused = append(o.accused, a)
			}
		}
		rank.mu.Unlock()
	}
}

// judge grades a case whose ranks have ended.
func (o *outcome) judge(r *ring) {
	k := o.kind()
	if o.Grade = nobody; k.judge == nil {
		o.Grade = right
	}
	o.accuse(r)
	misnamed, said := false, map[string]bool{}
	for _, a := range o.accused {
		var mark string
		switch o.opinion(a) {
		case names:
			if seconds := a.after.Seconds(); o.Seconds == 0 || seconds < o.Seconds {
				o.Seconds = seconds
			}
		case harmless:
			mark = "harmless: "
		case misleads:
			mark, misnamed = "wrong: ", true
		}
		if key := mark + a.Source + a.Kind + a.who(); !said[key] {
			said[key] = true
			o.Said = append(o.Said, mark+a.String())
		}
	}
	switch {
	case misnamed:
		o.Grade = wrong
	case o.Seconds > 0:
		o.Grade = right
	}
	unexpected := map[int][]int{} // ranks by exit code
	for i, code := range o.Codes {
		dead := i == o.Rank && (o.Kind == "kill" || o.Kind == "stop")
		if r.runs(i) && !dead && !slices.Contains(k.codes, code) {
			unexpected[code] = append(unexpected[code], i)
		}
	}
	for code, all := range unexpected {
		o.bad("exit code %d of ranks %v: expected one of %v: %s", code, all, k.codes, last(r.world[all[0]].err.String()))
	}
	o.readText(r)
	o.agree(r)
}

func (o *outcome) opinion(a *accusation) opinion {
	if judge := o.kind().judge; judge != nil {
		return judge(&o.plan, a)
	}
	return misleads
}

func (o *outcome) bad(format string, args ...any) {
	o.Bad = append(o.Bad, fmt.Sprintf(format, args...))
}

// readText checks the first line of text about a failure: it names who or what JSON accuses.
func (o *outcome) readText(r *ring) {
	i := r.textual()
	var lines []string
	for _, l := range r.world[i].lines {
		lines = append(lines, l.text)
	}
	lines = append(lines, strings.Split(r.world[i].err.String(), "\n")...)
	var accused *accusation
	for _, a := range o.accused {
		if a.By != i && a.Source != "own" && o.opinion(a) == names {
			accused = a
		}
	}
	figure := regexp.MustCompile(`^# (cut short after|worst edge,) `) // of a row
	said := regexp.MustCompile(`^ringcli: |^# .*\brank \d|FAIL|^[a-z ]*rank \d+.*\b(slow|loses|lossy|dead)`)
	for _, text := range lines {
		if said.MatchString(text) && !figure.MatchString(text) {
			o.First = text
			break
		}
	}
	if accused == nil || len(accused.ends()) > 2 { // groups have names of their own
		return
	}
	named := []int{accused.Rank}
	if accused.Rank < 0 {
		named = accused.ends()
	}
	for _, rank := range named {
		if !regexp.MustCompile(fmt.Sprintf(`\b(ranks? |, | and |to )%d\b|\b%[1]d ->|-> %[1]d\b|%s\b`, rank, regexp.QuoteMeta(address(rank)))).MatchString(o.First) {
			o.bad("the first line of text names no rank %d: %q", rank, o.First)
			return
		}
	}
}

// culprits are the ranks and edges that a rank's JSON names, but for who kept an operation
// waiting, which is no failure.
type culprits struct {
	ranks, ends, hosts map[int]bool // hosts: ranks that --bad-hosts must have
	edges              [][2]int
}

func (o *outcome) culprits(i int) culprits {
	n := culprits{ranks: map[int]bool{}, ends: map[int]bool{}, hosts: map[int]bool{}}
	for _, a := range o.accused {
		switch {
		// The rank that prints text is told what the others are told.
		case a.By != i && (i != o.textual() || a.Source == "own"), a.Source == "lateness" || a.Source == "comparison":
		case a.Rank >= 0:
			n.ranks[a.Rank] = true
			if a.Certain && (a.Source != "verdict" || regexp.MustCompile(`lost|silent|stopped|isolated|edge|absent`).MatchString(a.Kind)) && a.Source != "own" {
				n.hosts[a.Rank] = true
			}
		default:
			if e := [2]int{a.From[0], a.To[0]}; a.Source == "verdict" && !slices.Contains(n.edges, e) {
				n.edges = append(n.edges, e)
			}
		}
	}
	for _, a := range o.accused { // the other end of an edge whose fault is an accused rank is healthy
		explained := slices.ContainsFunc(a.ends(), func(end int) bool { return n.ranks[end] })
		for _, end := range a.ends() {
			n.ends[end] = n.ends[end] || a.Rank < 0 && a.Source != "lateness" && !explained
		}
	}
	return n
}

// agree checks that the files of the ranks say what their JSON says.
func (o *outcome) agree(r *ring) {
	found := map[string][]int{} // by which ranks
	for i := range r.world {
		if !r.runs(i) || i == o.Rank && o.Kind == "kill" || o.Codes[i] == 3 { // bad usage: nothing was run
			continue
		}
		for _, text := range o.disagreements(i, r.scratch) {
			found[text] = append(found[text], i)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(found)) {
		o.bad("files of ranks %v: %s", found[text], text)
	}
}

func (o *outcome) disagreements(i int, scratch string) (list []string) {
	bad := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	read := func(before, after string) string {
		text, err := os.ReadFile(filepath.Join(scratch, fmt.Sprint(before, i, after)))
		if err != nil {
			bad("%s%%r%s is not there", before, after)
		}
		return string(text)
	}
	metrics, failed := read("rig-", ".prom"), failures(read("junit-", ".xml"))
	goodHosts, badHosts := strings.Fields(read("good-", "")), strings.Fields(read("bad-", ""))
	if len(list) > 0 {
		return list
	}
	if code := sample(metrics, "ringcli_run_exit_code"); code != strconv.Itoa(o.Codes[i]) {
		bad("exit code %d, but %s in metrics", o.Codes[i], code)
	}
	n := o.culprits(i)
	name := func(k int) string { // the same text whichever rank
		if k == i {
			return "the reporting rank"
		}
		return fmt.Sprintf("rank %d", k)
	}
	for k := range o.Codes {
		inMetrics := sample(metrics, "ringcli_rank_success", fmt.Sprintf(`of_rank="%d"`, k)) == "0"
		inJUnit := slices.Contains(failed, fmt.Sprintf("rank %d", k))
		if inMetrics && !n.ranks[k] {
			bad("metrics accuse %s, JSON does not", name(k))
		}
		if inJUnit && !n.ranks[k] {
			bad("JUnit accuses %s, JSON does not", name(k))
		}
		if inJUnit != inMetrics {
			bad("%s has failed in JUnit: %t, in metrics: %t", name(k), inJUnit, inMetrics)
		}
		isBad, isGood := slices.Contains(badHosts, address(k)), slices.Contains(goodHosts, address(k))
		switch {
		case isBad && !n.ranks[k]:
			bad("--bad-hosts has rank %d, which JSON does not accuse", k)
		case n.hosts[k] && !isBad:
			bad("--bad-hosts lacks rank %d, which JSON accuses", k)
		case isGood && (n.ranks[k] || n.ends[k]):
			bad("--good-hosts has rank %d, which JSON accuses", k)
		}
	}
	for _, e := range n.edges {
		if sample(metrics, "ringcli_edge_success", fmt.Sprintf(`from="%d"`, e[0]), fmt.Sprintf(`to="%d"`, e[1])) != "0" {
			bad("metrics lack the edge from rank %d to rank %d, which JSON accuses", e[0], e[1])
		}
		if !slices.Contains(failed, fmt.Sprintf("rank %d to rank %d", e[0], e[1])) {
			bad("JUnit lacks the edge from rank %d to rank %d, which JSON accuses", e[0], e[1])
		}
	}
	return list
}

// sample is the value of a metric that has the labels.
func sample(metrics, name string, labels ...string) string {
	for text := range strings.Lines(metrics) {
		lacks := func(label string) bool { return !strings.Contains(text, label) }
		if strings.HasPrefix(text, name+"{") && !slices.ContainsFunc(labels, lacks) {
			return text[strings.LastIndexByte(text, ' ')+1 : len(text)-1]
		}
	}
	return ""
}

// failures are the names of the cases of a JUnit report that have failed.
func failures(report string) (list []string) {
	var all struct {
		Suites []struct {
			Cases []struct {
				Name    string    `xml:"name,attr"`
				Failure *struct{} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	_ = xml.Unmarshal([]byte(report), &all)
	for _, s := range all.Suites {
		for _, c := range s.Cases {
			if c.Failure != nil {
				list = append(list, c.Name)
			}
		}
	}
	return list
}

// last is the last line of a text.
func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
