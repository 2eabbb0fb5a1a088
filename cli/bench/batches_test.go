package bench

import (
	"testing"
	"time"
)

func TestBatchesAreShort(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		repetition repetition
		warm, left int
		mean       time.Duration
		begun      time.Time
		want       int
	}{
		"the first is one":               {repetition{warmup: 5, iters: 20}, 5, 20, 0, time.Time{}, 1},
		"all the rest of a short run":    {repetition{warmup: 5, iters: 20}, 4, 20, time.Microsecond, time.Time{}, 24},
		"as many as take 200 ms":         {repetition{iters: 1000}, 0, 1000, 10 * time.Millisecond, time.Time{}, 20},
		"one that takes longer":          {repetition{iters: 1000}, 0, 1000, time.Second, time.Time{}, 1},
		"the least, for longer":          {repetition{iters: 1000, least: 100, longest: 4 * time.Second}, 0, 1000, 10 * time.Millisecond, time.Time{}, 100},
		"as many of the least as may be": {repetition{iters: 1000, least: 100, longest: 500 * time.Millisecond}, 0, 1000, 10 * time.Millisecond, time.Time{}, 50},
		"the end of a duration":          {repetition{iters: 20, duration: time.Minute}, 0, 20, time.Millisecond, long, 0},
		"the warm-up, then the duration": {repetition{warmup: 5, duration: time.Hour}, 4, 0, time.Millisecond, time.Time{}, 200},
		"a duration that is very short":  {repetition{duration: 1}, 0, 0, time.Second, time.Time{}, 1},
	} {
		if got := c.repetition.next(c.warm, c.left, c.mean, c.begun); got != c.want {
			t.Errorf("%s: %d iterations, want %d", name, got, c.want)
		}
	}
}
