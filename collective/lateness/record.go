package lateness

import (
	"time"

	"ringcli/trace"
)

// Record is what a rank has kept of the operations of some time. Times are in
// nanoseconds.
type Record struct {
	Took        int64 `json:"took_ns"`         // that time
	Waited      int64 `json:"waited_ns"`       // within operations, for other ranks
	LongestWait int64 `json:"longest_wait_ns"` // of one operation; over shared memory of one wait
	Waits       int64 `json:"waits"`           // of 1 ms and more
	First       int64 `json:"first_ns"`        // from entering operations to their first data from another rank
	Transfer    int64 `json:"transfer_ns"`     // and from then to their ends
	Sending     int64 `json:"sending_ns"`      // from the last data of another rank to the ends: only what this rank sends is under way
	Outside     int64 `json:"outside_ns"`      // between operations
	Reduced     int64 `json:"reduced_ns"`      // reducing and copying
	Still       int64 `json:"stood_still_ns"`  // stopped, by its own clock
	NoCPU       int64 `json:"no_cpu_ns"`       // ready to run, but without a CPU: all threads of the process together, and no more than took_ns
	NoCarrier   int64 `json:"no_carrier_ns"`   // interfaces under its devices had none
	// Of the edge whose flights took longest, in the mean.
	From           int64 `json:"edge_from"`
	To             int64 `json:"edge_to"`
	Flights        int64 `json:"flights"` // segments; 0: there is no such edge
	InFlight       int64 `json:"in_flight_ns"`
	LongestFlight  int64 `json:"longest_flight_ns"`
	ShortestFlight int64 `json:"shortest_flight_ns"`

	Loss Loss `json:"loss"` // of the edge that sent most packets again

	// Of how late this rank was, see Excuse: it had no CPU, and it had none when others had.
	starved, excused int64
}

// Words is how many words a record takes.
const Words = 25

func (r *Record) fields() [Words]*int64 {
	return [Words]*int64{
		&r.Took, &r.Waited, &r.LongestWait, &r.Waits, &r.First, &r.Transfer, &r.Sending, &r.Outside, &r.Reduced, &r.Still, &r.NoCPU, &r.NoCarrier,
		&r.From, &r.To, &r.Flights, &r.InFlight, &r.LongestFlight, &r.ShortestFlight,
		&r.Loss.From, &r.Loss.To, &r.Loss.Sent, &r.Loss.Resent, &r.Loss.NAKs, &r.Loss.Timeouts, &r.Loss.RNRs,
	}
}

// Words returns the record as words, to be told to others.
func (r Record) Words() (w [Words]uint64) {
	for i, f := range r.fields() {
		w[i] = uint64(*f)
	}
	return w
}

// OfWords is the inverse of Words.
func OfWords(w [Words]uint64) (r Record) {
	for i, f := range r.fields() {
		*f = int64(w[i])
	}
	return r
}

// flight is the mean of a flight.
func (r *Record) flight() int64 { return r.InFlight / max(1, r.Flights) }

// Add takes up what was kept later.
func (r *Record) Add(o Record) {
	sum := *r
	to, more := sum.fields(), o.fields()
	for i := range to {
		*to[i] += *more[i]
	}
	sum.Loss = r.Loss.Plus(o.Loss)
	sum.LongestWait = max(r.LongestWait, o.LongestWait)
	sum.LongestFlight, sum.ShortestFlight, sum.From, sum.To = max(r.LongestFlight, o.LongestFlight), min(r.ShortestFlight, o.ShortestFlight), r.From, r.To
	if o.Flights == 0 {
		sum.ShortestFlight = r.ShortestFlight
	}
	if r.Flights == 0 || o.Flights > 0 && (r.From != o.From || r.To != o.To) {
		e := &o
		if r.Flights > 0 && r.flight() >= o.flight() {
			e = r
		}
		sum.From, sum.To, sum.Flights, sum.InFlight, sum.LongestFlight, sum.ShortestFlight = e.From, e.To, e.Flights, e.InFlight, e.LongestFlight, e.ShortestFlight
	}
	sum.starved += o.starved
	sum.excused += o.excused
	*r = sum
}

