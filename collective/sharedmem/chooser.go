package sharedmem

import (
	"math"
	"math/bits"
	"time"
)

// stores is how the ranks write what they do not read again soon. It changes no
// bit of a result, but by times how long it takes, and which is best changes with
// the size and with where the ranks run: between cores that are near ordinary
// stores win up to some 8 MiB; between far ones every store to a line that a peer
// has read waits for it, and non-temporal stores, which do not, win by 4 to 6 times
// at any size. Virtual CPUs move within milliseconds.
type stores uint8

const (
	ordinary  stores = iota
	mixed            // non-temporal into the own buffers; what peers read next goes through slots, where it stays cached
	streaming        // non-temporal everywhere
	allStores
)

const (
	// beyondCaches is the size from which no L3 cache of one die holds the vectors of two
	// ranks. From there mixed is tried first, and ranks measure how far from each other
	// they run, so that the choice is made for the place where they are: that takes a
	// thousandth of the call, and such calls are too few to find out by trying.
	beyondCaches = 16 << 20
	// ordinaryTo is the size up to which ordinary stores can win where caches are
	// large; a trial of them costs a third of a call above.
	ordinaryTo = 32 << 20
	// exploringShare: what was lost by trying another kind is made up for by so many
	// times as long in calls without a trial, which keeps the loss within 2 %; and by
	// promptedShare, where another chooser says that something has changed.
	exploringShare, promptedShare = 50, 10
	// exploringPause is the least time between two trials, in calls of the size.
	exploringPause = 100
	// moved: with the best times this much longer than they were, the ranks no
	// longer run where they did, and all kinds are tried at once.
	moved = 1.5
	// clearlyBetter: a kind takes over if a trial took this much less. If it took less,
	// but more than that, it is tried again: a call that is long varies by a fifth.
	clearlyBetter, better = 0.75, 0.97
)

// chooser finds the best stores for calls of one kind and about one size. Rank 0
// has it, and tells the others in the round of references, since the time of a
// call depends on all. Times are per byte.
type chooser struct {
	world   *placement
	far     bool   // the ranks run far from each other, which was measured
	known   uint64 // the world's changes that it has seen
	best    stores
	present stores     // of the call that runs
	trial   stores     // the last that was tried
	wins    int        // trials of it, the last ones, that were somewhat better
	recent  [3]float64 // times of best; the least of them is its time: a call that something held up says nothing
	samples int
	level   float64       // the time of best when it was last compared
	spent   time.Duration // in all calls so far
	next    time.Duration // spent by when to try another
	prompt  time.Duration // the same if other choosers say so
	trials  int           // to be made at once
}

// placement is what choosers tell each other.
type placement struct {
	// changes counts how often one of them found that the best kind is another, or
	// all times are: the others compare at once, too.
	changes uint64
	latest  stores // the one that was found last
}

// choose returns the stores for a call of so many bytes.
func (c *chooser) choose(bytes int) stores {
	if c.samples == 0 && c.level == 0 {
		switch {
		case c.far || c.world.latest == streaming:
			c.best = streaming
		case bytes >= beyondCaches:
			c.best = mixed
		}
		c.known = c.world.changes
	}
	if c.known != c.world.changes && c.spent >= c.prompt {
		c.known, c.trials = c.world.changes, int(allStores)-1
	}
	c.present = c.best
	if c.samples < len(c.recent) || c.spent < c.next && c.trials == 0 && c.wins == 0 {
		return c.present
	}
	if c.wins == 0 {
		c.trial = next(c.trial, bytes)
		if c.trial == c.best {
			c.trial = next(c.trial, bytes)
		}
		c.trials = max(0, c.trials-1)
	}
	c.present = c.trial
	return c.present
}

// next returns the kind after one, of those that are worth a trial for so many bytes.
func next(s stores, bytes int) stores {
	if s = (s + 1) % allStores; s == ordinary && bytes > ordinaryTo {
		s++
	}
	return s
}

// observe takes the time of the call that was chosen for last.
func (c *chooser) observe(elapsed time.Duration, bytes int) {
	c.spent += elapsed
	t := float64(elapsed) / float64(max(bytes, 1))
	if c.present == c.best {
		c.recent[c.samples%len(c.recent)] = t
		c.samples++
		if c.samples < len(c.recent) {
			return
		}
		if c.level == 0 || c.time() > moved*c.level {
			if c.level != 0 {
				c.tell()
			}
			c.level = c.time()
			c.trials = int(allStores) - 1
		}
		return
	}
	best := c.time()
	c.level = best
	if t < better*best {
		if c.wins++; c.wins < 2 && t > clearlyBetter*best {
			return
		}
		// The others, which may be better still, get their turn at once.
		c.best, c.level, c.samples, c.wins = c.present, t, 0, 0
		c.trials = int(allStores) - 1
		c.world.latest = c.best
		c.tell()
		return
	}
	c.wins = 0
	c.next = c.spent + time.Duration(max(exploringPause*best, exploringShare*(t-best))*float64(bytes))
	c.prompt = c.spent + time.Duration(promptedShare*max(t-best, 0)*float64(bytes))
}

// tell has the other choosers compare.
func (c *chooser) tell() {
	c.world.changes++
	c.known = c.world.changes
}

// time is that of best.
func (c *chooser) time() float64 { return min(c.recent[0], c.recent[1], c.recent[2]) }

const (
	// The size classes, by powers of two: to 64 KiB, to 128 KiB, and so on.
	smallestClass = 16
	sizeClasses   = 14
)

// choosers are those of a rank: by phases and kinds of buffers, by whether the
// ranks run far from each other, and by size.
type choosers struct {
	placement
	all [phaseSets * 16][sizeClasses]chooser
}

func (c *choosers) of(k *Call, far bool, bytes int) *chooser {
	kind := int(k.Phases) * 16
	for i, is := range [...]bool{k.Send.Mapped, k.Recv.Mapped, far, k.Rooted} {
		if is {
			kind += 1 << i
		}
	}
	class := max(0, bits.Len(uint(max(bytes-1, 0)))-smallestClass)
	found := &c.all[kind][min(class, sizeClasses-1)]
	found.world, found.far = &c.placement, far
	return found
}

const (
	// A round of nothing takes 0.1 to 0.2 us between near cores, and three times as
	// long between far ones. It says nothing where ranks outnumber CPUs.
	nearest, farthest = 300 * time.Nanosecond, 1500 * time.Nanosecond
	// The best of probes series counts, of probeRounds rounds.
	probes, probeRounds = 3, 4
)

// probe tells whether the ranks run far from each other, as far as this one can tell,
// before a call of so many bytes. It is collective.
func (t *Team) probe(bytes int) (far bool, err error) {
	if bytes < beyondCaches {
		return false, nil
	}
	t.phase, t.parts = phaseRefs, 1
	least := time.Duration(math.MaxInt64)
	for range probes {
		begun := time.Since(t.made)
		for range probeRounds {
			if err := t.meet(); err != nil {
				return false, err
			}
		}
		least = min(least, (time.Since(t.made)-begun)/probeRounds)
	}
	return nearest < least && least < farthest, nil
}
