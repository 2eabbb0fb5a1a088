package batch

import (
	"testing"
	"time"
)

func TestBatchesAreShort(t *testing.T) {
	const ms, us = time.Millisecond, time.Microsecond
	long := time.Now().Add(-time.Hour)
	least := Repetition{Warmup: LeastWarmup, Iters: LeastIters, WarmSpan: LeastSpan, Span: LeastSpan}
	stream := least
	stream.Least = 128
	for name, c := range map[string]struct {
		repetition Repetition
		batched    Batched
		warm, n    int
	}{
		"the first is one":               {Repetition{Warmup: 5, Iters: 20}, Batched{}, 1, 0},
		"all the rest of a short run":    {Repetition{Warmup: 5, Iters: 20}, Batched{warmed: 1, mean: us}, 4, 20},
		"as many as take 200 ms":         {Repetition{Iters: 1000}, Batched{mean: 10 * ms}, 0, 20},
		"one that takes longer":          {Repetition{Iters: 1000}, Batched{mean: time.Second}, 0, 1},
		"the least, for longer":          {Repetition{Iters: 1000, Least: 100, longest: 4 * time.Second}, Batched{mean: 10 * ms}, 0, 100},
		"as many of the least as may be": {Repetition{Iters: 1000, Least: 100, longest: 500 * ms}, Batched{mean: 10 * ms}, 0, 50},
		"all are through":                {Repetition{Warmup: 5, Iters: 20}, Batched{warmed: 5, Done: 20, mean: us, took: us}, 0, 0},
		"the end of a duration":          {Repetition{Iters: 20, Duration: time.Minute}, Batched{mean: ms, begun: long}, 0, 0},
		"the warm-up, then the duration": {Repetition{Warmup: 5, Duration: time.Hour}, Batched{warmed: 1, mean: ms}, 4, 196},
		"a duration that is very short":  {Repetition{Duration: 1}, Batched{mean: time.Second}, 0, 1},

		"a span begins with one":                  {least, Batched{}, 1, 0},
		"short ones are warmed up for 50 ms":      {least, Batched{warmed: 1, warmTook: 10 * ms, mean: us}, 40000, 0},
		"long ones as often as asked for":         {least, Batched{warmed: 1, warmTook: time.Second, mean: time.Second}, 1, 0},
		"then they are measured in batches":       {least, Batched{warmed: 50000, warmTook: 50 * ms, mean: us}, 1, 5000},
		"in longer ones after a long meeting":     {least, Batched{warmed: 50000, warmTook: 50 * ms, mean: us, meeting: 10 * ms}, 1, 50000},
		"which have an end":                       {least, Batched{warmed: 50000, warmTook: 50 * ms, mean: us, meeting: time.Minute}, 1, 200000},
		"20 of a microsecond are not enough":      {least, Batched{warmed: 50000, warmTook: 50 * ms, Done: 20, took: 20 * us, mean: us}, 1, 5000},
		"nor are 50 ms in a batch":                {least, Batched{warmed: 50000, warmTook: 50 * ms, Done: 5000, took: 60 * ms, mean: us, batches: 1}, 1, 5000},
		"nor are 50 ms of 19 long ones":           {least, Batched{warmed: 5, warmTook: 50 * ms, Done: 19, took: time.Second, mean: 50 * ms, batches: leastBatches}, 0, 1},
		"20 long ones are":                        {least, Batched{warmed: 5, warmTook: 50 * ms, Done: 20, took: time.Second, mean: 50 * ms, batches: leastBatches}, 0, 0},
		"and 50 ms of short ones":                 {least, Batched{warmed: 50000, warmTook: 50 * ms, Done: 50000, took: 50 * ms, mean: us, batches: leastBatches}, 0, 0},
		"a stream has the least in a batch":       {stream, Batched{warmed: 10, warmTook: 50 * ms, mean: 100 * us}, 1, 128},
		"or less, where that takes 50 ms":         {stream, Batched{warmed: 10, warmTook: 50 * ms, mean: 5 * ms}, 1, 10},
		"a warm-up that was asked for is no span": {Repetition{Warmup: 2, Iters: 20, Span: LeastSpan}, Batched{warmed: 2, mean: us}, 1, 5000},
	} {
		if warm, n := c.repetition.next(c.batched); warm != c.warm || n != c.n {
			t.Errorf("%s: %d and %d iterations, want %d and %d", name, warm, n, c.warm, c.n)
		}
	}
}
