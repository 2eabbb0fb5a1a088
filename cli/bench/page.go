package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"runtime"
	"strconv"
	"time"

	"ringcli/cli/about"
	"ringcli/cli/chart"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
)

// series is one curve of a page.
type series struct {
	Name   string
	Points []point
}

// point is one size of a series.
type point struct {
	Bytes uint64
	Time  float64 // us
	BW    float64 // GB/s
	Wrong *uint64
	Way   string // algorithm and protocol that were used; empty for p2p
}

func (s *series) add(m Measurement) {
	s.Points = append(s.Points, point{m.Bytes, m.Time.Mean, m.BusBW, m.Wrong, m.variant().String()})
}

// page is what a page shows.
type page struct {
	Title       string
	Time, BW    string // what the two figures are, with their units
	Environment []environment
	Series      []series
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
func (p page) write(w io.Writer) error {
	return pageTemplate.Execute(w, struct {
		page
		Charts []chart.Chart
	}{p, []chart.Chart{
		p.chart(p.BW, func(q point) float64 { return q.BW }),
		p.chart(p.Time, func(q point) float64 { return q.Time }),
	}})
}

// chart draws one figure of all series.
func (p page) chart(what string, figureOf func(point) float64) chart.Chart {
	var curves []chart.Curve
	for _, s := range p.Series {
		c := chart.Curve{Name: s.Name}
		for _, q := range s.Points {
			v := figureOf(q)
			c.Points = append(c.Points, chart.Point{Bytes: q.Bytes, Value: v, Text: render.Figure(v)})
		}
		curves = append(curves, c)
	}
	return chart.New(what+" by size", curves)
}

// openPage makes sure that rank 0's page can be written, before anything is measured
// for it, and fails on all ranks if it cannot. Without a path there is none.
func openPage(ctx context.Context, m *session.Member, path string) (f *render.File, err error) {
	if path != "" && m.Ring.Rank() == 0 {
		if err = render.CheckReplaceable("--html", path); err == nil {
			if f, err = render.CreateFile(path); err != nil {
				err = exit.Usagef("--html %s: %w: expected a file in a folder that can be written", path, err)
			}
		}
	}
	if err := m.Agree(ctx, err); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// writePage writes rank 0's page, and fails on all ranks if it cannot be written.
func writePage(ctx context.Context, m *session.Member, f *render.File, p page) error {
	var err error
	if f != nil {
		p.Environment = environmentOf(m)
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
	return []environment{
		{"device", e.Local.Device},
		{"ranks", strconv.Itoa(m.Ring.Size())},
		{"MTU", strconv.Itoa(mtu) + " bytes"},
		{"ringcli", about.Version()},
		{"Go", runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH},
		{"CPUs", strconv.Itoa(runtime.NumCPU())},
		{"date", time.Now().Format("2006-01-02 15:04 MST")},
	}
}
