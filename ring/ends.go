package ring

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ringcli/ring/bootstrap"
	"ringcli/ring/device"
	"ringcli/ring/diagnose"
	"ringcli/ring/watch"
	"ringcli/verbs"
)

// Ends compares the two ends of edges, and explains what is wrong with them.
type Ends struct {
	of      *membership
	table   *edgeTable
	control *Control
	poll    *poller
	devices *devices
	memory  *Memory
	byHand  bool               // Options.ByHand
	asked   map[EdgeID]peerEnd // as they were when they were last asked for; guarded by the table's mu
}

// Own returns this rank's end of an edge as it is now, in any state from
// Initialised on until Close.
func (x *Ends) Own(id EdgeID) (diagnose.End, error) {
	x.poll.peek()
	busy := x.poll.tokens.Who().String()
	state := x.table.standing(bothSides).State
	x.table.mu.Lock()
	defer x.table.mu.Unlock()
	e := x.table.edge(id)
	if e == nil && id.IsMesh() {
		return diagnose.End{}, fmt.Errorf("query: there is no mesh edge at side %d: expected less than %d, the edges that there are", id, int(firstMesh)+len(x.table.mesh.list))
	}
	if e == nil {
		return diagnose.End{}, &StepError{Step: "query", State: state, Missing: map[bool]string{true: "init"}[state != StateClosed]}
	}
	attr, init, known, err := watch.Query(e.QP)
	if err != nil {
		return diagnose.End{}, fmt.Errorf("query the %s queue pair: %w", id.Name(), err)
	}
	d := e.device
	port, err := d.Context.QueryPort(d.Port.Num)
	if err != nil {
		return diagnose.End{}, err
	}
	index := d.GID.Entry.Index
	if attr.AH.IsGlobal && known.RQFirst != nil { // the address vector is set
		index = attr.AH.GRH.SGIDIndex
	}
	gid, err := d.Context.QueryGID(d.Port.Num, index)
	if err != nil {
		return diagnose.End{}, err
	}
	counters, err := d.Counters()
	if err != nil {
		return diagnose.End{}, err
	}
	end := diagnose.End{
		Rank: x.of.rank, Node: x.of.nodes[x.of.rank].String(), Side: e.Side.String(), Channel: id.Channel(), Peer: e.Peer, PeerNode: x.of.nodes[e.Peer].String(),
		Device: d.Name, Provider: d.Provider(), NetDev: port.NetDev, LinkLayer: diagnose.Is(port.LinkLayer), PortState: diagnose.Is(port.State),
		Capabilities: d.Attr.Capabilities,
		GID:          gid.GID, GIDType: diagnose.Is(gid.Type), GIDIndex: gid.Index, LID: port.LID, Port: d.Port.Num,
		ActiveMTU: port.ActiveMTU.Bytes(), UDPPort: gid.UDPPort,

		QPN: e.QP.Num(), QPState: diagnose.Is(attr.State), PathMTU: attr.PathMTU.Bytes(), RQPSN: attr.RQPSN, SQPSN: attr.SQPSN,
		DestQPN: attr.DestQPN, DGID: attr.AH.GRH.DGID, DLID: attr.AH.DLID, DestUDPPort: attr.AH.UDP.Port, SGIDIndex: attr.AH.GRH.SGIDIndex,
		FlowLabel: attr.AH.GRH.FlowLabel, SL: attr.AH.SL, TrafficClass: attr.AH.GRH.TrafficClass, HopLimit: attr.AH.GRH.HopLimit,
		Access: attr.Access, AccessFlags: device.AccessFlags(attr.Access), PKeyIndex: attr.PKeyIndex, PKey: e.Local.PKey, PortNum: attr.PortNum,
		QPTimeout: attr.Timeout, RetryCnt: attr.RetryCnt, RNRRetry: attr.RNRRetry, MinRNRTimer: attr.MinRNRTimer,
		MaxRDAtomic: attr.MaxRDAtomic, MaxDestRDAtomic: attr.MaxDestRDAtomic, Cap: init.Cap,

		FirstPSN: e.Local.PSN, MTU: e.Local.MTU, Slots: e.Local.Slots, SlotCount: e.Local.SlotCount, SlotSize: e.Local.SlotSize,
		Regions: x.memory.on(d), RingState: state.String(), Busy: busy, Counters: watch.Counters(counters),
	}
	end.SQPSNFirst, end.RQPSNFirst, end.CountersRTR = known.SQFirst, known.RQFirst, known.Counters
	if attr.State != verbs.StateErr && attr.State != verbs.StateReset { // else all is flushed
		end.SendsPosted, end.ReceivesPosted = known.Sends, known.Receives
	}
	end.Traffic = known.Traffic
	end.Failure, end.FirstError, end.Killed = known.First, known.First.String(), known.Killed
	return end, nil
}

