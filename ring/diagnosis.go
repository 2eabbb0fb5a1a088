package ring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ringcli/ring/diagnose"
	"ringcli/ring/edges"
	"ringcli/verbs"
)

// Both returns both ends of an edge as they were at one moment: the own one was
// the same before and after the neighbour's was asked for. If the edge does not
// come to rest within a few tries, Busy of the own end says so.
func (x *Ends) Both(ctx context.Context, id EdgeID) (own, peer diagnose.End, err error) {
	if own, err = x.Own(id); err != nil {
		return own, peer, err
	}
	const tries = 4
	for range tries {
		if peer, err = x.Peer(ctx, id); err != nil {
			return own, peer, err
		}
		before := own
		if own, err = x.Own(id); err != nil || diagnose.SameMoment(&before, &own) {
			return own, peer, err
		}
	}
	own.Busy = cmp.Or(own.Busy, "traffic")
	return own, peer, nil
}

// Diagnose explains what went wrong on an edge. cause is the error of a step, a
// ping, a post or an operation, or nil if there was none and yet nothing comes: it
// is as good at the end that waited in vain, and an error that names the other
// edge is none of this one. It asks the neighbour over TCP for its end. The likeliest
// finding comes first: what the own device reported comes before what follows from
// it. A healthy edge has notes at most.
func (x *Ends) Diagnose(ctx context.Context, id EdgeID, cause error) []diagnose.Finding {
	found, netdev := diagnosis(ctx, x, id, cause)
	if cause == nil && !x.table.failed.Load() {
		return found
	}
	d, _ := x.devices.to(id)
	if d == nil {
		return found
	}
	happened := x.devices.events.Findings(d.Name, netdev, x.of.rank, time.Now())
	if edges.Lead(x.of.rank, x.table.standing(bothSides).State, cause) != nil {
		return append(found, happened...)
	}
	return append(happened, found...)
}

// diagnosis is Ends.Diagnose without what the device reported. It returns the network
// interface of the own end, too, if that can be had.
func diagnosis(ctx context.Context, x *Ends, id EdgeID, cause error) (found []diagnose.Finding, netdev string) {
	if completion, ok := errors.AsType[*CompletionError](cause); ok && completion.Edge != id {
		cause = nil // it is the other edge's
	}
	own, peer, err := x.Both(ctx, id)
	if modify, ok := errors.AsType[*verbs.ModifyError](cause); ok && own.Node != "" && modify.QPN != own.QPN {
		cause = nil
	}
	switch {
	case own.Node == "": // the own end cannot be had, so what was asked of it could not work
		return edges.Lead(x.of.rank, x.table.standing(bothSides).State, cmp.Or(cause, err)), ""
	case err != nil:
		mute := mute(ctx, x, &own)
		found := append(edges.Lead(own.Rank, x.table.standing(bothSides).State, cause), edges.Alone(&own, err, x.table.failure())...)
		last := lastPeerEnd(x, id, &own)
		if last == nil || edges.Gone(x.table.failure()) || !diagnose.Failed(&own, last, cause) {
			return append(mute, found...), own.NetDev
		}
		return slices.Concat(mute, diagnose.Diagnose(&own, last, cause), found), own.NetDev
	default:
		return append(edges.Lead(own.Rank, x.table.standing(bothSides).State, cause), diagnose.Diagnose(&own, &peer, cause)...), own.NetDev
	}
}

// mute tells of a neighbour that does not answer a call over TCP either: of a ring
// that has failed everybody may have left, but a host that is up refuses the call.
func mute(ctx context.Context, x *Ends, own *diagnose.End) []diagnose.Finding {
	control, err := x.control.ring()
	if err != nil || !x.table.failed.Load() {
		return nil
	}
	p := control.ProbeRank(ctx, own.Peer)
	if !p.Mute {
		return nil
	}
	return []diagnose.Finding{{
		Severity: diagnose.Fault, Attribute: "tcp", Rank: own.Peer, Own: own.QPState.String(),
		Text: fmt.Sprintf("rank %d (%s) is silent over TCP, too: %s", own.Peer, own.PeerNode, p.State),
		Fix:  "see whether that node runs and its network is up, then connect again",
	}}
}
