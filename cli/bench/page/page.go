// Package page writes the curves of a bench as a page, one HTML file.
package page

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/about"
	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs/chart"
)

// Series is one curve of a page.
type Series struct {
	Name   string
	Points []Point
}

// Point is one size of a Series.
type Point struct {
	Bytes uint64
	Time  float64 // us
	BW    float64 // GB/s
	Wrong *uint64
	Way   string // algorithm and protocol that were used; empty for p2p
}

// Page is what a page shows.
type Page struct {
	Title       string
	Time, BW    string // what the two figures are, with their units
	Environment []environment
	Series      []Series
}

// environment is a line of where and how it was measured.
type environment struct{ Name, Value string }

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.Must(template.New("page").Funcs(template.FuncMap{
	"figure": render.Figure,
	"wrong":  func(w *uint64) string { return render.Wrong(w).Text },
	"isBad":  func(w *uint64) bool { return w != nil && *w > 0 },
}).Parse(chart.Text)).Parse(pageText))

// write writes the page as one HTML file that needs nothing else.
func (p Page) write(w io.Writer) error {
	return pageTemplate.Execute(w, struct {
		Page
		Charts []chart.Chart
	}{p, []chart.Chart{
		p.chart(p.BW, func(q Point) float64 { return q.BW }),
		p.chart(p.Time, func(q Point) float64 { return q.Time }),
	}})
}

// chart draws one figure of all series.
func (p Page) chart(what string, figureOf func(Point) float64) chart.Chart {
	var curves []chart.Curve
	for _, s := range p.Series {
		c := chart.Curve{Name: s.Name}
		for _, q := range s.Points {
			v := figureOf(q)
			c.Points = append(c.Points, chart.Point{Bytes: q.Bytes, Value: v, Text: render.Figure(v)})
		}
		curves = append(curves, c)
	}
	return chart.New(what+" by size", what, curves)
}

// File is where a page goes to, and what can be said beforehand of how it comes about.
type File struct {
	*render.File // nil is none here
	how          []environment
}

// Open makes sure that rank 0's page can be written, before anything is measured
// for it, and fails on all ranks if it cannot. Without a path there is none.
func Open(ctx context.Context, m *session.Member, call command.Call) (f File, err error) {
	path := command.TextOf(call.Flags, "html")
	if path != "" && m.Ring.Rank() == 0 {
		if err = render.CheckReplaceable("--html", path); err == nil {
			if f.File, err = render.CreateFile(path); err != nil {
				err = exit.Usagef("--html %s: %w: expected a file in a folder that can be written", path, err)
			}
		}
	}
	if err := m.Agree(ctx, err); err != nil {
		return File{}, errors.Join(err, f.Close())
	}
	if path == "" {
		return f, nil
	}
	f.how = []environment{{"command", commandOf(call)}}
	return f, nil
}

// commandOf is what was typed, as far as it says how to measure; which rank of which ring
// it is for stands elsewhere.
func commandOf(call command.Call) string {
	words := append([]string{"ringcli", call.Name}, call.Args...)
	call.Flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"html", "index", "list"}, f.Name) && !f.Hidden {
			words = append(words, "--"+f.Name+"="+f.Value.String())
		}
	})
	return strings.Join(words, " ")
}

// Write writes rank 0's page, and fails on all ranks if it cannot be written.
func (f File) Write(ctx context.Context, m *session.Member, p Page) error {
	var err error
	if f.File != nil {
		p.Environment = append(f.how, environmentOf(m)...)
		if err = f.Put(p.write); err != nil {
			err = fmt.Errorf("write the page %s: %w", f.Path, err)
		}
	}
	return m.Agree(ctx, err)
}

func environmentOf(m *session.Member) []environment {
	e := m.Ring.Right()
	mtu := e.MTU
	if mtu == 0 { // a ring of one
		mtu = e.Local.MTU
	}
	var hosts []string
	for _, n := range m.Ring.Nodes() {
		hosts = append(hosts, n.Host)
	}
	return []environment{
		{"device", e.Local.Device},
		{"ranks", strconv.Itoa(m.Ring.Size())},
		{"hosts", strings.Join(slices.Compact(hosts), ", ")},
		{"MTU", strconv.Itoa(mtu) + " bytes"},
		{"ringcli", about.Version()},
		{"Go", runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH},
		{"date", time.Now().Format("2006-01-02 15:04 MST")},
	}
}