// askEnd is the kind of question that PeerEnd asks.
const askEnd = "end"

// endAsked says which end is meant.
type endAsked struct {
	Channel int `json:"channel"`
}

// endAnswer is an end as it goes over TCP.
type endAnswer struct {
	diagnose.End
	Capabilities verbs.Capabilities `json:"capabilities"`
}

func ownEndOf(x *Ends, id EdgeID) (endAnswer, error) {
	end, err := x.Own(id)
	return endAnswer{end, end.Capabilities}, err
}

// Peer returns the neighbour's end of an edge as it is now, asked over TCP.
// The neighbour need not do anything: its ring answers, whatever state its queue
// pair is in. The peer of a mesh edge is asked through the ranks on the way.
func (x *Ends) Peer(ctx context.Context, id EdgeID) (diagnose.End, error) {
	ctx, cancel := context.WithTimeout(ctx, min(x.control.limit(), askTimeout))
	defer cancel()
	var answer endAnswer
	var err error
	if !id.IsMesh() {
		answer, err = ask[endAnswer](ctx, x.control, id.Side(), askEnd, endAsked{id.Channel()})
	} else {
		answer, err = askFar(ctx, x, id)
	}
	end := answer.End
	end.Capabilities = answer.Capabilities
	if err == nil {
		x.table.change(func() { x.asked[id] = peerEnd{end, time.Now()} })
	}
	return end, err
}

// peerEnd is the peer's end of an edge as it was when it was last asked for.
type peerEnd struct {
	diagnose.End
	asked time.Time
}

// lastPeerEnd returns the peer's end as it was when it was last asked for since this
// rank's queue pair came to RTR: once a ring has failed nobody answers any more.
func lastPeerEnd(x *Ends, id EdgeID, own *diagnose.End) *diagnose.End {
	x.table.mu.Lock()
	defer x.table.mu.Unlock()
	last, ok := x.asked[id]
	e := x.table.edge(id)
	if !ok || e == nil || !last.Addressed() || !own.Addressed() {
		return nil
	}
	if w, watched := e.QP.(*watch.QP); watched && last.asked.Before(w.Known().Began) {
		return nil
	}
	last.Stale = true
	return &last.End
}

// askTimeout is how long an answer over TCP may take: a peer that is up answers
// in milliseconds, also while its CPUs are all busy.
const askTimeout = 5 * time.Second

// askFarEnd asks any rank for its end of a mesh edge. The question goes round the
// ring: a rank that it is not for asks the next one.
const askFarEnd = "far-end"

// askFar asks the peer of a mesh edge for its end, by the shorter way.
func askFar(ctx context.Context, x *Ends, id EdgeID) (endAnswer, error) {
	x.table.mu.Lock()
	e := x.table.edge(id)
	x.table.mu.Unlock()
	if e == nil {
		return endAnswer{}, fmt.Errorf("there is no mesh edge at side %d", id)
	}
	peer := e.Peer
	end, err := ask[endAnswer](ctx, x.control, x.of.towards(id, peer), askFarEnd, farEnd{Of: peer, To: x.of.rank})
	if answer, ok := errors.AsType[*bootstrap.AnswerError](err); ok {
		answer.Rank = peer // the rank that was asked, though a neighbour told
	}
	return end, err
}

// Reached is how far the queue pairs to a neighbour have come, and the state of the one that
// is behind: StateError if that is ERR or SQE.
func (x *Ends) Reached(side Side) (State, verbs.QPState, error) {
	x.table.mu.Lock()
	defer x.table.mu.Unlock()
	if x.table.edges[side] == nil {
		return StateOpened, verbs.StateReset, nil
	}
	s, _ := x.table.standingOf(x.table.edges[side])
	return s.State, s.qp, s.err
}
