package ring

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"ringcli/ring/bootstrap"
	"ringcli/trace"
	"ringcli/verbs"
)

// defaultPKey is the P_Key of the default partition, full membership. A soft
// device has no other, and Init asks for index 0.
const defaultPKey = 0xffff

// maxRDAtomic bounds the READs in flight on an edge: what rdma_rxe and common
// NICs take.
const maxRDAtomic = 16

// Init creates both queue pairs and their memory, brings them to INIT and posts
// all receives.
func (r *Ring) Init(ctx context.Context) error {
	return r.step(ctx, StateInitialised, func(context.Context) error {
		for _, side := range []Side{Left, Right} {
			e, err := newEdge(side, r.neighbour(side), r.pd, r.cq, r.opts.Slots, r.opts.SlotSize+SlotHeader)
			if err != nil {
				return err
			}
			r.mu.Lock()
			r.edges[side] = e
			r.mu.Unlock()
			err = e.QP.Modify(verbs.QPAttr{
				State: verbs.StateInit, PortNum: r.opts.Port,
				Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic,
			}, verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrAccess)
			if err != nil {
				return err
			}
			if err := e.postAll(); err != nil {
				return err
			}
		}
		return r.describeEdges()
	})
}

// describeEdges fills in what the neighbours must know. The GID is looked up
// anew: its UDP port is known only once a socket is bound.
func (r *Ring) describeEdges() error {
	gid, err := r.context.QueryGID(r.opts.Port, r.gid.Index)
	if err != nil {
		return err
	}
	r.gid = gid
	mtu := r.opts.MTU
	if mtu == 0 {
		mtu = r.port.ActiveMTU.Bytes()
	}
	if mtu > r.port.ActiveMTU.Bytes() {
		return bootstrap.Usagef("mtu %d: expected at most %d, the active MTU of %s", mtu, r.port.ActiveMTU.Bytes(), r.context.Device().Name())
	}
	name := r.context.Device().Name()
	provider, _, _ := strings.Cut(name, ":")
	for _, e := range r.edges {
		l := &e.Local
		l.Device, l.Provider, l.LinkLayer = name, provider, r.port.LinkLayer.String()
		l.GID, l.GIDType, l.LID = gid.GID, gid.Type, r.port.LID
		l.Port, l.UDPPort, l.MTU, l.SL, l.PKey = r.opts.Port, gid.UDPPort, mtu, uint8(r.opts.SL), defaultPKey
	}
	return nil
}

func (r *Ring) neighbour(s Side) int {
	n := len(r.nodes)
	if s == Left {
		return (r.rank + n - 1) % n
	}
	return (r.rank + 1) % n
}

// offer is what one end of an edge tells the other in Exchange.
type offer struct {
	QPInfo
	Rank     int    `json:"rank"`
	Size     int    `json:"size"`
	Digest   string `json:"digest"`    // of the list
	MTUFixed bool   `json:"mtu_fixed"` // asked for with --mtu
	RDAtomic int    `json:"rd_atomic"` // READs that this end answers at once
	BootID   string `json:"boot_id"`   // of the kernel: equal on one host
}

func (r *Ring) offer(side Side) offer {
	return offer{
		QPInfo: r.edges[side].Local, Rank: r.rank, Size: len(r.nodes), Digest: r.digest, MTUFixed: r.opts.MTU != 0,
		RDAtomic: min(maxRDAtomic, r.device.MaxQPRDAtomic), BootID: bootID(),
	}
}

