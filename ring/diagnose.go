package ring

import "context"

// Diagnose explains what went wrong on an edge: cause is the error of a step, a
// ping, a post or an operation, or nil if there was none, but nothing comes. It
// asks the neighbour over TCP for its end. The likeliest finding comes first.
func (r *Ring) Diagnose(ctx context.Context, side Side, cause error) []Finding {
	own, err := r.OwnEnd(side)
	if err != nil {
		return []Finding{{Severity: Fault, Attribute: "state", Rank: r.rank, Own: r.State().String(), Text: err.Error()}}
	}
	peer, err := r.PeerEnd(ctx, side)
	if err != nil {
		return []Finding{{Severity: Fault, Attribute: "tcp", Rank: own.Peer, Text: err.Error()}}
	}
	return Compare(own, peer)
}

// Explain puts the likeliest finding into one line, or returns "".
func Explain(findings []Finding) string {
	if len(findings) == 0 {
		return ""
	}
	return findings[0].String()
}
