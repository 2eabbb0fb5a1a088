package rc_test

import (
	"encoding/binary"
	"testing"

	"ringcli/verbs"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/rc/rctest/simnet"
	"ringcli/verbs/soft/reorder"
	"ringcli/verbs/soft/wire"
)

// fuzzed is a queue pair that is fed with anything, and what must hold for all
// that comes out of it.
type fuzzed struct {
	t      *testing.T
	memory simnet.Memory
	mem    *simnet.Region
	qp     *rc.QP
	early  reorder.Packets
	out    rc.Output
	now    int64
	posted [2]int // sends, receives
	done   [2]int
}

const (
	fuzzQPN    = 16
	fuzzBudget = 64
	fuzzWRs    = 8
)

func newFuzzed(t *testing.T, access verbs.Access, depth uint8) *fuzzed {
	f := &fuzzed{t: t, now: 1}
	f.mem = f.memory.Register(8192, access)
	f.qp = rc.New(rc.Config{
		QPN: fuzzQPN, Cap: verbs.QPCap{MaxSendWR: fuzzWRs, MaxRecvWR: fuzzWRs, MaxSendSGE: 2, MaxRecvSGE: 2},
		Memory: &f.memory, Counters: &rc.Counters{}, Window: 16, KeepEarly: true,
	})
	f.modify(verbs.StateInit, access, depth)
	return f
}

// modify goes to a state, if there is a way.
func (f *fuzzed) modify(to verbs.QPState, access verbs.Access, depth uint8) {
	a := verbs.QPAttr{
		State: to, PortNum: 1, Access: access &^ verbs.AccessLocalWrite, PathMTU: verbs.MTU256, RQPSN: 5, SQPSN: 7, DestQPN: 17,
		AH:              verbs.AHAttr{IsGlobal: true, PortNum: 1, GRH: verbs.GlobalRoute{DGID: verbs.GID{15: 1}}, UDP: verbs.UDPPeer{LowIPIDs: depth&1 == 0}},
		MaxDestRDAtomic: depth, MaxRDAtomic: depth, MinRNRTimer: 1, Timeout: 1, RetryCnt: 2, RNRRetry: 2,
	}
	for _, mask := range []verbs.AttrMask{
		0, states["init"].mask, states["rtr"].mask, states["rts"].mask, verbs.AttrMaxDestRDAtomic,
	} {
		mask |= verbs.AttrState
		if verbs.CheckModify(fuzzQPN, f.qp.State(), &a, mask, nil) == nil {
			if to == verbs.StateReset { // nothing is flushed
				f.done = f.posted
			}
			f.qp.Modify(&a, mask, &f.out)
			f.early.Clear()
			break
		}
	}
	f.settle()
}

// settle carries out the orders (Memory panics outside of regions) and counts the
// completions.
func (f *fuzzed) settle() {
	for i := range f.out.Orders {
		o := &f.out.Orders[i]
		if !f.memory.Local(f.mem.Key, o.Addr, uint32(len(o.Data)), false) {
			f.t.Fatalf("order outside the region: %+v", o)
		}
		f.memory.Carry(o)
	}
	f.out.Orders = f.out.Orders[:0]
	for _, c := range f.out.Completions {
		queue := 0
		if c.Recv {
			queue = 1
		}
		if c.ID != uint64(f.done[queue]) {
			f.t.Fatalf("completion of %d, expected %d: %+v", c.ID, f.done[queue], c)
		}
		f.done[queue]++
		if f.done[queue] > f.posted[queue] {
			f.t.Fatalf("more completions than work requests: %+v", c)
		}
	}
	f.out.Completions = f.out.Completions[:0]
}

func (f *fuzzed) emit() {
	f.qp.Emit(f.now, true, fuzzBudget, &f.out)
	// One NAK and one ACK come on top of the budget.
	if n := len(f.out.Packets); n > fuzzBudget+2 {
		f.t.Fatalf("%d packets for a budget of %d", n, fuzzBudget)
	}
	for i := range f.out.Packets {
		p := &f.out.Packets[i]
		sum := 0
		for _, frag := range f.out.Frags[p.FirstFrag : p.FirstFrag+uint32(p.Frags)] {
			f.memory.Bytes(frag.Addr, int(frag.Len))
			sum += int(frag.Len)
		}
		if sum != int(p.Len) || p.Len > 256 || (p.Len+uint32(p.Pad))%4 != 0 {
			f.t.Fatalf("packet of %d bytes in pieces of %d with pad %d", p.Len, sum, p.Pad)
		}
	}
	f.out.ResetPackets()
	f.settle()
}

// step gives raw bytes to the queue pair as an endpoint would whose ICRC check
// has passed.
func (f *fuzzed) step(b []byte) {
	var p wire.Packet
	bad := wire.Parse(&p, b)
	if bad != nil && bad != wire.ErrPad { //nolint:errorlint // Parse returns its sentinels as they are
		return
	}
	early := f.qp.Step(&p, bad, f.now, &f.out)
	if n := len(f.out.Orders); n > 2 {
		f.t.Fatalf("%d orders for one packet and two SGEs", n)
	}
	f.settle()
	if early || f.early.Any() {
		f.early.Stepped(f.qp, &p, b, bad, early, f.now, &f.out, f.settle)
	}
}

