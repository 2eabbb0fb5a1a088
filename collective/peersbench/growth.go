//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"

	"ringcli/configs"
)

// Growth is how the time of a contender, or of the best of several, grows with the ranks.
type Growth struct {
	Operation string    `json:"operation"`
	Bytes     uint64    `json:"bytes"`
	Contender string    `json:"contender"` // or what the best of them is called
	Ranks     []int     `json:"ranks"`
	Times     []float64 `json:"median_us"` // 0 where there is none
	// Exponent is the power of the ranks with which the time grows: least squares of the
	// logarithms.
	Exponent float64 `json:"exponent"`
}

// Who stands for the best of its role in each cell.
const (
	bestPeer = "best peer"
	bestTCP  = "best of MPI over TCP"
)

// growthSizes are those whose growth is of interest: a message that is nothing but latency and
// one that is chunks, or what of the measured ones comes next to them.
func (r *Results) growthSizes() []uint64 {
	const short, long = 8, 1 << 20
	var list []uint64
	for _, want := range []uint64{short, long} {
		best := uint64(0)
		for _, c := range r.cells {
			if c.bytes > 0 && (best == 0 || distance(c.bytes, want) < distance(best, want)) {
				best = c.bytes
			}
		}
		if best > 0 && !slices.Contains(list, best) {
			list = append(list, best)
		}
	}
	return list
}

// distance is in octaves.
func distance(a, b uint64) float64 { return math.Abs(math.Log2(float64(a)) - math.Log2(float64(b))) }

// growths are all that are known on at least two numbers of ranks.
func (r *Results) growths() []Growth {
	numbers := r.options.rankNumbers
	var list []Growth
	for _, op := range r.options.operations {
		sizes := r.growthSizes()
		if !op.OnVectors() {
			sizes = []uint64{0}
		}
		for _, size := range sizes {
			of := func(name string, pick func(c *cellResults) string) {
				g := Growth{Operation: op.String(), Bytes: size, Contender: name, Ranks: numbers, Times: make([]float64, len(numbers))}
				var x, y []float64
				for _, c := range r.cells {
					if c.op != op || c.bytes != size {
						continue
					}
					if m := c.of[pick(c)].median(); m > 0 {
						g.Times[slices.Index(numbers, c.ranks)] = m
						x, y = append(x, math.Log(float64(c.ranks))), append(y, math.Log(m))
					}
				}
				if len(x) > 1 {
					g.Exponent = slope(x, y)
					list = append(list, g)
				}
			}
			for _, who := range contenders {
				if who.role == roleOurs || who.role == roleSoft {
					of(who.name, func(*cellResults) string { return who.name })
				}
			}
			of(bestPeer, func(c *cellResults) string { return c.best(rolePeer) })
			of(bestTCP, func(c *cellResults) string { return c.best(roleTCP) })
		}
	}
	return list
}

// slope is that of the line of least squares through points.
func slope(x, y []float64) float64 {
	var sx, sy, xx, xy float64
	for i := range x {
		sx, sy, xx, xy = sx+x[i], sy+y[i], xx+x[i]*x[i], xy+x[i]*y[i]
	}
	n := float64(len(x))
	return (n*xy - sx*sy) / (n*xx - sx*sx)
}

// growthTable is a row for each growth; empty with one number of ranks.
func (r *Results) growthTable() string {
	list := r.growths()
	if len(list) == 0 {
		return ""
	}
	t := newTable()
	head := []string{"operation", "size", "contender"}
	for _, n := range list[0].Ranks {
		head = append(head, fmt.Sprintf("%d ranks", n))
	}
	t.row(append(head, "exponent")...)
	for _, g := range list {
		row := []string{g.Operation, configs.FormatSize(g.Bytes), g.Contender}
		for _, us := range g.Times {
			row = append(row, figure(us))
		}
		t.row(append(row, fmt.Sprintf("%.2f", g.Exponent))...)
	}
	return t.String()
}
