package session

import (
	"time"

	"ringcli/collective"
)

// Options are what a process is given by the program that it is part of, not by its user. Tests
// have other ones than ringcli.
type Options struct {
	// SpeakAfter is how long a wait for other ranks lasts before people are told.
	SpeakAfter time.Duration
	// StopGrace is how long a command may take to its next boundary: longer than an iteration
	// of any usual size, shorter than a person waits for a rank that is gone.
	StopGrace time.Duration
	// SurvivorsGrace is how long the other ranks of `local` have, after one has failed, to
	// report what happened to them.
	SurvivorsGrace time.Duration
	// BenchSpan is how long a measurement lasts at least, if its user gives no iterations and
	// no duration.
	BenchSpan time.Duration
	// Corrupt returns what damages each segment that arrives at a rank; nil: nothing does.
	Corrupt func(rank int) func(op collective.Operation, segment int, payload []byte)
	// ParentEnded is called in a child of `local` before it acts on its parent's end; may be nil.
	ParentEnded func(rank int)
}

// DefaultBenchSpan is Options.BenchSpan of ringcli.
const DefaultBenchSpan = 50 * time.Millisecond

// DefaultOptions are those of ringcli.
func DefaultOptions() Options {
	return Options{SpeakAfter: time.Second, StopGrace: 10 * time.Second, SurvivorsGrace: 2 * time.Second, BenchSpan: DefaultBenchSpan}
}
