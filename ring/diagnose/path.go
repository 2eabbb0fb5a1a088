package diagnose

import (
	"cmp"
	"fmt"
	"time"

	"ringcli/ring/bootstrap/verdict"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// Probed is what came of probes between the two ends of an edge: packets as long as those of
// these path MTUs, in bytes, of which 0 is the shortest.
type Probed struct {
	MTUs    []int // sent, both ways
	Outward []int // of the own end's, those that the peer has
	Inward  []int // of the peer's, those that the own end has
}

// Downfall blames the peer's queue pair if that has failed; nil if it has not, or its retries
// ran out, which may follow from the same. It is certain if the peer knows its first failure:
// that of a request whose completion nobody has polled yet is not known.
func Downfall(own, peer *End) *Blame {
	if !peer.is(verbs.StateErr, verbs.StateSQE) || peer.Failure.HasStatus(verbs.RetryExceeded) {
		return nil
	}
	return &Blame{
		Kind: StallEdge, Rank: -1, From: own.Rank, To: peer.Rank, Both: true, Waiter: own.Rank,
		Certain: peer.Failure != nil && !peer.Failure.HasStatus(verbs.FlushError),
		Text:    fmt.Sprintf("the queue pair of %s to rank %d has failed and is %s: %s", peer.Who(), own.Rank, peer.QPState, peer.downfall()), Fix: "connect again",
	}
}

// Tests are what came of probes in both directions or, where a device cannot probe (probed is
// nil), of what both ends have sent, expect and count: then there is one if it tells which
// direction does not carry. failed is the request of the own end that its retries did not
// bring through.
func Tests(own, peer *End, failed *Failure, probed *Probed) []verdict.Test {
	outward := verdict.Test{From: own.Rank, To: peer.Rank, Address: peer.GID.Addr().String(), Port: cmp.Or(peer.UDPPort, route.RoCEPort)}
	inward := verdict.Test{From: peer.Rank, To: own.Rank, Address: own.GID.Addr().String(), Port: cmp.Or(own.UDPPort, route.RoCEPort)}
	if failed.HasStatus(verbs.RetryExceeded) {
		outward.Since = verbs.AckTimeout(own.QPTimeout) * time.Duration(own.RetryCnt+1)
		inward.Since = outward.Since // acknowledgements are lost, too
	}
	if probed != nil {
		outward.Sent, outward.Arrived = probed.MTUs, probed.Outward
		inward.Sent, inward.Arrived = probed.MTUs, probed.Inward
		return []verdict.Test{outward, inward}
	}
	// By the PSNs: the peer that expects what is sent next has all before.
	if own.SQPSNFirst == nil || peer.RQPSNFirst == nil || !peer.is(verbs.StateRTR, verbs.StateRTS) {
		return nil
	}
	seen := fmt.Sprintf("rank %d sends PSN %s next, and rank %d expects %s; at rank %[3]d", own.Rank, verbs.Hex(own.SQPSN), peer.Rank, verbs.Hex(peer.RQPSN))
	for _, name := range []string{"port_rcv_packets", "duplicate_request", "sent_acks"} {
		seen += " " + peer.growth(name)
	}
	if psnDiff(own.SQPSN, peer.RQPSN) == 0 {
		inward.Counted = "no acknowledgement came back: " + seen
		return []verdict.Test{inward}
	}
	outward.Counted = seen
	if failed != nil && failed.Length > uint64(own.PathMTU) {
		outward.Counted += fmt.Sprintf("; a link with a smaller MTU than %d does the same: this device cannot send probes, so ping with --mtu 1024 tells", own.PathMTU)
	}
	return []verdict.Test{outward}
}

// PathBlame blames what a verdict on tests names. waiter is a rank that waits for it.
func PathBlame(v *verdict.Verdict, waiter int) *Blame {
	b := &Blame{
		Kind: StallEdge, Rank: v.Rank, From: v.Edge.From, To: v.Edge.To, Both: v.Edge.Both, Certain: v.Confidence == verdict.Certain, Waiter: waiter,
		Text: v.Text, Fix: v.Fix, Tested: v,
	}
	if v.Edge.IsZero() {
		b.From, b.To = -1, -1
	}
	return b
}
