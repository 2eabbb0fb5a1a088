package ring

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ringcli/verbs"
)

// End is one end of an edge: what its queue pair, its port and its GID table say
// at this moment (ibv_query_qp, ibv_query_port, ibv_query_gid), and below what the
// ring itself knows. Attributes that the queue pair has not been given yet are 0.
type End struct {
	Rank     int    `json:"rank"`
	Node     string `json:"node"`
	Side     string `json:"side"`
	Peer     int    `json:"peer"`
	PeerNode string `json:"peer_node"`

	Device    string    `json:"device"`
	Provider  string    `json:"provider"`
	NetDev    string    `json:"netdev"`
	LinkLayer string    `json:"link_layer"`
	PortState string    `json:"port_state"`
	GID       verbs.GID `json:"gid"` // of sgid_index from RTR on, else the chosen one
	GIDType   string    `json:"gid_type"`
	GIDIndex  int       `json:"gid_index"`
	LID       uint16    `json:"lid"`
	Port      int       `json:"port"`
	ActiveMTU int       `json:"active_mtu"` // bytes
	UDPPort   uint16    `json:"udp_port"`

	QPN             uint32       `json:"qpn"`
	QPState         string       `json:"qp_state"`
	PathMTU         int          `json:"path_mtu"` // bytes
	RQPSN           uint32       `json:"rq_psn"`   // expected next
	SQPSN           uint32       `json:"sq_psn"`   // sent next
	DestQPN         uint32       `json:"dest_qpn"`
	DGID            verbs.GID    `json:"dgid"`
	DLID            uint16       `json:"dlid"`
	DestUDPPort     uint16       `json:"dest_udp_port"` // of a soft device
	SGIDIndex       int          `json:"sgid_index"`
	FlowLabel       uint32       `json:"flow_label"`
	SL              uint8        `json:"sl"`
	TrafficClass    uint8        `json:"traffic_class"`
	HopLimit        uint8        `json:"hop_limit"`
	Access          verbs.Access `json:"access"`
	AccessFlags     []string     `json:"access_flags"`
	PKeyIndex       uint16       `json:"pkey_index"`
	PKey            uint16       `json:"pkey"`
	PortNum         int          `json:"port_num"`
	QPTimeout       uint8        `json:"qp_timeout"`
	RetryCnt        uint8        `json:"retry_cnt"`
	RNRRetry        uint8        `json:"rnr_retry"`
	MinRNRTimer     uint8        `json:"min_rnr_timer"`
	MaxRDAtomic     uint8        `json:"max_rd_atomic"`
	MaxDestRDAtomic uint8        `json:"max_dest_rd_atomic"`
	Cap             Cap          `json:"cap"`

	// What Exchange announces to the peer.
	FirstPSN  uint32     `json:"first_psn"`
	MTU       int        `json:"mtu"` // bytes: the most that this end wants
	Slots     MemoryInfo `json:"slots"`
	SlotCount int        `json:"slot_count"`
	SlotSize  int        `json:"slot_size"` // bytes, header included
	Regions   []Region   `json:"regions"`

	// What passed through the queue pair since RESET.
	SQPSNFirst     *uint32  `json:"sq_psn_first"`    // as RTS was given it; null before
	RQPSNFirst     *uint32  `json:"rq_psn_first"`    // as RTR was given it; null before
	SendsPosted    int      `json:"sends_posted"`    // and not completed, as far as completions were polled
	ReceivesPosted int      `json:"receives_posted"` // the same
	FirstError     string   `json:"first_error"`     // the first failed completion
	Failure        *Failure `json:"failure"`         // the same, with the request
	Killed         bool     `json:"killed"`          // in ERR by Modify: nothing failed

	RingState string `json:"ring_state"`
	Busy      string `json:"busy"` // what runs on the ring now, if anything does

	Counters    map[string]uint64 `json:"counters"`     // of the port
	CountersRTR map[string]uint64 `json:"counters_rtr"` // the same when the queue pair came to RTR; null before

	stale bool      // it was so once; what moves is not known
	began time.Time // the own queue pair came to RTR
	asked time.Time // the neighbour said so
}

// Cap is the size of a queue pair's queues, as it was created.
type Cap struct {
	MaxSendWR     int `json:"max_send_wr"`
	MaxRecvWR     int `json:"max_recv_wr"`
	MaxSendSGE    int `json:"max_send_sge"`
	MaxRecvSGE    int `json:"max_recv_sge"`
	MaxInlineData int `json:"max_inline_data"` // bytes
}

