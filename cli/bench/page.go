package bench

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
	"ringcli/cli/chart"
	"ringcli/cli/command"
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
	Iters int
	Time  float64 // us
	BW    float64 // GB/s
	Wrong *uint64
	Way   string // algorithm and protocol that were used; empty for p2p
}

func (s *series) add(m Measurement) {
	s.Points = append(s.Points, point{m.Bytes, m.Iters, m.Time.Mean, m.BusBW, m.Wrong, m.variant().String()})
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
	return chart.New(what+" by size", what, curves)
}

// pageFile is where a page goes to, and what can be said beforehand of how it comes about.
type pageFile struct {
	*render.File // nil is none here
	how          []environment
}

// openPage makes sure that rank 0's page can be written, before anything is measured
// for it, and fails on all ranks if it cannot. Without a path there is none.
func openPage(ctx context.Context, m *session.Member, call command.Call) (f pageFile, err error) {
	path := command.TextOf(call.Flags, "html")
	if path != "" && m.Ring.Rank() == 0 {
		if err = render.CheckReplaceable("--html", path); err == nil {
			if f.File, err = render.CreateFile(path); err != nil {
				err = exit.Usagef("--html %s: %w: expected a file in a folder that can be written", path, err)
			}
		}
	}
	if err := m.Agree(ctx, err); err != nil {
		return pageFile{}, errors.Join(err, f.Close())
	}
	if path == "" {
		return f, nil
	}
	hosts, err := hostsOf(ctx, m)
	f.how = append([]environment{{"command", commandOf(call)}}, hosts...)
	return f, err
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

// iterations says how often was measured.
func (p page) iterations() string {
	least, most := 0, 0
	for _, s := range p.Series {
		for _, q := range s.Points {
			if least == 0 || q.Iters < least {
				least = q.Iters
			}
			most = max(most, q.Iters)
		}
	}
	if least == most {
		return strconv.Itoa(least) + " of each size"
	}
	return fmt.Sprintf("%d to %d of a size", least, most)
}

// writePage writes rank 0's page, and fails on all ranks if it cannot be written.
func writePage(ctx context.Context, m *session.Member, f pageFile, p page) error {
	var err error
	if f.File != nil {
		p.Environment = append(f.how, environment{"iterations", p.iterations()})
		p.Environment = append(p.Environment, environmentOf(m)...)
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
		{"date", time.Now().Format("2006-01-02 15:04 MST")},
	}
}