// Flight is what is kept of one edge.
type Flight struct{ count, sum, longest, shortest int64 }

// Add takes up a segment. One whose begin is not known is left out.
func (f *Flight) Add(begun, end trace.Stamp) {
	if begun != 0 && end > begun {
		d := int64(end - begun)
		if f.count++; f.count == 1 || d < f.shortest {
			f.shortest = d
		}
		f.sum += d
		f.longest = max(f.longest, d)
	}
}

const (
	// LeastWait is what counts as one: longer than ranks of an orderly ring are apart.
	LeastWait = int64(time.Millisecond)
	// leastStill is how long a rank that waits does not look at its clock only if it
	// was stopped: it blocks for 10 ms at most.
	leastStill = int64(20 * time.Millisecond)
)

// Counter makes a rank's record. It belongs to whoever runs the operations.
type Counter struct {
	kept         Record
	begun, ended trace.Stamp // the operation that runs; the one before
	first, last  trace.Stamp // its first data, and its last; 0: none has come
	ran          trace.Stamp // when this rank looked at the clock last
	busy         int64       // of the operation: reducing, or standing still
	taken        int64       // when the record was taken last
}

// Begin begins an operation.
func (c *Counter) Begin(now trace.Stamp) {
	if c.begun, c.first, c.last, c.ran, c.busy = now, 0, 0, now, 0; c.ended != 0 && now > c.ended {
		c.kept.Outside += int64(now - c.ended)
	}
}

// Came notes that data of another rank is here.
func (c *Counter) Came(now trace.Stamp) {
	if c.last = now; c.first == 0 {
		c.first = now
	}
}

// Ran notes that this rank runs.
func (c *Counter) Ran(now trace.Stamp) {
	if d := int64(now - c.ran); d > leastStill && c.ran != 0 && now != 0 {
		c.kept.Still += d
		c.busy += d
	}
	c.ran = now
}

// Reduced notes that this rank reduced, or copied, meanwhile.
func (c *Counter) Reduced(begun, end trace.Stamp) {
	d := int64(end - begun)
	c.kept.Reduced += d
	c.busy += d
	c.ran = end
}

// End ends the operation that runs.
func (c *Counter) End(now trace.Stamp) {
	if c.ended = now; c.begun == 0 || now == 0 {
		return
	}
	c.Ran(now)
	c.Waited(int64(now-c.begun) - c.busy)
	if c.first != 0 {
		c.kept.First += int64(c.first - c.begun)
		c.kept.Transfer += int64(now - c.first)
		c.kept.Sending += int64(now - c.last)
	}
	c.begun = 0
}

// Waited takes up a wait of so many nanoseconds.
func (c *Counter) Waited(d int64) {
	k := &c.kept
	k.Waited += max(0, d)
	k.LongestWait = max(k.LongestWait, d)
	if d >= LeastWait {
		k.Waits++
	}
}

// Still takes up a jump of the clock in a wait over shared memory, if it is one, and
// returns what of the time was not waited.
func (c *Counter) Still(d time.Duration) time.Duration {
	if int64(d) <= leastStill {
		return 0
	}
	c.kept.Still += int64(d)
	return d
}

// Edge takes the flights of an edge out, and into the record if they took longest.
func (c *Counter) Edge(f *Flight, from, to int) {
	k := &c.kept
	if f.count > 0 && (k.Flights == 0 || f.sum/f.count > k.flight()) {
		k.From, k.To, k.Flights, k.InFlight, k.LongestFlight, k.ShortestFlight = int64(from), int64(to), f.count, f.sum, f.longest, f.shortest
	}
	*f = Flight{}
}

// Lost takes what an edge has counted into the record, if none sent more packets again.
func (c *Counter) Lost(l Loss) { c.kept.Loss = c.kept.Loss.Plus(l) }

// Take returns the record since it was taken last, but for NoCPU.
func (c *Counter) Take() Record {
	r, now := c.kept, trace.Clock()
	if c.taken != 0 {
		r.Took = now - c.taken
	}
	c.kept, c.taken, c.ended = Record{}, now, 0
	return r
}
