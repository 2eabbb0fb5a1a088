//go:build !race

package reduce

import "testing"

func TestChooseByProcessor(t *testing.T) {
	for _, c := range []struct {
		avx2, f16c bool
		want       *kernels
	}{
		{false, false, &plain},
		{false, true, &plain},
		{true, false, &plain},
		{true, true, &vectorized},
	} {
		if choose(c.avx2, c.f16c) != c.want {
			t.Errorf("AVX2 %t, F16C %t: the other kernels were chosen", c.avx2, c.f16c)
		}
	}
}