func (f *fuzzed) post(op verbs.Opcode, flags verbs.SendFlags, length int) {
	wr := verbs.WorkRequest{
		ID: uint64(f.posted[0]), Opcode: op, Flags: flags | verbs.FlagSignaled, RemoteAddr: f.mem.Addr, RKey: f.mem.Key,
		SGL: []verbs.SGE{f.mem.SGE(0, length/2), f.mem.SGE(4000, length-length/2)},
	}
	f.posted[0]++
	if f.qp.PostSend(&wr, &f.out) != nil {
		f.posted[0]--
	}
	f.settle()
}

func (f *fuzzed) recv(length int) {
	f.posted[1]++
	if f.qp.PostRecv(&verbs.WorkRequest{ID: uint64(f.posted[1] - 1), SGL: []verbs.SGE{f.mem.SGE(100, length)}}, &f.out) != nil {
		f.posted[1]--
	}
	f.settle()
}

// FuzzStep drives a queue pair with a program of bytes: packets made near to what
// it expects or of raw bytes, posts, ticks and changes of state. Nothing may panic
// or reach outside registered memory, and what comes out is bounded.
func FuzzStep(f *testing.F) {
	f.Add([]byte("\x0f\x04"))
	for op := range byte(0x18) {
		// To RTS, a receive and some sends, then this opcode with the PSNs that
		// are expected and sent, twice.
		program := []byte{0xff, 4, 2, 2, 2, 3, 3, 1, 200, 0, 0, 100, 0, 4, 8, 4}
		for range 2 {
			for _, psn := range []byte{5, 6, 7, 8} {
				program = append(program, 5, op, psn, 0x80, 40, 0, 4)
			}
		}
		f.Add(append(program, 6, 4, 2, 6, 4))
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		next := func() byte {
			if len(program) == 0 {
				return 0
			}
			b := program[0]
			program = program[1:]
			return b
		}
		first := next()
		// Four bits of rights; without local write nothing may be placed at all.
		access := verbs.Access(first & 15)
		q := newFuzzed(t, access, next()%9)
		for steps := 0; len(program) > 0 && steps < 500; steps++ {
			switch next() % 9 {
			case 0:
				q.post(verbs.Opcode(next()%8), verbs.SendFlags(next()&(1|4)), int(next())*8)
			case 1:
				q.recv(int(next()) * 8)
			case 2:
				q.modify([]verbs.QPState{verbs.StateRTR, verbs.StateRTS}[steps%2], access, first%9)
			case 3:
				q.modify(verbs.QPState(next()%7), access, next()%9)
			case 4:
				q.emit()
			case 5:
				q.step(q.packet(next))
			case 6:
				q.now += int64(next()) << (next() % 32)
				q.qp.Tick(q.now, &q.out)
				q.settle()
			case 7:
				n := min(int(next()), len(program))
				q.step(program[:n])
				program = program[n:]
			case 8:
				q.qp.Emit(q.now, false, int(next()%4), &q.out)
				q.out.ResetPackets()
				q.settle()
			}
		}
		q.modify(verbs.StateErr, access, 0)
		if q.qp.State() == verbs.StateErr && q.done != q.posted {
			t.Fatalf("in ERR %v of %v work requests are completed", q.done, q.posted)
		}
		if q.qp.Deadline() != 0 || q.qp.OwesAck() {
			t.Fatalf("in %v there is a deadline, or an ACK is owed", q.qp.State())
		}
	})
}

// packet makes a packet near to what the queue pair may expect.
func (f *fuzzed) packet(next func() byte) []byte {
	op := wire.Opcode(next() % 0x18)
	attr := f.qp.Attr()
	psn := wire.PSNAdd(attr.RQPSN, int(int8(next()))/16)
	if op.Flags()&wire.IsResponse != 0 {
		psn = wire.PSNAdd(attr.SQPSN, int(int8(next()))/16)
	}
	flags, length := next(), int(next())*2+int(next()&3)
	if flags&1 != 0 {
		length = 256
	}
	b := make([]byte, max(op.HeaderLen(), wire.BTHLen)+length+wire.Pad(length)+wire.ICRCLen)
	wire.BTH(b).Encode(&wire.BTHFields{
		Opcode: op, PSN: psn, AckReq: flags&0x80 != 0, DestQPN: fuzzQPN, PadCount: uint8(wire.Pad(length)) ^ flags>>6&1,
	})
	h := b[wire.BTHLen:]
	va, key := f.mem.Addr+uint64(flags&0x3e)<<8, f.mem.Key+uint32(flags&2)
	switch {
	case op.Flags()&wire.HasRETH != 0:
		dma := uint32(length) * uint32(1+next()%8)
		wire.RETH(h).Encode(va, key, dma)
	case op.Flags()&wire.HasAtomicETH != 0:
		wire.AtomicETH(h).Encode(va+uint64(next()&12), key, 1, 2)
	case op.Flags()&wire.HasAETH != 0:
		wire.AETH(h).Encode(wire.Syndrome(next()), binary.BigEndian.Uint32(b[8:]))
	}
	return b
}
