package ring

import (
	"errors"
	"fmt"
	"math/bits"

	"ringcli/ring/diagnose"
	"ringcli/ring/edges"
	"ringcli/ring/watch"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

const (
	// MessageSize is the longest control message in bytes (ping, RTS, CTS, FIN,
	// credits). It is sent inline where the device can, and lands in a posted receive buffer.
	MessageSize = 128
	// recvDepth is the number of receive requests kept posted on an edge to a neighbour.
	recvDepth = edges.Receives
	// sendDepth is the length of the send queue: data, its control message and
	// the credits of as many segments as recvDepth allows.
	sendDepth = 256
	// sendSGEs is the pieces of memory of one request: a header and a payload.
	sendSGEs = 2
)

// room is how much an edge has space for.
type room struct {
	slots, slotSize int // to receive into; bytes, header included
	recv, send      int // requests in the queues: recvDepth and sendDepth, or fewer
}

// room is what an edge to a neighbour has space for.
func (o *Options) room() room {
	return room{o.Slots, o.SlotSize + SlotHeader, recvDepth, sendDepth}
}

// Edge is one end of the queue pair to a neighbour, or to a peer of a mesh, with the memory that the
// neighbour writes into and the buffers that its messages land in. Where there are several
// queue pairs to a neighbour it is a channel: the first has the others beside it. It belongs to
// the holder of the polling token: a step or an operation. Others may look at what is
// exchanged under the ring's mu, under which the steps change it.
type Edge struct {
	ID     EdgeID
	Side   Side // of ID
	Peer   int  // the neighbour's rank
	QP     verbs.QP
	Local  QPInfo
	Remote connectionData // valid after Exchange
	MTU    int            // path MTU in bytes that both ends agreed on, after RTR

	// Outstanding is how many requests of Comms, in turn, have not completed: one leaves
	// its last to the next. It needs the token.
	Outstanding int

	beside   []*Edge // the other channels, of an edge's first
	r        *edgeOwner
	device   *Device
	why      string // it is on that device; guarded by the ring's mu
	given    Values // what Init was given; needs the token
	slots    verbs.Memory
	slotMR   verbs.MR
	messages verbs.Memory // one for each receive, then those to send from
	msgMR    verbs.MR
	recvWR   []verbs.WorkRequest // one for each buffer, made once
	sendWR   [1]verbs.WorkRequest
	sendSGE  [1]verbs.SGE

	// inline is how long a message may be to be copied while it is posted. If all
	// are, one buffer to send from is enough; else there are as many as sends may
	// be under way, used in turn.
	inline   int
	sendBufs int
	nextBuf  int

	pinged bool // a ping has come back since RTS; guarded by the ring's mu
	// compared: since RTS both ends have been held against each other, and fit; guarded
	// likewise.
	compared bool
}

// edgeOwner is what an edge knows of the rank that it is of.
type edgeOwner struct {
	*membership
	opts  *Options // never changed
	table *edgeTable
}

// String names the edge, for messages: "left edge to rank 2".
func (e *Edge) String() string { return fmt.Sprintf("%s edge to rank %d", e.Side, e.Peer) }

// Channels returns the queue pairs of the edge whose first this is, that among them.
func (e *Edge) Channels() []*Edge { return append([]*Edge{e}, e.beside...) }

// newEdge creates the queue pair in RESET and registers its memory. The caller
// fills in Local's addresses.
func newEdge(r *edgeOwner, id EdgeID, peer int, on edgeDevice, has room) (e *Edge, err error) {
	d := on.device
	e = &Edge{r: r, ID: id, Side: id.Side(), Peer: peer, device: d, why: on.why}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if e.slots, err = d.Alloc(uint64(has.slots) * uint64(has.slotSize)); err != nil {
		return e, err
	}
	if e.slotMR, err = d.PD.RegMR(e.slots.Addr(), uint64(e.slots.Len()), diagnose.SlotAccess); err != nil {
		return e, fmt.Errorf("register %d slots of %d bytes: %w", has.slots, has.slotSize, err)
	}
	asked := verbs.QPCap{MaxSendWR: has.send, MaxRecvWR: has.recv, MaxSendSGE: sendSGEs, MaxRecvSGE: 1, MaxInlineData: MessageSize}
	qp, capacity, err := d.CreateQP(asked, true)
	if err != nil {
		return e, fmt.Errorf("create the %s queue pair: %w", id.Name(), err)
	}
	e.QP = watch.New(qp, asked)
	e.inline, e.sendBufs = capacity.MaxInlineData, 1
	if e.inline < MessageSize {
		e.sendBufs = max(has.send, capacity.MaxSendWR)
	}
	if e.messages, err = d.Alloc(uint64(has.recv+e.sendBufs) * MessageSize); err != nil {
		return e, err
	}
	if e.msgMR, err = d.PD.RegMR(e.messages.Addr(), uint64(e.messages.Len()), verbs.AccessLocalWrite); err != nil {
		return e, fmt.Errorf("register message buffers: %w", err)
	}
	sges := make([]verbs.SGE, has.recv)
	e.recvWR = make([]verbs.WorkRequest, has.recv)
	for i := range e.recvWR {
		sges[i] = verbs.SGE{Addr: e.messages.Addr() + uint64(i*MessageSize), Length: MessageSize, LKey: e.msgMR.LKey()}
		e.recvWR[i] = verbs.WorkRequest{ID: WRID(id, WRRecv, uint64(i)), SGL: sges[i : i+1 : i+1]}
	}
	e.Local.QPN = e.QP.Num()
	e.Local.PSN = verbs.RandomPSN()
	e.Local.Slots = diagnose.MemoryInfo{Addr: e.slots.Addr(), RKey: e.slotMR.RKey(), Length: uint64(e.slots.Len())}
	e.Local.SlotCount, e.Local.SlotSize = has.slots, has.slotSize
	return e, nil
}

// setPinged notes that a ping has come back. It needs the ring's mu.
func (e *Edge) setPinged() {
	for _, channel := range e.Channels() {
		channel.pinged = true
	}
}

// Device returns the device that the edge is on.
func (e *Edge) Device() *Device { return e.device }

// Message returns the bytes of receive buffer i, whose completion said n bytes.
// They are valid until Repost(i).
func (e *Edge) Message(i uint64, n uint32) []byte {
	return e.messages.Bytes()[i*MessageSize : i*MessageSize+uint64(n)]
}

// Repost hands receive buffer i back to the device.
func (e *Edge) Repost(i uint64) error {
	_, err := e.QP.PostRecv(e.recvWR[i : i+1])
	return err
}

// SendMessage sends up to MessageSize bytes to the neighbour. They are copied, so
// that msg is the caller's again at once. Its completion is of kind WRMessage.
func (e *Edge) SendMessage(msg []byte) error { return e.sendMessage(msg, 0) }

// sendMessage is SendMessage with a value for the work request's ID.
func (e *Edge) sendMessage(msg []byte, value uint64) error {
	at := (len(e.recvWR) + e.nextBuf) * MessageSize
	e.nextBuf = (e.nextBuf + 1) % e.sendBufs
	buf := e.messages.Bytes()[at : at+MessageSize]
	n := copy(buf, msg)
	flags := verbs.FlagSignaled
	if n <= e.inline {
		flags |= verbs.FlagInline
	}
	e.sendSGE[0] = verbs.SGE{Addr: memory.Addr(buf), Length: uint32(n), LKey: e.msgMR.LKey()}
	e.sendWR[0] = verbs.WorkRequest{
		ID: WRID(e.ID, WRMessage, value), Opcode: verbs.OpSend, Flags: flags, SGL: e.sendSGE[:],
	}
	_, err := e.QP.PostSend(e.sendWR[:])
	return err
}

// Slot returns the memory of receive slot i, header first, which the neighbour
// writes with WRITE_IMM.
func (e *Edge) Slot(i int) []byte {
	return e.slots.Bytes()[i*e.Local.SlotSize : (i+1)*e.Local.SlotSize]
}

// RemoteSlot returns address and rkey of the neighbour's receive slot i.
func (e *Edge) RemoteSlot(i int) (addr uint64, rkey uint32) {
	return e.Remote.Slots.Addr + uint64(i)*uint64(e.Remote.SlotSize), e.Remote.Slots.RKey
}

// close releases everything that newEdge made, in reverse order.
func (e *Edge) close() error {
	errs := []error{closeAll(e.beside)}
	e.beside = nil
	if e.QP != nil {
		errs = append(errs, e.QP.Close())
		e.QP = nil
	}
	for _, mr := range []*verbs.MR{&e.msgMR, &e.slotMR} {
		if *mr != nil {
			errs = append(errs, (*mr).Close())
			*mr = nil
		}
	}
	for _, m := range []verbs.Memory{e.messages, e.slots} {
		if m != nil {
			errs = append(errs, m.Free())
		}
	}
	return errors.Join(errs...)
}

func closeAll(edges []*Edge) error {
	var errs []error
	for _, e := range edges {
		if e != nil {
			errs = append(errs, e.close())
		}
	}
	return errors.Join(errs...)
}

// edgeDevice is the device to a neighbour, and why that one.
type edgeDevice struct {
	device *Device
	why    string
}

const (
	// MeshSlots and MeshSlotSize are what a mesh edge has to receive into; the
	// slots' headers of SlotHeader bytes come on top. An algorithm that needs more
	// than the ring's two edges is one for small messages: a step of it has one
	// vector of up to 32 KiB under way, and the next step's may come before that is
	// taken out. A root that only gives, or a rank that only contributes, runs ahead by
	// as many operations: on soft:lo and two CPUs a broadcast of 8 bytes takes 4 ranks
	// 27 us with 8 slots and 18 with 16 or 32, a reduce 26 and 21.
	MeshSlots    = 16
	MeshSlotSize = 32 << 10
	// meshRecv and meshSend are the lengths of a mesh edge's queues: a WRITE_IMM for
	// each slot, credits for them and a few messages, at twice the number.
	meshRecv, meshSend = 64, 128
)

// meshAll is up to how many edges no rank need count: one to every other rank of a host, which
// shares memory with it, and to one on each other host.
const meshAll = 64

// MeshMost is how many mesh edges a rank of a ring of n may have: to all others in
// a small ring; else to meshAll of them, and for recursive doubling and its folding, and for a
// tree, which is O(log n).
func MeshMost(n int) int {
	return min(n-1, meshAll+2*bits.Len(uint(n-1))) // Len(n-1) is log2 n, rounded up
}
