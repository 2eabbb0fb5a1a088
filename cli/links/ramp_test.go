package links

import (
	"slices"
	"testing"
	"time"
)

// A step that is late once is tried again, and the fastest try counts; one that stays late ends
// the growth. What a stream takes is bounded, however slow the pair.
func TestRamp(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		part  time.Duration
		takes []time.Duration
		want  []rampStep
		best  time.Duration
	}{
		"well":                  {25 * ms, []time.Duration{ms, 5 * ms}, []rampStep{grow, grow}, 5 * ms},
		"an acknowledgement":    {25 * ms, []time.Duration{ms, 70 * ms, ms, 2 * ms}, []rampStep{grow, repeat, grow, grow}, 2 * ms},
		"two":                   {25 * ms, []time.Duration{70 * ms, 69 * ms, ms}, []rampStep{repeat, repeat, grow}, ms},
		"crawls":                {25 * ms, []time.Duration{67 * ms, 66 * ms, 68 * ms}, []rampStep{repeat, repeat, finish}, 66 * ms},
		"crawls, and has time":  {100 * ms, []time.Duration{67 * ms, 66 * ms, 68 * ms}, []rampStep{repeat, repeat, settle}, 66 * ms},
		"each step has its own": {25 * ms, []time.Duration{70 * ms, ms, 70 * ms, 71 * ms, 72 * ms}, []rampStep{repeat, grow, repeat, repeat, finish}, 70 * ms},
		"is far too slow":       {25 * ms, []time.Duration{8 * ms, 277 * ms}, []rampStep{grow, finish}, 277 * ms},
		"and stays so":          {300 * ms, []time.Duration{8 * ms, 277 * ms}, []rampStep{grow, settle}, 277 * ms},
		"slower and slower":     {25 * ms, []time.Duration{70 * ms, 300 * ms}, []rampStep{repeat, finish}, 70 * ms},
	} {
		r := &ramp{long: 58 * ms, part: c.part, slack: 4500 * ms}
		var got []rampStep
		for _, took := range c.takes {
			got = append(got, r.step(took))
		}
		if !slices.Equal(got, c.want) || r.best != c.best {
			t.Errorf("%s: %v, the best %s; expected %v and %s", name, got, r.best, c.want, c.best)
		}
	}
}

// What is always late leaves time for the last stream.
func TestRampInTime(t *testing.T) {
	const slack = time.Second
	for took := time.Millisecond; took <= slack/growth; took += time.Millisecond {
		r := &ramp{long: took - 1, part: slack, slack: slack}
		for r.step(took) == repeat {
		}
		if r.spent+took > slack || took < slack/5 && r.tries != lateTries {
			t.Errorf("%d steps of %s take %s of %s", r.tries, took, r.spent, slack)
		}
	}
}

// More and more is in flight, until it is what was asked for.
func TestMore(t *testing.T) {
	for _, want := range [][2]int{{8, 16}, {4096, 1}, {firstWrite, 128}, {100000, 7}, {64 << 20, 128}} {
		size, window := min(want[0], firstWrite), 1
		for steps := 0; size != want[0] || window != want[1]; steps++ {
			was := size * window
			if size, window = more(size, window, want[0], want[1]); size*window <= was || size*window > growth*was || steps > 12 {
				t.Fatalf("%v: %d of %d bytes after %d bytes", want, window, size, was)
			}
		}
	}
}
