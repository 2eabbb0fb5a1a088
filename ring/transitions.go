package ring

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/locality"
	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// defaultPKey is the P_Key of the default partition, full membership. A soft
// device has no other, and Init asks for index 0.
const defaultPKey = 0xffff

// describe fills in what the peer must know. The GID is looked up anew: its UDP port is
// known only once a socket is bound.
func (e *Edge) describe() error {
	r := e.r
	d := e.device
	port := d.Port.Attr
	gid, err := d.GIDEntry()
	if err != nil {
		return err
	}
	active := port.ActiveMTU.Bytes()
	if r.opts.MTU > active {
		return usage.Codedf(codes.MTU, "mtu %d: expected at most %d, the active MTU of %s", r.opts.MTU, active, d.Name)
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

// connectionData is what one end of an edge tells the other in Exchange.
type connectionData struct {
	QPInfo
	Rank     int               `json:"rank"`
	Size     int               `json:"size"`
	Digest   string            `json:"digest"`    // of the list
	MTUFixed bool              `json:"mtu_fixed"` // asked for with --mtu
	RDAtomic int               `json:"rd_atomic"` // READs that this end answers at once
	Locality locality.Locality `json:"locality"`
}

func (e *Edge) connectionData() connectionData {
	r := e.r
	own := r.opts.locality()
	r.mu.Lock()
	defer r.mu.Unlock()
	return connectionData{
		QPInfo: e.Local, Rank: r.rank, Size: len(r.nodes), Digest: r.digest, MTUFixed: r.opts.MTU != 0,
		RDAtomic: e.device.readsAnswered(), Locality: own,
	}
}

// toInit takes the queue pair to INIT and posts its receives.
func (e *Edge) toInit(v Values) error {
	r := e.r
	attr := r.opts.attributes(verbs.StateInit)
	attr.Access = either(v.Access, allAccess)
	if err := e.advance(StateInitialised, &attr, fit("pkey-index", v.PKeyIndex, &attr.PKeyIndex), fit("port", v.Port, &attr.PortNum)); err != nil {
		return err
	}
	n := either(v.Receives, len(e.recvWR))
	if _, err := e.QP.PostRecv(e.recvWR[:n]); err != nil { // without them it is not initialised
		return errors.Join(fmt.Errorf("post %d receives: %w", n, err), e.QP.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState))
	}
	r.mu.Lock()
	e.given = v
	e.Local.PSN = either(v.PSN, e.Local.PSN)
	r.mu.Unlock()
	return nil
}

// allAccess is what both ends of an edge may do to each other's memory.
const allAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// toRTR compares both ends and takes the queue pair to RTR.
func (e *Edge) toRTR(v Values) error {
	r := e.r
	mtu, err := agree(r.nodes, e.connectionData(), e.Remote, v)
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
	attr := r.opts.attributes(verbs.StateRTR)
	attr.PathMTU, attr.AH = code, av
	attr.DestQPN, attr.RQPSN = either(v.DestQPN, e.Remote.QPN), either(v.PSN, e.Remote.PSN)
	attr.MaxDestRDAtomic = uint8(e.device.readsAnswered())
	err = e.advance(StateRTR, &attr, fit("sl", v.SL, &attr.AH.SL), fit("traffic-class", v.TrafficClass, &attr.AH.GRH.TrafficClass),
		fit("hop-limit", v.HopLimit, &attr.AH.GRH.HopLimit), fit("min-rnr-timer", v.MinRNRTimer, &attr.MinRNRTimer),
		fit("max-dest-rd-atomic", v.MaxDestRDAtomic, &attr.MaxDestRDAtomic))
	if err != nil {
		return err
	}
	r.change(func() { e.MTU = mtu })
	return nil
}

// vector returns the address vector to the peer, with what an operator gave instead.
func (e *Edge) vector(v Values) (verbs.AHAttr, error) {
	peer := route.Remote{GID: e.Remote.GID, LID: e.Remote.LID, UDPPort: e.Remote.UDPPort, UDPSocket: e.Remote.Capabilities.UDPSocket}
	d, o := e.device, &e.r.opts
	av, err := d.Port.AddressVector(d.GID.Entry.Index, peer, route.Service{SL: uint8(o.SL), TrafficClass: uint8(o.TrafficClass)})
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

func (e *Edge) toRTS(v Values) error {
	r := e.r
	attr := r.opts.attributes(verbs.StateRTS)
	attr.SQPSN, attr.MaxRDAtomic = either(v.PSN, e.Local.PSN), uint8(e.device.readsInFlight(e.Remote.RDAtomic))
	err := e.advance(StateRTS, &attr, fit("qp-timeout", v.Timeout, &attr.Timeout), fit("retry-cnt", v.RetryCnt, &attr.RetryCnt),
		fit("rnr-retry", v.RNRRetry, &attr.RNRRetry), fit("max-rd-atomic", v.MaxRDAtomic, &attr.MaxRDAtomic))
	if err != nil {
		return err
	}
	r.change(func() { e.pinged = false })
	trace.Debug(trace.Ring, fmt.Sprintf("connected to neighbour %d", e.Peer), slog.Int("neighbour", e.Peer),
		slog.String("side", e.Side.String()), slog.Int("mtu", e.MTU))
	return nil
}
