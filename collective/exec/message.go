package exec

import (
	"ringcli/ring/message"
)

// Kinds of messages, and of the headers in slots.
const (
	kindSlot    = message.User + iota // before the payload in a slot
	kindRTS                           // from the left: a segment is ready, or will be
	kindCTS                           // from the right: write it there
	kindFIN                           // from the right: it has been read
	kindCredit                        // from the right: slots are free again
	kindWritten                       // from the left: a segment lies in its place, with its checksum
)

var messageNames = [kindWritten + 1]string{
	kindSlot: "eager segment", kindRTS: "RTS", kindCTS: "CTS", kindFIN: "FIN", kindCredit: "credit", kindWritten: "checksum",
}

func init() {
	for kind := kindSlot; kind <= kindWritten; kind++ {
		message.Name(kind, messageNames[kind])
	}
}
