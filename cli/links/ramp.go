package links

import "time"

// firstWrite is what a pair is to carry first, alone, and growth how much more it is then each
// time: a pair of 100 kB/s carries it before its queue pair gives up, and one of 1 GB/s loses some
// 100 us by it.
const (
	firstWrite = 16 << 10
	growth     = 4
)

// lateTries is how often a step is tried that is late, but by no more than lateMost times: a lost
// acknowledgement, or a thread that waited for a CPU, makes one late for once. What takes longer
// leaves a queue of what was sent again, behind which another try would be later still.
const (
	lateTries = 3
	lateMost  = 2
)

// ramp is how a stream comes to have in flight what was asked for, in steps of which each has so
// much in flight once.
type ramp struct {
	long  time.Duration // what takes longer shows that more must not be in flight
	part  time.Duration // of the pair's time, for the stream
	slack time.Duration // how much longer it may take

	spent, best time.Duration // by all steps; by the fastest try of this one
	tries       int           // of this one
}

// rampStep is what follows on a try of a step.
type rampStep int

const (
	grow   rampStep = iota // with more in flight
	repeat                 // with as much
	settle                 // with as much for the whole part
	finish                 // the fastest try has lasted for longer than that
)

// step says what follows on a try that took so long. All tries together leave time for the last
// stream.
func (r *ramp) step(took time.Duration) rampStep {
	r.spent += took
	if r.tries++; r.tries == 1 || took < r.best {
		r.best = took
	}
	switch {
	case r.best <= r.long:
		r.tries = 0
		return grow
	case took <= lateMost*r.long && r.tries < lateTries && r.spent+3*took <= r.slack: // another try, the last stream, and as much again to spare
		return repeat
	case r.best <= r.part:
		return settle
	}
	return finish
}

// more is what to have in flight next: as large WRITEs as are asked for, then as many.
func more(size, window, bytes, outstanding int) (nextSize, nextWindow int) {
	all := growth * size * window
	nextSize = min(bytes, all)
	return nextSize, min(outstanding, all/nextSize)
}
