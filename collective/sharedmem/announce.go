package sharedmem

import "sync/atomic"

// Words of the memory in which a rank tells what it is in. A signature has a place by its
// operation's number, of more than by which a rank may be ahead of another.
const (
	announcedAt   = iota // the operation that runs or ended last, times two, and one if it runs
	announcedOpen        // 1 as long as the rank has not given its board back
	announcedCall
	announcedPlaces = 2 * queueDepth
	announcedEnd    = announcedCall + announcedPlaces*announcedWords
)

// Words of a place. The first has half of the number as well, as long as the others are
// of that operation.
const (
	placeRoot = iota
	placeDigest
	placeCount
	announcedWords
)

// Announcement is such memory. One goroutine writes it, and any may read it.
type Announcement [announcedEnd]uint64

func place(a *Announcement, number uint64) *[announcedWords]uint64 {
	return (*[announcedWords]uint64)(a[announcedCall+announcedWords*(number%announcedPlaces):])
}

// rootOf is the first word of a place.
func rootOf(number uint64, s Signature) uint64 { return number<<32 | s.Root&(1<<32-1) }

// Announce says which operation the rank begins. Numbers grow from 1.
func (a *Announcement) Announce(number uint64, s Signature) {
	p := place(a, number)
	if p[placeDigest] != s.Digest || p[placeCount] != s.Count {
		Publish(&p[placeRoot], 0)
		Publish(&p[placeDigest], s.Digest)
		Publish(&p[placeCount], s.Count)
	}
	Publish(&p[placeRoot], rootOf(number, s))
}

// Call returns an operation that was begun last, or not long before.
func (a *Announcement) Call(number uint64) (s Signature, ok bool) {
	p := place(a, number)
	root := atomic.LoadUint64(&p[placeRoot])
	s = Signature{Digest: atomic.LoadUint64(&p[placeDigest]), Count: atomic.LoadUint64(&p[placeCount]), Root: root & (1<<32 - 1)}
	return s, number > 0 && root == rootOf(number, s) && root == atomic.LoadUint64(&p[placeRoot])
}

// Begin is Announce of an operation that runs from now on.
func (a *Announcement) Begin(number uint64, s Signature) {
	a.Announce(number, s)
	Publish(&a[announcedAt], 2*number+1)
}

// End says that the rank has ended an operation, and all before.
func (a *Announcement) End(number uint64) { Publish(&a[announcedAt], 2*number) }

// At returns the number of the operation that runs, or else ended last.
func (a *Announcement) At() (number uint64, running bool) {
	at := atomic.LoadUint64(&a[announcedAt])
	return at / 2, at%2 == 1
}

// Announcement is the rank's own, in its board: whoever waits for this rank elsewhere can
// say what it is in, by whatever means it computes that.
func (t *Team) Announcement() *Announcement { return t.Announced(t.rank) }

// Announced is a rank's announcement.
func (t *Team) Announced(rank int) *Announcement {
	return t.layout.announcement(t.peers[rank].board)
}

// Open is to be called with the own board before others know it.
func Open(board uint64, ranks int) {
	l := layoutOf(ranks)
	Publish(&l.announcement(board)[announcedOpen], 1)
}

// HasEnded tells whether a peer has ended an operation of that number: it does not look at
// this rank's board for it any more. Of a board that it has given back nothing is left.
func (a *Announcement) HasEnded(number uint64) bool {
	at, running := a.At()
	return atomic.LoadUint64(&a[announcedOpen]) == 0 || at > number || at == number && !running
}
