package links

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/png"
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
	// heatMost is how many ranks a heat map has in a terminal, at most; of more, several share a
	// place, which shows the worst of them.
	heatMost = 64
	// heatWide is up to how many there are blanks between the places, in 80 columns.
	heatWide = 32
)

// heat draws the bandwidths: rows send, columns receive.
func (c *report) heat(v *links.Verdict) error {
	f := c.results.figures
	if c.mode == modeRing || c.s.Out.Format() != render.Table || math.IsNaN(v.Bandwidth) {
		return nil
	}
	step := (f.N + heatMost - 1) / heatMost
	places := (f.N + step - 1) / step
	title := fmt.Sprintf("bandwidth by sender (rows) and receiver: . is 0.95 of the median (%s GB/s) or more, 9 to 0 are tenths of it, x is no connection", render.Figure(v.Bandwidth))
	if step > 1 {
		title += fmt.Sprintf("; a place is the worst of %d by %d ranks", step, step)
	}
	if err := c.s.Out.Notes(render.Faint, title); err != nil {
		return err
	}
	for i := range places {
		var row strings.Builder
		worst := math.Inf(1)
		for j := range places {
			ratio := worstOf(f, i*step, j*step, step) / v.Bandwidth
			if places <= heatWide {
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
		case worst < links.Defaults.Slow:
			mood = render.Fair
		}
		if err := c.s.Out.Aside(mood, fmt.Sprintf("%4d %s", i*step, row.String())); err != nil {
			return err
		}
	}
	return nil
}

// worstOf is the least figure of a square of pairs; -1 if one has no connection.
func worstOf(f *links.Figures, i0, j0, step int) float64 {
	worst := math.NaN()
	for i := i0; i < min(i0+step, f.N); i++ {
		for j := j0; j < min(j0+step, f.N); j++ {
			v := f.Alone.At(i, j)
			if f.Dead[i*f.N+j] {
				v = -1
			}
			if !math.IsNaN(v) && !(v > worst) {
				worst = v
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

var pageTemplate = template.Must(template.Must(template.New("page").Funcs(template.FuncMap{"figure": render.Figure}).Parse(chart.Text)).Parse(pageText))

// heatMap is one of a page: an image with a pixel for each directed pair.
type heatMap struct {
	Title, Best, Worst string
	Image              template.URL
}

// page writes one HTML file that needs nothing else.
func (c *report) page(w io.Writer, found []LinkFinding, sum LinksVerdict) error {
	f := c.results.figures
	var maps []heatMap
	for _, m := range []struct {
		title, unit string
		of          links.Matrix
		high        bool // is good
	}{
		{"bandwidth", "GB/s", f.Alone, true}, {"bandwidth both ways at once", "GB/s", f.Both, true}, {"latency (p50)", "us", f.Latency, false},
	} {
		typical := m.of.Typical()
		if math.IsNaN(typical) {
			continue
		}
		image, err := draw(f, m.of, typical, m.high)
		if err != nil {
			return err
		}
		worst := fmt.Sprintf("half of it or less: %s %s", render.Figure(typical/2), m.unit)
		if !m.high {
			worst = fmt.Sprintf("twice as much or more: %s %s", render.Figure(typical*2), m.unit)
		}
		maps = append(maps, heatMap{m.title, fmt.Sprintf("the median: %s %s", render.Figure(typical), m.unit), worst, image})
	}
	return pageTemplate.Execute(w, struct {
		Title    string
		Maps     []heatMap
		Findings []LinkFinding
		Sum      LinksVerdict
		Hosts    []string
		How      [][2]string
	}{
		"links of " + c.s.Member.Where(), maps, found, sum, c.hosts,
		[][2]string{
			{"mode", c.mode}, {"time of a pair", c.how.span.String()}, {"WRITEs", fmt.Sprintf("%s, %d in flight", render.Bytes(uint64(c.how.bytes)), c.how.outstanding)},
			{"ringcli", about.Version()}, {"date", time.Now().Format("2006-01-02 15:04 MST")},
		},
	})
}

// draw makes the image: green at the median and better, through yellow to red at half of it,
// or at twice the latency; black is no connection, and what was not measured is clear.
func draw(f *links.Figures, m links.Matrix, typical float64, high bool) (template.URL, error) {
	img := image.NewNRGBA(image.Rect(0, 0, f.N, f.N))
	for i := range f.N {
		for j := range f.N {
			v := m.At(i, j)
			switch {
			case f.Dead[i*f.N+j]:
				img.Set(j, i, color.Black)
				continue
			case math.IsNaN(v):
				continue
			}
			ratio := v / typical
			if !high {
				ratio = 1 / ratio
			}
			bad := min(max(2*(1-ratio), 0), 1)
			img.Set(j, i, color.NRGBA{R: uint8(40 + 200*min(1, 2*bad)), G: uint8(170 * min(1, 2*(1-bad))), B: 60, A: 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return "", err
	}
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())), nil
}
