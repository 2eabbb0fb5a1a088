package trace

import (
	"cmp"
	"slices"
	"sync"
)

// ClockSample is one comparison with a neighbour's trace clock.
type ClockSample struct {
	Peer   int   `json:"peer"`
	At     int64 `json:"at"`     // own trace clock, ns since the Unix epoch
	Offset int64 `json:"offset"` // the peer's clock minus the own, ns
	RTT    int64 `json:"rtt"`    // ns; the true offset is within RTT/2 of Offset
}

// maxClockSamples bounds the list: at one a second the last 8 minutes are kept
// whole, and of the time before a thinning half, the better ones.
const maxClockSamples = 1024

// identity is what the recorder knows of its process beside the rank, which
// output has.
var identity struct {
	sync.Mutex
	size    int
	run     string
	samples []ClockSample
}

// SetRing says how many ranks the ring has, for dumps; 0: no ring. run names the run: it
// must be the same text on all ranks and differ between runs, so that Merge can refuse to
// mix them.
func SetRing(size int, run string) {
	identity.Lock()
	defer identity.Unlock()
	identity.size, identity.run = size, run
}

// AddClockSample keeps a comparison of clocks for Merge: when the own Clock()
// was at, the peer's was at+offset, to within rtt/2. All are nanoseconds. The
// list is bounded: when full, the older half loses the worse of every two.
func AddClockSample(peer int, at, offset, rtt int64) {
	identity.Lock()
	defer identity.Unlock()
	if len(identity.samples) >= maxClockSamples {
		identity.samples = thin(identity.samples)
	}
	identity.samples = append(identity.samples, ClockSample{peer, at, offset, rtt})
}

// thin drops of every two in the older half the one with the longer round trip.
func thin(samples []ClockSample) []ClockSample {
	half := len(samples) / 2
	kept := samples[:0]
	for i := 0; i+1 < half; i += 2 {
		kept = append(kept, slices.MinFunc(samples[i:i+2], func(a, b ClockSample) int { return cmp.Compare(a.RTT, b.RTT) }))
	}
	return append(kept, samples[half&^1:]...)
}
