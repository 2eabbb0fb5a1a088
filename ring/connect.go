package ring

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"ringcli/configs/usage"
	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// defaultPKey is the P_Key of the default partition, full membership. A soft
// device has no other, and Init asks for index 0.
const defaultPKey = 0xffff

// maxRDAtomic bounds the READs in flight on an edge: what rdma_rxe and common
// NICs take.
const maxRDAtomic = 16

// Init creates both queue pairs and their memory, unless they are there, brings
// them to INIT and posts the receives.
func (r *Ring) Init(ctx context.Context, v Values) error {
	return r.step(ctx, StateInitialised, v, func(context.Context, Token) error {
		if err := r.createEdges(); err != nil {
			return err
		}
		if err := r.describe(r.edges[:]...); err != nil {
			return err
		}
		r.mu.Lock()
		r.exchanged = false
		r.mu.Unlock()
		return r.eachBehind(v, StateInitialised, func(e *Edge) error { return r.initEdge(e, v) })
	})
}

// initEdge takes an edge's queue pair to INIT and posts its receives.
func (r *Ring) initEdge(e *Edge, v Values) error {
	attr := r.opts.attributes(verbs.StateInit)
	attr.Access = either(v.Access, allAccess)
	if err := put("init", into("pkey-index", v.PKeyIndex, &attr.PKeyIndex), into("port", v.Port, &attr.PortNum)); err != nil {
		return err
	}
	if err := verbs.Advance(e.QP, attr); err != nil {
		return err
	}
	err := e.postReceives(either(v.Receives, len(e.recvWR)))
	if err != nil { // without them it is not initialised
		return errors.Join(err, e.QP.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState))
	}
	r.mu.Lock()
	e.given = v
	e.Local.PSN = either(v.PSN, e.Local.PSN)
	r.mu.Unlock()
	return nil
}

// allAccess is what both ends of an edge may do to each other's memory.
const allAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// room is what an edge to a neighbour has space for.
func (r *Ring) room() room {
	return room{r.opts.Slots, r.opts.SlotSize + SlotHeader, recvDepth, sendDepth}
}

// createEdges makes the edges that are not there yet.
func (r *Ring) createEdges() error {
	for _, side := range []Side{Left, Right} {
		if r.edges[side] != nil {
			continue
		}
		e, err := newEdge(side, r.neighbour(side), r.chosen[side].device, r.room())
		if err != nil {
			return err
		}
		r.mu.Lock()
		e.why = r.chosen[side].why
		r.edges[side] = e
		r.mu.Unlock()
	}
	return nil
}

// eachBehind takes a step on the edges that it is for and that have not taken it
// yet: a step that failed half-way goes on where it stopped.
func (r *Ring) eachBehind(v Values, to State, do func(*Edge) error) error {
	for _, side := range v.sides() {
		if r.standing([]Side{side}).State >= to {
			continue
		}
		e := r.edges[side]
		if err := do(e); err != nil {
			return fmt.Errorf("%s queue pair, to %s: %w", e.Side, r.nodeName(e.Peer), err)
		}
		r.mu.Lock()
		r.notify()
		r.mu.Unlock()
	}
	return nil
}

// describe fills in what the peers of edges must know.
func (r *Ring) describe(edges ...*Edge) error {
	for _, e := range edges {
		if err := r.describeEdge(e); err != nil {
			return err
		}
	}
	return nil
}

