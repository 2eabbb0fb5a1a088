package links

import (
	"math"
	"slices"
)

// Matrix has a figure for each directed pair of ranks, by row the sender's and by column
// the receiver's; NaN where there is none, as on the diagonal.
type Matrix struct {
	N int
	V []float64 // N*N
}

// NewMatrix returns one without figures.
func NewMatrix(n int) Matrix { return Matrix{n, slices.Repeat([]float64{math.NaN()}, n*n)} }

// At returns the figure of a pair.
func (m Matrix) At(from, to int) float64 { return m.V[from*m.N+to] }

// Set changes the figure of a pair.
func (m Matrix) Set(from, to int, v float64) { m.V[from*m.N+to] = v }

func (m Matrix) clone() Matrix { return Matrix{m.N, slices.Clone(m.V)} }

// transposed has receivers as rows.
func transposed[T any](n int, list []T) []T {
	t := make([]T, len(list))
	for at, v := range list {
		t[at%n*n+at/n] = v
	}
	return t
}

// Typical is the median of a matrix' figures; NaN if there are none.
func (m Matrix) Typical() float64 { return quantile(figures(nil, m.V), 0.5) }

// figures appends those of a list that are none but NaN.
func figures(to, list []float64) []float64 {
	for _, v := range list {
		if !math.IsNaN(v) {
			to = append(to, v)
		}
	}
	return to
}

// quantile puts the list in order. Between two figures it is the higher one, but for the
// median, which is their mean; NaN of none.
func quantile(list []float64, q float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	slices.Sort(list)
	at := int(math.Ceil(q * float64(len(list)-1)))
	if q == 0.5 && len(list)%2 == 0 {
		return (list[at-1] + list[at]) / 2
	}
	return list[at]
}

// Normal makes a median absolute deviation the standard deviation of normal noise.
const Normal = 1.4826

// spread is the median absolute deviation from the median, scaled to a standard
// deviation. It reorders and changes the list.
func spread(list []float64) float64 {
	middle := quantile(list, 0.5)
	for i, v := range list {
		list[i] = math.Abs(v - middle)
	}
	if len(list) == 0 {
		return 0
	}
	return Normal * quantile(list, 0.5)
}
