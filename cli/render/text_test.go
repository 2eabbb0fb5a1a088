package render

import (
	"slices"
	"testing"
)

func TestFolded(t *testing.T) {
	got := Folded("one two three four", 9)
	if want := []string{"one two", "  three", "  four"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.000", 0.0014: "0.001", 9.9994: "9.999", 9.9996: "10.00", 99.99: "99.99", 99.996: "100.0", 999.94: "999.9", 999.96: "1000", 123456.7: "123457",
	} {
		if got := Figure(v); got != want {
			t.Errorf("%g is %q, want %q", v, got, want)
		}
	}
}