// describeEdge is describe for one. The GID is looked up anew: its UDP port is
// known only once a socket is bound.
func (r *Ring) describeEdge(e *Edge) error {
	d := e.device
	port := d.Port.Attr
	gid, err := d.GIDEntry()
	if err != nil {
		return err
	}
	active := port.ActiveMTU.Bytes()
	if r.opts.MTU > active {
		return usage.Errorf("mtu %d: expected at most %d, the active MTU of %s", r.opts.MTU, active, d.Name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d.GID.Entry = gid
	l := &e.Local
	l.Device, l.Capabilities, l.LinkLayer = d.Name, d.Attr.Capabilities, port.LinkLayer
	l.GID, l.GIDType, l.LID = gid.GID, gid.Type, port.LID
	l.Port, l.UDPPort, l.MTU, l.SL, l.PKey = d.Port.Num, gid.UDPPort, cmp.Or(r.opts.MTU, active), uint8(r.opts.SL), defaultPKey
	return nil
}

func (r *Ring) neighbour(s Side) int {
	n := len(r.nodes)
	if s == Left {
		return (r.rank + n - 1) % n
	}
	return (r.rank + 1) % n
}

// connectionData is what one end of an edge tells the other in Exchange.
type connectionData struct {
	QPInfo
	Rank     int      `json:"rank"`
	Size     int      `json:"size"`
	Digest   string   `json:"digest"`    // of the list
	MTUFixed bool     `json:"mtu_fixed"` // asked for with --mtu
	RDAtomic int      `json:"rd_atomic"` // READs that this end answers at once
	Locality locality `json:"locality"`
}

// connectionData says what this end of an edge is.
func (r *Ring) connectionData(e *Edge) connectionData {
	own := r.locality()
	r.mu.Lock()
	defer r.mu.Unlock()
	return connectionData{
		QPInfo: e.Local, Rank: r.rank, Size: len(r.nodes), Digest: r.digest, MTUFixed: r.opts.MTU != 0,
		RDAtomic: e.device.readsAnswered(), Locality: own,
	}
}

// Exchange finds both neighbours and swaps the queue pairs' addresses with them,
// in whatever order the nodes start. It may be repeated, until RTR and after a
// Reset: each neighbour then says what it would say now, as soon as its queue
// pair is in INIT or further.
func (r *Ring) Exchange(ctx context.Context) error {
	return r.step(ctx, StateExchanged, Values{}, func(ctx context.Context, _ Token) error {
		swap := r.swap
		if r.met {
			swap = r.askForConnectionData
		}
		remote, err := swap(ctx)
		if err != nil {
			return err
		}
		r.met = true // also if what follows fails, and is repeated by hand
		behind, err := r.moveEdges(remote)
		if err != nil {
			return err
		}
		if err := r.askAgain(ctx, &remote, behind); err != nil {
			return err
		}
		r.mu.Lock()
		r.remote, r.exchanged = remote, true
		for side, e := range r.edges {
			e.Remote = remote[side].QPInfo
		}
		r.mu.Unlock()
		for _, e := range r.edges {
			trace.Debug(trace.Ring, "exchanged with neighbour", slog.Int("neighbour", e.Peer), slog.String("side", e.Side.String()),
				slog.Uint64("qpn", uint64(e.Remote.QPN)), slog.Uint64("psn", uint64(e.Remote.PSN)), slog.String("gid", e.Remote.GID.String()))
		}
		return nil
	})
}

// swap is the first exchange, which finds the neighbours.
func (r *Ring) swap(ctx context.Context) (remote [2]connectionData, err error) {
	fromLeft, fromRight, err := r.control.Exchange(ctx, r.connectionData(r.edges[Left]), r.connectionData(r.edges[Right]))
	if err != nil {
		return remote, err
	}
	for side, raw := range [2]json.RawMessage{Left: fromLeft, Right: fromRight} {
		if err := json.Unmarshal(raw, &remote[side]); err != nil {
			return remote, fmt.Errorf("what %s sent is no queue pair's address: %w", r.nodeName(r.edges[side].Peer), err)
		}
	}
	return remote, nil
}

// RTR compares both ends of each edge and takes the queue pairs to RTR: they can
// receive. Who sends before the neighbours can receive too loses what it sends:
// AwaitNeighbours.
func (r *Ring) RTR(ctx context.Context, v Values) error {
	return r.step(ctx, StateRTR, v, func(context.Context, Token) error {
		return r.eachBehind(v, StateRTR, func(e *Edge) error { return r.rtrEdge(e, r.remote[e.Side], v) })
	})
}

// rtrEdge compares both ends of an edge and takes its queue pair to RTR.
func (r *Ring) rtrEdge(e *Edge, remote connectionData, v Values) error {
	mtu, err := agree(r.nodes, r.connectionData(e), remote, v)
	if err != nil {
		return err
	}
	code, err := verbs.MTUFromBytes(mtu)
	if err != nil {
		return usage.Errorf("mtu %d: expected 256, 512, 1024, 2048 or 4096 bytes: there is no code for another", mtu)
	}
	av, err := r.vector(e, v)
	if err != nil {
		return err
	}
	attr := r.opts.attributes(verbs.StateRTR)
	attr.PathMTU, attr.AH = code, av
	attr.DestQPN, attr.RQPSN = either(v.DestQPN, e.Remote.QPN), either(v.PSN, e.Remote.PSN)
	attr.MaxDestRDAtomic = uint8(e.device.readsAnswered())
	err = put("rtr", into("sl", v.SL, &attr.AH.SL), into("traffic-class", v.TrafficClass, &attr.AH.GRH.TrafficClass),
		into("hop-limit", v.HopLimit, &attr.AH.GRH.HopLimit), into("min-rnr-timer", v.MinRNRTimer, &attr.MinRNRTimer),
		into("max-dest-rd-atomic", v.MaxDestRDAtomic, &attr.MaxDestRDAtomic))
	if err != nil {
		return err
	}
	err = verbs.Advance(e.QP, attr)
	if err != nil {
		return err
	}
	r.mu.Lock()
	e.MTU = mtu
	r.mu.Unlock()
	return nil
}

// vector returns the way to an edge's peer, with what an operator gave instead.
func (r *Ring) vector(e *Edge, v Values) (verbs.AHAttr, error) {
	peer := route.Remote{GID: e.Remote.GID, LID: e.Remote.LID, UDPPort: e.Remote.UDPPort, UDPSocket: e.Remote.Capabilities.UDPSocket}
	d := e.device
	av, err := d.Port.AddressVector(d.GID.Entry.Index, peer, r.opts.service())
	if err != nil {
		return av, err
	}
	// An address that was given is used, also where LIDs would do.
	if v.DGID != nil || v.SGIDIndex != nil {
		av.IsGlobal = true
		av.GRH.DGID, av.GRH.SGIDIndex = either(v.DGID, peer.GID), either(v.SGIDIndex, d.GID.Entry.Index)
	}
	return av, nil
}

// RTS takes the queue pairs to RTS: they can send.
func (r *Ring) RTS(ctx context.Context, v Values) error {
	return r.step(ctx, StateRTS, v, func(context.Context, Token) error {
		return r.eachBehind(v, StateRTS, func(e *Edge) error { return r.rtsEdge(e, r.remote[e.Side], v) })
	})
}

// rtsEdge takes an edge's queue pair to RTS.
func (r *Ring) rtsEdge(e *Edge, remote connectionData, v Values) error {
	attr := r.opts.attributes(verbs.StateRTS)
	attr.SQPSN, attr.MaxRDAtomic = either(v.PSN, e.Local.PSN), uint8(e.device.readsInFlight(remote.RDAtomic))
	err := put("rts", into("qp-timeout", v.Timeout, &attr.Timeout), into("retry-cnt", v.RetryCnt, &attr.RetryCnt),
		into("rnr-retry", v.RNRRetry, &attr.RNRRetry), into("max-rd-atomic", v.MaxRDAtomic, &attr.MaxRDAtomic))
	if err != nil {
		return err
	}
	err = verbs.Advance(e.QP, attr)
	if err != nil {
		return err
	}
	r.mu.Lock()
	e.pinged = false
	r.mu.Unlock()
	trace.Debug(trace.Ring, fmt.Sprintf("connected to neighbour %d", e.Peer), slog.Int("neighbour", e.Peer),
		slog.String("side", e.Side.String()), slog.Int("mtu", e.MTU))
	return nil
}