// bootID returns the kernel's, or nothing where /proc is not mounted.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Exchange finds both neighbours and swaps the queue pairs' addresses with them,
// in whatever order the nodes start.
func (r *Ring) Exchange(ctx context.Context) error {
	return r.step(ctx, StateExchanged, func(ctx context.Context) error {
		fromLeft, fromRight, err := r.control.Exchange(ctx, r.offer(Left), r.offer(Right))
		if err != nil {
			return err
		}
		for side, raw := range [2]json.RawMessage{Left: fromLeft, Right: fromRight} {
			e := r.edges[side]
			if err := json.Unmarshal(raw, &r.remote[side]); err != nil {
				return fmt.Errorf("what rank %d sent is no queue pair's address: %w", e.Peer, err)
			}
			e.Remote = r.remote[side].QPInfo
			trace.Debug(trace.Ring, "exchanged with neighbour", slog.Int("neighbour", e.Peer), slog.String("side", e.Side.String()),
				slog.Uint64("qpn", uint64(e.Remote.QPN)), slog.Uint64("psn", uint64(e.Remote.PSN)), slog.String("gid", e.Remote.GID.String()))
		}
		return nil
	})
}

// RTR compares both ends of each edge, takes the queue pairs to RTR and waits
// until all ranks have.
func (r *Ring) RTR(ctx context.Context) error {
	return r.step(ctx, StateRTR, func(ctx context.Context) error {
		for _, e := range r.edges {
			mtu, err := agree(r.nodes, r.offer(e.Side), r.remote[e.Side])
			if err != nil {
				return err
			}
			code, err := verbs.MTUFromBytes(mtu)
			if err != nil {
				return err
			}
			e.MTU = mtu
			err = e.QP.Modify(verbs.QPAttr{
				State: verbs.StateRTR, PathMTU: code, DestQPN: e.Remote.QPN, RQPSN: e.Remote.PSN,
				MaxDestRDAtomic: uint8(min(maxRDAtomic, r.device.MaxQPRDAtomic)), MinRNRTimer: uint8(*r.opts.MinRNRTimer),
				AH: verbs.AHAttr{
					IsGlobal: true, DLID: e.Remote.LID, SL: uint8(r.opts.SL), PortNum: r.opts.Port,
					GRH:  verbs.GlobalRoute{DGID: e.Remote.GID, SGIDIndex: r.gid.Index, HopLimit: 64, TrafficClass: uint8(r.opts.TrafficClass)},
					Soft: verbs.SoftPath{UDPPort: e.Remote.UDPPort, Soft: e.Remote.Provider == "soft"},
				},
			}, verbs.AttrState|verbs.AttrAV|verbs.AttrPathMTU|verbs.AttrDestQPN|verbs.AttrRQPSN|verbs.AttrMaxDestRDAtomic|verbs.AttrMinRNRTimer)
			if err != nil {
				return fmt.Errorf("%s queue pair, to rank %d (%s): %w", e.Side, e.Peer, e.Remote.GID.Addr(), err)
			}
		}
		// Nobody sends before everybody can receive.
		return r.control.Barrier(ctx)
	})
}

// RTS takes the queue pairs to RTS: they can send.
func (r *Ring) RTS(ctx context.Context) error {
	return r.step(ctx, StateRTS, func(context.Context) error {
		for _, e := range r.edges {
			err := e.QP.Modify(verbs.QPAttr{
				State: verbs.StateRTS, SQPSN: e.Local.PSN, Timeout: uint8(*r.opts.QPTimeout), RetryCnt: uint8(*r.opts.RetryCnt),
				RNRRetry: uint8(*r.opts.RNRRetry), MaxRDAtomic: uint8(min(maxRDAtomic, r.remote[e.Side].RDAtomic)),
			}, verbs.AttrState|verbs.AttrTimeout|verbs.AttrRetryCnt|verbs.AttrRNRRetry|verbs.AttrSQPSN|verbs.AttrMaxRDAtomic)
			if err != nil {
				return fmt.Errorf("%s queue pair, to rank %d (%s): %w", e.Side, e.Peer, e.Remote.GID.Addr(), err)
			}
			trace.Debug(trace.Ring, fmt.Sprintf("connected to neighbour %d", e.Peer), slog.Int("neighbour", e.Peer),
				slog.String("side", e.Side.String()), slog.Int("mtu", e.MTU))
		}
		return nil
	})
}