// OwnEnd returns this rank's end of an edge as it is now, in any state from
// Initialised on until Close.
func (r *Ring) OwnEnd(side Side) (End, error) {
	r.peek()
	busy := r.tokens.who().String()
	state := r.State()
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.Edge(side)
	if e == nil && side >= FirstMesh {
		return End{}, fmt.Errorf("query: there is no mesh edge at side %d: expected less than %d, the edges that there are", side, int(FirstMesh)+len(r.mesh))
	}
	if e == nil {
		return End{}, &StepError{Step: "query", State: state, Missing: map[bool]string{true: "init"}[state != StateClosed]}
	}
	attr, init, known, err := queried(e.QP)
	if err != nil {
		return End{}, fmt.Errorf("query the %s queue pair: %w", side, err)
	}
	d := e.device
	port, err := d.Context.QueryPort(d.Port.Num)
	if err != nil {
		return End{}, err
	}
	index := d.GID.Entry.Index
	if attr.AH.IsGlobal && known.rqFirst != nil { // the address vector is set
		index = attr.AH.GRH.SGIDIndex
	}
	gid, err := d.Context.QueryGID(d.Port.Num, index)
	if err != nil {
		return End{}, err
	}
	counters, err := d.Counters()
	if err != nil {
		return End{}, err
	}
	end := End{
		Rank: r.rank, Node: r.nodes[r.rank].String(), Side: side.String(), Peer: e.Peer, PeerNode: r.nodes[e.Peer].String(),
		Device: d.Name, Provider: d.Provider(), NetDev: port.NetDev, LinkLayer: port.LinkLayer.String(), PortState: port.State.String(),
		GID: gid.GID, GIDType: gid.Type.String(), GIDIndex: gid.Index, LID: port.LID, Port: d.Port.Num,
		ActiveMTU: port.ActiveMTU.Bytes(), UDPPort: gid.UDPPort,

		QPN: e.QP.Num(), QPState: attr.State.String(), PathMTU: attr.PathMTU.Bytes(), RQPSN: attr.RQPSN, SQPSN: attr.SQPSN,
		DestQPN: attr.DestQPN, DGID: attr.AH.GRH.DGID, DLID: attr.AH.DLID, DestUDPPort: attr.AH.UDP.Port, SGIDIndex: attr.AH.GRH.SGIDIndex,
		FlowLabel: attr.AH.GRH.FlowLabel, SL: attr.AH.SL, TrafficClass: attr.AH.GRH.TrafficClass, HopLimit: attr.AH.GRH.HopLimit,
		Access: attr.Access, AccessFlags: accessFlags(attr.Access), PKeyIndex: attr.PKeyIndex, PKey: e.Local.PKey, PortNum: attr.PortNum,
		QPTimeout: attr.Timeout, RetryCnt: attr.RetryCnt, RNRRetry: attr.RNRRetry, MinRNRTimer: attr.MinRNRTimer,
		MaxRDAtomic: attr.MaxRDAtomic, MaxDestRDAtomic: attr.MaxDestRDAtomic, Cap: Cap(init.Cap),

		FirstPSN: e.Local.PSN, MTU: e.Local.MTU, Slots: e.Local.Slots, SlotCount: e.Local.SlotCount, SlotSize: e.Local.SlotSize,
		Regions: r.regionList(d), RingState: state.String(), Busy: busy, Counters: counterMap(counters),
	}
	end.take(known)
	return end, nil
}

// take puts what the watch knows into the end.
func (e *End) take(w watched) {
	e.SQPSNFirst, e.RQPSNFirst, e.CountersRTR = w.sqFirst, w.rqFirst, w.base
	if e.QPState != verbs.StateErr.String() && e.QPState != verbs.StateReset.String() { // else all is flushed
		e.SendsPosted, e.ReceivesPosted = w.sends, w.receives
	}
	e.Failure, e.FirstError, e.Killed, e.began = w.first, w.first.String(), w.killed, w.began
}

// peek polls what has completed while nobody polls, for the watches to note, and
// keeps it for the next who does.
func (r *Ring) peek() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	t, err := r.takeToken(now, holder{kind: looking})
	if err != nil {
		return
	}
	defer t.Release()
	var wc [64]verbs.Completion
	for {
		n, err := t.poll(wc[:])
		if n == 0 || err != nil {
			return
		}
		r.early = append(r.early, wc[:n]...)
	}
}

// askEnd is the kind of question that PeerEnd asks.
const askEnd = "end"

func init() {
	answerers[askEnd] = func(r *Ring, _ context.Context, side Side, _ json.RawMessage) (any, error) { return r.OwnEnd(side) }
}

// PeerEnd returns the neighbour's end of an edge as it is now, asked over TCP.
// The neighbour need not do anything: its ring answers, whatever state its queue
// pair is in. The peer of a mesh edge is asked through the ranks on the way.
func (r *Ring) PeerEnd(ctx context.Context, side Side) (End, error) {
	ctx, cancel := context.WithTimeout(ctx, min(r.opts.Timeout, askTimeout))
	defer cancel()
	var end End
	var err error
	if side < FirstMesh {
		end, err = ask[End](ctx, r, side, askEnd, nil)
	} else {
		end, err = r.askFar(ctx, side)
	}
	if err == nil {
		end.asked = time.Now()
		r.mu.Lock()
		r.seen[side] = &end
		r.mu.Unlock()
	}
	return end, err
}

// lastSeen returns the neighbour's end as it was when it was last asked for since
// this rank's queue pair came to RTR: once a ring has failed nobody answers any
// more.
func (r *Ring) lastSeen(side Side, own *End) *End {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.seen[side]
	if e == nil || !e.addressed() || !own.addressed() || e.asked.Before(own.began) {
		return nil
	}
	seen := *e
	seen.stale = true
	return &seen
}

// askTimeout is how long an answer over TCP may take: a peer that is up answers
// in milliseconds, also while its CPUs are all busy.
const askTimeout = 5 * time.Second
