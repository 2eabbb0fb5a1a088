package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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

// Path says which direction of an edge does not carry, and for packets of which size, by
// probes or, where a device cannot probe (probed is nil), by what both ends have sent, expect
// and count. failed is the request of the own end that its retries did not bring through. It
// returns nil if the path carries everything, or that cannot be told.
func Path(own, peer *End, failed *Failure, probed *Probed) *Blame {
	if peer.is(verbs.StateErr, verbs.StateSQE) && !peer.Failure.HasStatus(verbs.RetryExceeded) { // which may follow from the same
		return &Blame{
			Kind: StallEdge, Rank: -1, From: own.Rank, To: peer.Rank, Both: true, Certain: true, Waiter: own.Rank,
			Text: fmt.Sprintf("the queue pair of %s to rank %d has failed and is %s: %s", peer.Who(), own.Rank, peer.QPState, peer.downfall()), Fix: "connect again",
		}
	}
	if probed != nil {
		return byProbes(own, peer, probed)
	}
	return byCounters(own, peer, failed)
}

func byProbes(own, peer *End, probed *Probed) *Blame {
	way := func(came []int) (none bool, most int, all bool) {
		return len(came) == 0, slices.Max(append([]int{0}, came...)), len(came) == len(probed.MTUs)
	}
	noneOut, mostOut, allOut := way(probed.Outward)
	noneIn, mostIn, allIn := way(probed.Inward)
	b := &Blame{Kind: StallEdge, Rank: -1, From: own.Rank, To: peer.Rank, Certain: true, Waiter: own.Rank}
	open := func(from, to *End) string {
		return fmt.Sprintf("look for a filter or a broken route from rank %d to rank %d: UDP port %d to %s; TCP between them works",
			from.Rank, to.Rank, cmp.Or(to.UDPPort, route.RoCEPort), to.GID.Addr())
	}
	arrives := func(from, to *End, but string) {
		b.From, b.To = from.Rank, to.Rank
		b.Text = fmt.Sprintf("what %s sends to %s over UDP port %d does not arrive%s", from.Who(), to.Who(), cmp.Or(to.UDPPort, route.RoCEPort), but)
		b.Fix = open(from, to)
	}
	long := func(from, to *End, most int) {
		b.From, b.To = from.Rank, to.Rank
		over := fmt.Sprintf("over %d bytes", most)
		if most == 0 {
			over = fmt.Sprintf("of %d bytes and more", slices.Min(slices.DeleteFunc(slices.Clone(probed.MTUs), func(m int) bool { return m == 0 })))
		}
		b.Text = fmt.Sprintf("packets with %s of payload from %s do not arrive at %s, and shorter ones do: the path's MTU is below the %d of the queue pair",
			over, from.Who(), to.Who(), from.PathMTU)
		b.Fix = fmt.Sprintf("see which link between the two has a smaller MTU (ip link; tracepath %s), or connect again with --mtu %d", to.GID.Addr(), max(256, most))
	}
	// Where a longer one has come, those that are missing were lost.
	holes := func(came []int) bool { return !slices.Equal(came, probed.MTUs[:min(len(came), len(probed.MTUs))]) }
	loses := func(from, to *End, came []int) {
		b.From, b.To, b.Certain = from.Rank, to.Rank, false
		b.Text = fmt.Sprintf("the path from %s to %s loses many packets: of those with %v bytes of payload, which were sent several times each, those with %v arrived",
			from.Who(), to.Who(), probed.MTUs, came)
		b.Fix = "see what drops them (ip -s link, ethtool -S, the switch's counters)"
	}
	switch {
	case noneOut && noneIn:
		b.Text = fmt.Sprintf("no packet of UDP port %d passes between %s and %s, in either direction", cmp.Or(peer.UDPPort, route.RoCEPort), own.Who(), peer.Who())
		b.Fix = open(own, peer)
		b.Both = true
	case noneOut:
		arrives(own, peer, fmt.Sprintf("; what rank %d sends does", peer.Rank))
	case noneIn:
		arrives(peer, own, fmt.Sprintf("; what rank %d sends does", own.Rank))
	case holes(probed.Outward):
		loses(own, peer, probed.Outward)
	case holes(probed.Inward):
		loses(peer, own, probed.Inward)
	case !allOut:
		long(own, peer, mostOut)
		b.Both = !allIn && mostIn == mostOut
	case !allIn:
		long(peer, own, mostIn)
	default:
		return nil
	}
	return b
}

// byCounters goes by the PSNs: the peer that expects what is sent next has all before.
func byCounters(own, peer *End, failed *Failure) *Blame {
	if own.SQPSNFirst == nil || peer.RQPSNFirst == nil || !peer.is(verbs.StateRTR, verbs.StateRTS) {
		return nil
	}
	b := &Blame{Kind: StallEdge, Rank: -1, From: own.Rank, To: peer.Rank, Waiter: own.Rank}
	missing := psnDiff(own.SQPSN, peer.RQPSN)
	seen := fmt.Sprintf("rank %d sends PSN %d next, and rank %d expects %d", own.Rank, own.SQPSN, peer.Rank, peer.RQPSN)
	counted := []string{"at rank " + fmt.Sprint(peer.Rank)}
	for _, name := range []string{"port_rcv_packets", "duplicate_request", "sent_acks"} {
		counted = append(counted, peer.growth(name))
	}
	seen += "; " + strings.Join(counted, " ")
	if missing == 0 {
		b.From, b.To = peer.Rank, own.Rank
		b.Text = fmt.Sprintf("what %s sent has arrived at %s, and no acknowledgement came back: %s", own.Who(), peer.Who(), seen)
		b.Fix = fmt.Sprintf("look for a filter or loss from rank %d to rank %d", peer.Rank, own.Rank)
		return b
	}
	b.Text = fmt.Sprintf("what %s sends does not arrive at %s: %s", own.Who(), peer.Who(), seen)
	b.Fix = fmt.Sprintf("look for a filter or loss of UDP port %d from rank %d to rank %d", cmp.Or(peer.UDPPort, route.RoCEPort), own.Rank, peer.Rank)
	if failed != nil && failed.Length > uint64(own.PathMTU) {
		b.Fix += fmt.Sprintf("; or for a link with a smaller MTU than %d: this device cannot send probes, so ping with --mtu 1024 tells", own.PathMTU)
	}
	return b
}
