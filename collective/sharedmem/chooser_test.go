package sharedmem

import (
	"math/rand/v2"
	"testing"
	"time"
)

// market is a world of costs under a fake clock.
type market struct {
	c     chooser
	bytes int
	cost  [allStores]time.Duration // of a call
	noise func() time.Duration
	spent time.Duration
	used  [allStores]int
}

func (m *market) call() {
	if m.c.world == nil {
		m.c.world = new(placement)
	}
	s := m.c.choose(m.bytes)
	d := m.cost[s]
	if m.noise != nil {
		d += m.noise()
	}
	m.spent += d
	m.used[s]++
	m.c.observe(d, m.bytes)
}

func (m *market) run(calls int) {
	m.spent, m.used = 0, [allStores]int{}
	for range calls {
		m.call()
	}
}

const micro = time.Microsecond

// The best kind is found whichever it is and whatever was first.
func TestChooserFindsBest(t *testing.T) {
	for _, bytes := range []int{1 << 18, 1 << 24} {
		for best := range allStores {
			m := market{bytes: bytes, cost: [allStores]time.Duration{100 * micro, 100 * micro, 100 * micro}}
			m.cost[best] = 60 * micro
			m.run(100)
			if m.used[best] < 90 {
				t.Errorf("%d bytes, %d is best: used %v in the first 100 calls", bytes, best, m.used)
			}
		}
	}
}

// Vectors that no cache holds are never written with ordinary stores.
func TestChooserStreamsWhatIsLong(t *testing.T) {
	for best := mixed; best < allStores; best++ {
		m := market{bytes: 1 << 26, cost: [allStores]time.Duration{10 * micro, 100 * micro, 100 * micro}}
		m.cost[best] = 80 * micro
		m.run(100)
		if m.used[best] < 90 || m.used[ordinary] != 0 {
			t.Errorf("%d is best: used %v in the first 100 calls", best, m.used)
		}
	}
}

// Trying others costs little even if they are bad, and still happens.
func TestChooserTrialsAreCheap(t *testing.T) {
	m := market{bytes: 1 << 20, cost: [allStores]time.Duration{30 * micro, 60 * micro, 200 * micro}}
	m.run(100_000)
	if loss := m.spent - 100_000*m.cost[ordinary]; loss > m.spent/40 {
		t.Errorf("lost %v of %v", loss, m.spent)
	}
	for s, n := range m.used {
		if n < 100 {
			t.Errorf("%d used %d times", s, n)
		}
	}
}

// When the ranks move far apart the best kind changes, and again when they are
// back: within a few calls the first time, in good time the second.
func TestChooserFollowsMoves(t *testing.T) {
	near := [allStores]time.Duration{30 * micro, 60 * micro, 80 * micro}
	far := [allStores]time.Duration{400 * micro, 200 * micro, 90 * micro}
	m := market{bytes: 1 << 20, cost: near}
	for range 5 {
		m.cost = near
		m.run(2000)
		if m.used[ordinary] < 1700 {
			t.Errorf("near: %v", m.used)
		}
		m.cost = far
		m.run(200)
		if m.used[streaming] < 180 {
			t.Errorf("far: %v", m.used)
		}
	}
}

// A call in ten that is held up for long does not change the choice.
func TestChooserStandsNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	m := market{bytes: 1 << 20, cost: [allStores]time.Duration{30 * micro, 40 * micro, 80 * micro}}
	m.noise = func() time.Duration {
		if r.IntN(10) == 0 {
			return time.Duration(r.IntN(3000)) * micro
		}
		return time.Duration(r.IntN(5)) * micro
	}
	m.run(20_000)
	if m.used[ordinary] < 19_000 {
		t.Errorf("used %v", m.used)
	}
}

// What one finds out the others look at when their turn comes, and a new one
// begins with.
func TestChoosersTellEachOther(t *testing.T) {
	var world placement
	a, b := market{bytes: 1 << 20}, market{bytes: 1 << 24}
	for _, m := range []*market{&a, &b} {
		m.c.world = &world
		m.cost = [allStores]time.Duration{30 * micro, 60 * micro, 80 * micro}
		m.run(1000)
	}
	// They move apart, which costs the second as much as ever.
	a.cost = [allStores]time.Duration{400 * micro, 200 * micro, 90 * micro}
	b.cost = [allStores]time.Duration{30 * micro, 60 * micro, 20 * micro}
	a.run(20)
	b.run(20)
	if b.used[streaming] < 10 {
		t.Errorf("used %v", b.used)
	}
	c := market{bytes: 1 << 24, cost: b.cost}
	c.c.world = &world
	c.run(1)
	if c.used[streaming] != 1 {
		t.Errorf("a new one: used %v", c.used)
	}
}

func TestChooserClasses(t *testing.T) {
	var all choosers
	of := func(phases Phases, kind, bytes int) *chooser {
		return all.of(&Call{Phases: phases, Rooted: kind&8 != 0, Send: Buffer{Mapped: kind&1 != 0}, Recv: Buffer{Mapped: kind&2 != 0}}, kind&4 != 0, bytes)
	}
	seen := map[*chooser]bool{}
	for op := range phaseSets {
		for kind := range 16 {
			for class := range sizeClasses {
				seen[of(Phases(op), kind, 1<<(smallestClass+class))] = true
			}
		}
	}
	if len(seen) != phaseSets*16*sizeClasses {
		t.Errorf("%d choosers", len(seen))
	}
	if of(AllReduce, 3, 0) != of(AllReduce, 3, 1<<smallestClass) || of(AllReduce, 3, 1<<40) != of(AllReduce, 3, 1<<(smallestClass+sizeClasses-1)) {
		t.Error("sizes beyond the classes are not of the outermost")
	}
}
