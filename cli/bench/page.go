package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
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
	s.Points = append(s.Points, point{m.Bytes, m.Time.Mean, m.BusBW, m.Wrong, m.Algorithm + "/" + m.Protocol})
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

// Sizes are the rows of the page's table: those that every series has.
func (p page) Sizes() []uint64 {
	var sizes []uint64
	for i, q := range p.Series[0].Points {
		for _, s := range p.Series {
			if i >= len(s.Points) {
				return sizes
			}
		}
		sizes = append(sizes, q.Bytes)
	}
	return sizes
}

// pageFile is a page that is going to be written. It takes its place under its
// name when it is whole, and not before. A nil pageFile does nothing.
type pageFile struct {
	path string
	temp *os.File // in the same folder; nil once it is in place
}

// createPage makes sure that the page can be written, before anything is measured
// for it.
func createPage(path string) (*pageFile, error) {
	if err := render.CheckReplaceable("--html", path); err != nil {
		return nil, err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, exit.Usagef("--html %s: %w: expected a file in a folder that can be written", path, err)
	}
	return &pageFile{path, temp}, nil
}

// put writes the page and gives it its name.
func (f *pageFile) put(p page) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the page %s: %w", f.path, err)
		}
	}()
	if err := p.write(f.temp); err != nil {
		return err
	}
	// A temporary file is its owner's alone; a page is for others to read.
	if err := f.temp.Chmod(0o644); err != nil {
		return err
	}
	name := f.temp.Name()
	if err := f.temp.Close(); err != nil {
		return err
	}
	if err := os.Rename(name, f.path); err != nil {
		return err
	}
	f.temp = nil
	return nil
}

// Close removes what did not become a page.
func (f *pageFile) Close() error {
	if f == nil || f.temp == nil {
		return nil
	}
	// It may be closed already.
	_ = f.temp.Close()
	return os.Remove(f.temp.Name())
}

// openPage makes rank 0's page, and fails on all ranks if it cannot be made.
// Without a path there is none.
func openPage(ctx context.Context, m *session.Member, path string) (f *pageFile, err error) {
	if path != "" && m.Ring.Rank() == 0 {
		f, err = createPage(path)
	}
	if err := m.Agree(ctx, err); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// writePage writes rank 0's page, and fails on all ranks if it cannot be written.
func writePage(ctx context.Context, m *session.Member, f *pageFile, title string, list []series) error {
	return putPage(ctx, m, f, page{Title: title, Time: "time (us)", BW: "busbw (GB/s)", Series: list})
}

// writeP2PPage is writePage for a link.
func writeP2PPage(ctx context.Context, m *session.Member, f *pageFile, title string, list []series) error {
	return putPage(ctx, m, f, page{Title: title, Time: "half a round trip, of READ all (us)", BW: "bandwidth (GB/s)", Series: list})
}

func putPage(ctx context.Context, m *session.Member, f *pageFile, p page) error {
	var err error
	if f != nil {
		p.Environment = environmentOf(m)
		err = f.put(p)
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
