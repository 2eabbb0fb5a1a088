package turns

import (
	"math/rand/v2"
	"testing"
)

// Channels that get on at random are whole up to the first position that is missing.
func TestCounter(t *testing.T) {
	var c Counter
	for channels := 1; channels <= 5; channels++ {
		c.Reset(channels)
		brought := map[int]bool{}
		for range 200 {
			channel := rand.IntN(channels)
			brought[c.Next(channel)] = true
			c.Take(channel)
			whole := 0
			for brought[whole] {
				whole++
			}
			if got := c.Whole(); got != whole {
				t.Fatalf("%d channels: whole up to %d, want %d", channels, got, whole)
			}
			for position := range 3 * 200 {
				if c.Has(position) != brought[position] {
					t.Fatalf("%d channels: position %d was brought: %v, want %v", channels, position, c.Has(position), brought[position])
				}
			}
		}
	}
}

func TestCounterAllocatesNothing(t *testing.T) {
	var c Counter
	c.Reset(4)
	if n := testing.AllocsPerRun(100, func() { c.Reset(4); c.Take(2); c.Whole() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
