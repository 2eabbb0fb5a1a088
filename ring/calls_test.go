package ring

import (
	"context"
	"testing"
	"time"
)

// TestCallsOfThoseNear: with little time left a rank asks no further, so that those before it
// answer in time with what they have.
func TestCallsOfThoseNear(t *testing.T) {
	world := connect(t, 3, nil)
	for _, r := range world {
		r.SetCalls(func(uint64) string { return "a barrier" })
	}
	for _, test := range []struct {
		left time.Duration
		want int
	}{{time.Minute, 2}, {tableLeast / 2, 0}} {
		ctx, cancel := context.WithTimeout(t.Context(), test.left)
		defer cancel()
		if got := <-world[0].askCalls(ctx, Right, 1, 2); len(got) != test.want {
			t.Errorf("with %v left: %+v, expected %d", test.left, got, test.want)
		}
	}
}
