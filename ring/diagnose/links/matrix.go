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
func NewMatrix(n int) Matrix {
	m := Matrix{n, make([]float64, n*n)}
	if n > 0 {
		m.V[0] = math.NaN()
	}
	for done := 1; done < len(m.V); done *= 2 {
		copy(m.V[done:], m.V[:done])
	}
	return m
}

// At returns the figure of a pair.
func (m Matrix) At(from, to int) float64 { return m.V[from*m.N+to] }

// Set changes the figure of a pair.
func (m Matrix) Set(from, to int, v float64) { m.V[from*m.N+to] = v }

func (m Matrix) clone() Matrix { return Matrix{m.N, slices.Clone(m.V)} }

// transposed has receivers as rows.
func (m Matrix) transposed() Matrix { return Matrix{m.N, transposed(m.N, m.V)} }

func transposed[T any](n int, list []T) []T {
	const block = 32 // whose rows and columns both stay in the first cache
	t := make([]T, len(list))
	for i0 := 0; i0 < n; i0 += block {
		for j0 := 0; j0 < n; j0 += block {
			for i := i0; i < min(i0+block, n); i++ {
				for j := j0; j < min(j0+block, n); j++ {
					t[j*n+i] = list[i*n+j]
				}
			}
		}
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

// quantile reorders the list. Between two figures it is the higher one, but for the
// median, which is their mean; NaN of none.
func quantile(list []float64, q float64) float64 {
	v, ok := quantileOf(list, 0, len(list), q)
	if !ok {
		return math.NaN()
	}
	return v
}

// quantileOf is the quantile of so many figures, of which as many as are below are lower than the
// list, and the others higher; not ok if it is none of the list.
func quantileOf(list []float64, below, all int, q float64) (v float64, ok bool) {
	at := int(math.Ceil(q*float64(all-1))) - below
	middle := q == 0.5 && all%2 == 0
	if at < 0 || at >= len(list) || middle && at == 0 {
		return 0, false
	}
	v = nth(list, at)
	if middle {
		v = (slices.Max(list[:at]) + v) / 2 // nth left the lower ones before it
	}
	return v, true
}

// nth returns the figure that would be at k in order, with no greater one before it.
func nth(list []float64, k int) float64 {
	low, high := 0, len(list)-1
	for low < high {
		pivot := median3(list[low], list[(low+high)/2], list[high])
		i, j := low, high
		for i <= j {
			for list[i] < pivot {
				i++
			}
			for list[j] > pivot {
				j--
			}
			if i <= j {
				list[i], list[j] = list[j], list[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			high = j
		case k >= i:
			low = i
		default:
			return list[k]
		}
	}
	return list[k]
}

func median3(a, b, c float64) float64 { return max(min(a, b), min(max(a, b), c)) }

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
