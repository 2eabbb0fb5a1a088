package align

import (
	"math"
	"slices"
)

// factored is the Cholesky factor of a symmetric, positive definite matrix.
// Rows begin at their first entry that is not zero: neighbours in the ring
// stand beside each other, so a row has about four.
type factored struct {
	lower [][]float64
	first []int
}

// factor replaces the lower half of m by its Cholesky factor. It is not ok if
// m is not positive definite.
func factor(m [][]float64) (*factored, bool) {
	f := &factored{m, make([]int, len(m))}
	for i := range m {
		for f.first[i] < i && m[i][f.first[i]] == 0 {
			f.first[i]++
		}
		for j := f.first[i]; j <= i; j++ {
			sum := m[i][j]
			for k := max(f.first[i], f.first[j]); k < j; k++ {
				sum -= m[i][k] * m[j][k]
			}
			switch {
			case j < i:
				m[i][j] = sum / m[j][j]
			case sum > 0 && !math.IsInf(sum, 0):
				m[i][i] = math.Sqrt(sum)
			default:
				return nil, false
			}
		}
	}
	return f, true
}

// solve returns x of m x = right.
func (f *factored) solve(right []float64) []float64 {
	x := slices.Clone(right)
	for i := range x {
		for k := f.first[i]; k < i; k++ {
			x[i] -= f.lower[i][k] * x[k]
		}
		x[i] /= f.lower[i][i]
	}
	for i := len(x) - 1; i >= 0; i-- {
		x[i] /= f.lower[i][i]
		for k := f.first[i]; k < i; k++ {
			x[k] -= f.lower[i][k] * x[i]
		}
	}
	return x
}
