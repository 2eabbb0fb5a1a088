package collective

import "ringcli/ring"

// Kinds of messages, and of the headers in slots.
const (
	kindSlot   = ring.KindUser + iota // before the payload in a slot
	kindRTS                           // from the left: a segment is ready, or will be
	kindCTS                           // from the right: write it there
	kindFIN                           // from the right: it has been read
	kindCredit                        // from the right: slots are free again
)

var messageNames = [kindCredit + 1]string{
	kindSlot: "eager segment", kindRTS: "RTS", kindCTS: "CTS", kindFIN: "FIN", kindCredit: "credit",
}

func init() {
	for kind := kindSlot; kind <= kindCredit; kind++ {
		ring.NameKind(kind, messageNames[kind])
	}
}
