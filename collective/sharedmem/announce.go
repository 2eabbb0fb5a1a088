package sharedmem

import "sync/atomic"

// Words of the line in which a rank tells what it is in. The first is the number of
// the operation. Its signature has two places, by the parity of the number, so that
// the next one's does not overwrite it while it may be read.
const (
	announcedCall  = 1 // three words, and three more
	announcedWords = 3
	announcedEnd   = announcedCall + 2*announcedWords
)

// Announce tells the peers which operation the rank begins, by whatever means it
// computes that: whoever waits for this rank elsewhere can then say so. Numbers
// grow from 1.
func (t *Team) Announce(number uint64, s Signature) {
	l := t.own[announcedLine]
	at := announcedCall + announcedWords*(number&1)
	l[at], l[at+1], l[at+2] = s.Digest, s.Count, s.Root
	l.store(number)
}

// Announced returns the operation that a peer began last; number 0 is none, or that
// it goes from one to another just now.
func (t *Team) Announced(rank int) (number uint64, s Signature) {
	l := t.peers[rank].lines[announcedLine]
	number = l.load()
	at := announcedCall + announcedWords*(number&1)
	s = Signature{Digest: atomic.LoadUint64(&l[at]), Count: atomic.LoadUint64(&l[at+1]), Root: atomic.LoadUint64(&l[at+2])}
	if l.load() != number {
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
