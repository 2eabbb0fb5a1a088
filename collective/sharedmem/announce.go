package sharedmem

import "sync/atomic"

// Words of the line in which a rank tells what it is in. The first is the number of
// the operation. Its digest and count have two places, by the parity of the number,
// so that those of the next do not overwrite them while they may be read.
const (
	announcedCall = 1 // two words, and two more
	announcedEnd  = 5
)

// Announce tells the peers which operation the rank begins, by whatever means it
// computes that: whoever waits for this rank elsewhere can then say so. Numbers
// grow from 1.
func (t *Team) Announce(number, digest, count uint64) {
	l := t.own.announced
	at := announcedCall + 2*(number&1)
	l[at], l[at+1] = digest, count
	l.store(number)
}

// Announced returns the operation that a peer began last; number 0 is none, or that
// it goes from one to another just now.
func (t *Team) Announced(rank int) (number, digest, count uint64) {
	l := t.peers[rank].announcedAt
	number = l.load()
	at := announcedCall + 2*(number&1)
	digest, count = atomic.LoadUint64(&l[at]), atomic.LoadUint64(&l[at+1])
	if l.load() != number {
		return 0, 0, 0
	}
	return number, digest, count
}

// Ended tells the peers that the rank has ended an operation.
func (t *Team) Ended(number uint64) {
	Publish(&t.own.announced[announcedEnd], number)
}

// HasEnded returns the last operation that a peer has ended: it does not look at
// this rank's board for it any more.
func (t *Team) HasEnded(rank int) (number uint64) {
	return atomic.LoadUint64(&t.peers[rank].announcedAt[announcedEnd])
}
