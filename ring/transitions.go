package ring

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/edges"
	"ringcli/ring/steps"
	"ringcli/trace"
	"ringcli/verbs"
)

// describe fills in what the peer must know. The GID is looked up anew: its UDP port is
// known only once a socket is bound.
func (e *Edge) describe() error {
	r := e.r
	d := e.device
	gid, err := d.GIDEntry()
	if err != nil {
		return err
	}
	active := d.Port.Attr.ActiveMTU.Bytes()
	if r.opts.MTU > active {
		return usage.Codedf(codes.MTU, "mtu %d: expected at most %d, the active MTU of %s", r.opts.MTU, active, d.Name)
	}
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	d.GID.Entry = gid
	e.Local.Describe(d, gid, cmp.Or(r.opts.MTU, active), r.opts.SL)
	return nil
}

func (e *Edge) connectionData() connectionData {
	r := e.r
	own, channels := r.opts.Locality(), 1
	if !e.ID.IsMesh() {
		channels = r.opts.Channels
	}
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	return connectionData{
		QPInfo: e.Local, Rank: r.rank, Size: len(r.nodes), Digest: r.digest, MTUFixed: r.opts.MTU != 0,
		RDAtomic: e.device.ReadsAnswered(), Locality: own, Channels: channels,
	}
}

// offer is what this end of an edge says of all its channels.
func (e *Edge) offer() *edges.Offer {
	o := &edges.Offer{Data: e.connectionData()}
	for _, e := range e.beside {
		o.Beside = append(o.Beside, e.connectionData())
	}
	return o
}

// toInit takes the queue pair to INIT and posts its receives.
func (e *Edge) toInit(v Values) error {
	r := e.r
	attr := r.opts.Attributes(verbs.StateInit)
	attr.Access = edges.Either(v.Access, edges.AllAccess)
	if err := e.advance(StateInitialised, &attr, edges.Fit("pkey-index", v.PKeyIndex, &attr.PKeyIndex), edges.Fit("port", v.Port, &attr.PortNum)); err != nil {
		return err
	}
	n := edges.Either(v.Receives, len(e.recvWR))
	if _, err := e.QP.PostRecv(e.recvWR[:n]); err != nil { // without them it is not initialised
		return errors.Join(fmt.Errorf("post %d receives: %w", n, err), e.QP.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState))
	}
	r.table.mu.Lock()
	e.given = v
	e.Local.PSN = edges.Either(v.PSN, e.Local.PSN)
	r.table.mu.Unlock()
	return nil
}

// toRTR compares both ends and takes the queue pair to RTR.
func (e *Edge) toRTR(v Values) error {
	r := e.r
	mtu, err := edges.Agree(r.nodes, e.connectionData(), e.Remote, v)
	if err != nil {
		return err
	}
	code, err := verbs.MTUFromBytes(mtu)
	if err != nil {
		return usage.Errorf("mtu %d: expected 256, 512, 1024, 2048 or 4096 bytes: there is no code for another", mtu)
	}
	av, err := e.vector(v)
	if err != nil {
		return err
	}
	attr := r.opts.Attributes(verbs.StateRTR)
	attr.PathMTU, attr.AH = code, av
	if e.ID.Channel() > 0 {
		v.DestQPN = nil // one queue pair has it
	}
	attr.DestQPN, attr.RQPSN = edges.Either(v.DestQPN, e.Remote.QPN), edges.Either(v.PSN, e.Remote.PSN)
	attr.MaxDestRDAtomic = uint8(e.device.ReadsAnswered())
	err = e.advance(StateRTR, &attr, edges.Fit("sl", v.SL, &attr.AH.SL), edges.Fit("traffic-class", v.TrafficClass, &attr.AH.GRH.TrafficClass),
		edges.Fit("hop-limit", v.HopLimit, &attr.AH.GRH.HopLimit), edges.Fit("min-rnr-timer", v.MinRNRTimer, &attr.MinRNRTimer),
		edges.Fit("max-dest-rd-atomic", v.MaxDestRDAtomic, &attr.MaxDestRDAtomic))
	if err != nil {
		return err
	}
	r.table.change(func() { e.MTU = mtu })
	return nil
}

// vector returns the address vector to the peer, with what an operator gave instead.
func (e *Edge) vector(v Values) (verbs.AHAttr, error) {
	av, err := e.Remote.Vector(e.device, e.r.opts.Service(), e.ID.Channel())
	if err != nil {
		return av, err
	}
	// An address that was given is used, also where LIDs would do.
	if v.DGID != nil || v.SGIDIndex != nil {
		av.IsGlobal = true
		av.GRH.DGID, av.GRH.SGIDIndex = edges.Either(v.DGID, e.Remote.GID), edges.Either(v.SGIDIndex, e.device.GID.Entry.Index)
	}
	return av, nil
}

// advance takes the queue pair a step on, if the values that are given fit.
func (e *Edge) advance(to State, attr *verbs.QPAttr, fits ...error) error {
	if err := cmp.Or(fits...); err != nil {
		return fmt.Errorf("%s: %w", steps.Names[to], err)
	}
	return verbs.Advance(e.QP, *attr)
}

func (e *Edge) toRTS(v Values) error {
	r := e.r
	attr := r.opts.Attributes(verbs.StateRTS)
	attr.SQPSN, attr.MaxRDAtomic = edges.Either(v.PSN, e.Local.PSN), uint8(e.device.ReadsInFlight(e.Remote.RDAtomic))
	err := e.advance(StateRTS, &attr, edges.Fit("qp-timeout", v.Timeout, &attr.Timeout), edges.Fit("retry-cnt", v.RetryCnt, &attr.RetryCnt),
		edges.Fit("rnr-retry", v.RNRRetry, &attr.RNRRetry), edges.Fit("max-rd-atomic", v.MaxRDAtomic, &attr.MaxRDAtomic))
	if err != nil {
		return err
	}
	r.table.change(func() { e.pinged, e.compared = false, false })
	trace.Debug(trace.Ring, fmt.Sprintf("connected to neighbour %d", e.Peer), slog.Int("neighbour", e.Peer),
		slog.String("side", e.Side.String()), slog.Int("channel", e.ID.Channel()), slog.Int("mtu", e.MTU))
	return nil
}
