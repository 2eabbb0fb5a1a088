package lateness

import (
	"cmp"
	"fmt"
	"strings"

	"ringcli/verbs"
)

// Loss is what the sender of an edge counted of its packets. The receiver asks for a packet
// that is missing with a NAK, which a machine without a free CPU does not cause. A timer
// also runs out where a rank at either end does not run.
type Loss struct {
	From     int64 `json:"from"`
	To       int64 `json:"to"`
	Sent     int64 `json:"sent_packets"`   // those sent again included
	Resent   int64 `json:"resent_packets"` // of them: sent again
	NAKs     int64 `json:"sequence_naks"`  // a packet was missing
	Timeouts int64 `json:"timeouts"`       // of the retransmission timer
	RNRs     int64 `json:"rnr_naks"`       // the receiver had posted no receive
}

// Any tells whether anything but packets was counted.
func (l Loss) Any() bool { return l.Resent+l.NAKs+l.Timeouts+l.RNRs > 0 }

// Share is which part of the packets was sent again, 0 to 1.
func (l Loss) Share() float64 { return float64(l.Resent) / float64(max(1, l.Sent)) }

// LossOf is what a rank's queue pairs to a peer have counted. Of a READ it is the peer's
// packets that are missing.
func LossOf(l verbs.Losses, rank, peer int) Loss {
	if l.ImpliedNAKs > l.SequenceNAKs {
		rank, peer = peer, rank
	}
	return Loss{int64(rank), int64(peer), int64(l.Sent), int64(l.Resent), int64(l.SequenceNAKs + l.ImpliedNAKs), int64(l.Timeouts), int64(l.RNRNAKs)}
}

// compare orders by what was sent again, and then by what else was counted.
func (l Loss) compare(o Loss) int {
	return cmp.Or(cmp.Compare(l.Resent, o.Resent), cmp.Compare(l.NAKs+l.Timeouts+l.RNRs, o.NAKs+o.Timeouts+o.RNRs), cmp.Compare(l.Sent, o.Sent))
}

// Plus is the sum of two counts of an edge, or the worse of two edges.
func (l Loss) Plus(o Loss) Loss {
	switch {
	case l.From == o.From && l.To == o.To:
		return Loss{l.From, l.To, l.Sent + o.Sent, l.Resent + o.Resent, l.NAKs + o.NAKs, l.Timeouts + o.Timeouts, l.RNRs + o.RNRs}
	case o.compare(l) > 0:
		return o
	}
	return l
}

// String is what was counted: "resent 12 of 345 packets (3.5 %); sequence NAKs: 7".
func (l Loss) String() string {
	list := []string{fmt.Sprintf("resent %d of %d packets (%.2g %%)", l.Resent, l.Sent, 100*l.Share())}
	for _, c := range []struct {
		what string
		n    int64
	}{{"sequence NAKs", l.NAKs}, {"timeouts", l.Timeouts}, {"RNR NAKs", l.RNRs}} {
		if c.n > 0 {
			list = append(list, fmt.Sprintf("%s: %d", c.what, c.n))
		}
	}
	return strings.Join(list, "; ")
}
