package direct

import "sync/atomic"

// Words of the line in which a rank tells what it is in. Its first word is the
// number of the operation.
const (
	announcedDigest = 1 + iota
	announcedCount
	announcedEnd
)

// Announce tells the peers which operation the rank begins, by whatever means it
// computes that: whoever waits for this rank elsewhere can then say so. Numbers
// grow from 1.
func (t *Team) Announce(number, digest, count uint64) {
	l := t.own.announced
	l[announcedDigest], l[announcedCount] = digest, count
	l.store(number)
}

// Announced returns the operation that a peer began last; number 0 is none. It is
// for a peer that has waited in it for a while: of one that goes on meanwhile,
// digest and count may be the next operation's.
func (t *Team) Announced(rank int) (number, digest, count uint64) {
	l := t.peers[rank].announcedAt
	number = l.load()
	return number, l[announcedDigest], l[announcedCount]
}

// Ended tells the peers that the rank has ended an operation.
func (t *Team) Ended(number uint64) {
	publish(&t.own.announced[announcedEnd], number)
}

// HasEnded returns the last operation that a peer has ended: it does not look at
// this rank's board for it any more.
func (t *Team) HasEnded(rank int) (number uint64) {
	return atomic.LoadUint64(&t.peers[rank].announcedAt[announcedEnd])
}
