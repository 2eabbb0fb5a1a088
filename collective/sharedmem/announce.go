package sharedmem

import "sync/atomic"

// Words of the line in which a rank tells what it is in. The first is the number of
// the operation. Its signature has a place by that number, one of three: the one before
// may still be read while the next one's is written.
const (
	announcedCall   = 1
	announcedPlaces = 3
	announcedWords  = 3 // of a place
	announcedEnd    = announcedCall + announcedPlaces*announcedWords
)

// announcedAt is the first word of an operation's place.
func announcedAt(number uint64) uint64 {
	return announcedCall + announcedWords*(number%announcedPlaces)
}

// Announcement is such a line. One goroutine writes it, and any may read it.
type Announcement line

// Announce says which operation the rank begins. Numbers grow from 1.
func (a *Announcement) Announce(number uint64, s Signature) {
	at := announcedAt(number)
	Publish(&a[at], s.Digest)
	Publish(&a[at+1], s.Count)
	Publish(&a[at+2], s.Root)
	(*line)(a).store(number)
}

// Call returns an operation that was begun last, or before the last.
func (a *Announcement) Call(number uint64) (s Signature, ok bool) {
	l := (*line)(a)
	newest := l.load()
	at := announcedAt(number)
	s = Signature{Digest: atomic.LoadUint64(&l[at]), Count: atomic.LoadUint64(&l[at+1]), Root: atomic.LoadUint64(&l[at+2])}
	return s, l.load() == newest && (newest == number || newest == number+1) && number > 0
}

// Announce tells the peers which operation the rank begins, by whatever means it
// computes that: whoever waits for this rank elsewhere can then say so.
func (t *Team) Announce(number uint64, s Signature) { t.Announcement().Announce(number, s) }

// Announcement is the rank's own, in its board.
func (t *Team) Announcement() *Announcement { return (*Announcement)(t.own[announcedLine]) }

// Announced returns the operation that a peer began last; number 0 is none, or that
// it goes from one to another just now.
func (t *Team) Announced(rank int) (number uint64, s Signature) {
	l := t.peers[rank].lines[announcedLine]
	number = l.load()
	s, ok := (*Announcement)(l).Call(number)
	if !ok {
		return 0, Signature{}
	}
	return number, s
}

// Ended tells the peers that the rank has ended an operation.
func (t *Team) Ended(number uint64) {
	Publish(&t.own[announcedLine][announcedEnd], number)
}

// HasEnded returns the last operation that a peer has ended: it does not look at
// this rank's board for it any more.
func (t *Team) HasEnded(rank int) (number uint64) {
	return atomic.LoadUint64(&t.peers[rank].lines[announcedLine][announcedEnd])
}
