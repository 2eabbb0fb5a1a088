package bench

import (
	"testing"
	"time"
)

func TestBatchesAreShort(t *testing.T) {
	const ms, us = time.Millisecond, time.Microsecond
	long := time.Now().Add(-time.Hour)
	least := repetition{warmup: leastWarmup, iters: leastIters, warmSpan: leastSpan, span: leastSpan}
	stream := least
	stream.least = 128
	for name, c := range map[string]struct {
		repetition repetition
		batched    batched
		warm, n    int
	}{
		"the first is one":               {repetition{warmup: 5, iters: 20}, batched{}, 1, 0},
		"all the rest of a short run":    {repetition{warmup: 5, iters: 20}, batched{warmed: 1, mean: us}, 4, 20},
		"as many as take 200 ms":         {repetition{iters: 1000}, batched{mean: 10 * ms}, 0, 20},
		"one that takes longer":          {repetition{iters: 1000}, batched{mean: time.Second}, 0, 1},
		"the least, for longer":          {repetition{iters: 1000, least: 100, longest: 4 * time.Second}, batched{mean: 10 * ms}, 0, 100},
		"as many of the least as may be": {repetition{iters: 1000, least: 100, longest: 500 * ms}, batched{mean: 10 * ms}, 0, 50},
		"all are through":                {repetition{warmup: 5, iters: 20}, batched{warmed: 5, done: 20, mean: us, took: us}, 0, 0},
		"the end of a duration":          {repetition{iters: 20, duration: time.Minute}, batched{mean: ms, begun: long}, 0, 0},
		"the warm-up, then the duration": {repetition{warmup: 5, duration: time.Hour}, batched{warmed: 1, mean: ms}, 4, 196},
		"a duration that is very short":  {repetition{duration: 1}, batched{mean: time.Second}, 0, 1},

		"a span begins with one":                  {least, batched{}, 1, 0},
		"short ones are warmed up for 50 ms":      {least, batched{warmed: 1, warmTook: 10 * ms, mean: us}, 40000, 0},
		"long ones as often as asked for":         {least, batched{warmed: 1, warmTook: time.Second, mean: time.Second}, 1, 0},
		"then they are measured in batches":       {least, batched{warmed: 50000, warmTook: 50 * ms, mean: us}, 1, 5000},
		"in longer ones after a long meeting":     {least, batched{warmed: 50000, warmTook: 50 * ms, mean: us, meeting: 10 * ms}, 1, 50000},
		"which have an end":                       {least, batched{warmed: 50000, warmTook: 50 * ms, mean: us, meeting: time.Minute}, 1, 200000},
		"20 of a microsecond are not enough":      {least, batched{warmed: 50000, warmTook: 50 * ms, done: 20, took: 20 * us, mean: us}, 1, 5000},
		"nor are 50 ms in a batch":                {least, batched{warmed: 50000, warmTook: 50 * ms, done: 5000, took: 60 * ms, mean: us, batches: 1}, 1, 5000},
		"nor are 50 ms of 19 long ones":           {least, batched{warmed: 5, warmTook: 50 * ms, done: 19, took: time.Second, mean: 50 * ms, batches: leastBatches}, 0, 1},
		"20 long ones are":                        {least, batched{warmed: 5, warmTook: 50 * ms, done: 20, took: time.Second, mean: 50 * ms, batches: leastBatches}, 0, 0},
		"and 50 ms of short ones":                 {least, batched{warmed: 50000, warmTook: 50 * ms, done: 50000, took: 50 * ms, mean: us, batches: leastBatches}, 0, 0},
		"a stream has the least in a batch":       {stream, batched{warmed: 10, warmTook: 50 * ms, mean: 100 * us}, 1, 128},
		"or less, where that takes 50 ms":         {stream, batched{warmed: 10, warmTook: 50 * ms, mean: 5 * ms}, 1, 10},
		"a warm-up that was asked for is no span": {repetition{warmup: 2, iters: 20, span: leastSpan}, batched{warmed: 2, mean: us}, 1, 5000},
	} {
		if warm, n := c.repetition.next(c.batched); warm != c.warm || n != c.n {
			t.Errorf("%s: %d and %d iterations, want %d and %d", name, warm, n, c.warm, c.n)
		}
	}
}
