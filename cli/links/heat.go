package links

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

	"ringcli/cli/about"
	"ringcli/cli/render"
	"ringcli/configs/chart"
	"ringcli/ring/diagnose/links"
)

const (
	// heatMost is how many ranks a heat map shows, at most; of more, several share a
	// place, which shows the worst of them.
	heatMost = 64
	// heatWide is up to how many there are blanks between the places, in 80 columns.
	heatWide = 32
)

// heatMap is a matrix as text: rows send, columns receive.
type heatMap struct {
	Title string
	Rows  []heatRow
}

type heatRow struct {
	Text string
	Mood render.Mood // by the worst place
}

// Bad is for the page.
func (r heatRow) Bad() bool { return r.Mood != render.Plain }

// heatOf shows a matrix, of which the higher or the lower figures are good. It is empty if there
// are none.
func heatOf(f *links.Figures, m links.Matrix, what, unit string, high bool) (h heatMap) {
	typical := m.Typical()
	if math.IsNaN(typical) {
		return h
	}
	share := "tenths of it"
	if !high {
		share = "tenths of the rate"
	}
	step := (f.N + heatMost - 1) / heatMost
	h.Title = fmt.Sprintf("%s by sender (rows) and receiver: . is 0.95 of the median (%s %s) or better, 9 to 0 are %s, x is no connection", what, render.Figure(typical), unit, share)
	if step > 1 {
		h.Title += fmt.Sprintf("; a place is the worst of %d by %d ranks", step, step)
	}
	for i := 0; i < f.N; i += step {
		var row strings.Builder
		worst := math.Inf(1)
		for j := 0; j < f.N; j += step {
			ratio := worstOf(f, m, typical, i, j, step, high)
			if f.N <= heatWide {
				row.WriteByte(' ')
			}
			row.WriteByte(shade(ratio))
			if !math.IsNaN(ratio) {
				worst = min(worst, ratio)
			}
		}
		mood := render.Plain
		switch {
		case worst < 0.5:
			mood = render.Bad
		case worst < links.SlowBelow:
			mood = render.Fair
		}
		h.Rows = append(h.Rows, heatRow{fmt.Sprintf("%4d %s", i, row.String()), mood})
	}
	return h
}

// heat draws the bandwidths in a terminal.
func (c *report) heat() error {
	f := c.results.figures
	h := heatOf(f, f.Alone, "bandwidth", "GB/s", true)
	if c.mode == modeRing || c.s.Out.Format() != render.Table || h.Rows == nil {
		return nil
	}
	if err := c.s.Out.Notes(render.Faint, h.Title); err != nil {
		return err
	}
	for _, row := range h.Rows {
		if err := c.s.Out.Aside(row.Mood, row.Text); err != nil {
			return err
		}
	}
	return nil
}

// worstOf is the least share of the typical figure in a square of pairs; -1 if one has no
// connection, NaN if none was measured.
func worstOf(f *links.Figures, m links.Matrix, typical float64, i0, j0, step int, high bool) float64 {
	worst := math.NaN()
	for i := i0; i < min(i0+step, f.N); i++ {
		for j := j0; j < min(j0+step, f.N); j++ {
			ratio := m.At(i, j) / typical
			if !high {
				ratio = 1 / ratio
			}
			if f.Dead[i*f.N+j] {
				ratio = -1
			}
			if !math.IsNaN(ratio) && !(ratio > worst) {
				worst = ratio
			}
		}
	}
	return worst
}

func shade(ratio float64) byte {
	switch {
	case math.IsNaN(ratio):
		return ' '
	case ratio < 0:
		return 'x'
	case ratio >= 0.95:
		return '.'
	}
	return '0' + byte(ratio*10)
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.Must(template.New("page").Parse(chart.Text)).Parse(pageText))

// page writes one HTML file that needs nothing else.
func (c *report) page(w io.Writer, found []LinkFinding, sum LinksVerdict) error {
	f := c.results.figures
	return pageTemplate.Execute(w, struct {
		Title, How string
		Maps       []heatMap
		Findings   []LinkFinding
		Sum        []render.Line
		Hosts      []string
	}{
		"links of " + c.s.Member.Where(),
		fmt.Sprintf("--%s, %s of a pair, WRITEs of %s, %d in flight; ringcli %s, %s", c.mode, c.how.span, render.Bytes(uint64(c.how.bytes)), c.how.outstanding, about.Version(), time.Now().Format("2006-01-02 15:04 MST")),
		[]heatMap{
			heatOf(f, f.Alone, "bandwidth", "GB/s", true), heatOf(f, f.Both, "bandwidth both ways at once", "GB/s", true), heatOf(f, f.Latency, "latency (p50)", "us", false),
		}, found, sum.Lines(), c.hosts,
	})
}
