package rc_test

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/rc/rctest/simnet"
	"ringcli/verbs/soft/wire"
)

// party is one of the two in a conversation.
type party struct {
	name     string
	qp       *rc.QP
	peer     *party
	memory   simnet.Memory
	mem      *simnet.Region // all rights
	local    *simnet.Region // local write only
	counters rc.Counters
	out      rc.Output
	incoming [][]byte // packets on their way here
	attr     verbs.QPAttr
}

// Where work requests find their memory unless they say otherwise.
const (
	memSize    = 64 << 10
	sendOffset = 0
	remOffset  = 16 << 10
	recvOffset = 32 << 10
)

type conversation struct {
	now  int64
	a, b *party
}

func newConversation() *conversation {
	c := &conversation{}
	_ = c.run(newCommand("new"), io.Discard)
	return c
}

func (c *conversation) party(name string) *party {
	switch name {
	case "a":
		return c.a
	case "b":
		return c.b
	}
	panic("expected a or b, got " + name)
}

// run carries out a command:
//
//	new [mtu= window= psn-a= psn-b= rd= dest= timeout= retry= rnr= rnr-timer= access= wr= sig-all]  both to RTS
//	connect [the same but window and wr]   both from RESET to RTS
//	post P send|send-imm|write|write-imm|read|cas|faa id= len= [at= to= sges= lkey= rkey= imm= add= compare= swap= quiet fence solicited]
//	recv P id= len= [at= lkey=]
//	emit P [acks budget=]      what may be sent goes onto the wire
//	deliver P [count=]         what is on its way to P arrives; P does not answer yet
//	drop|double|last P [nth=]  lose, double or hold back to the end a packet on its way to P, the first unless said
//	run                        emit and deliver until nothing moves
//	tick 70ms                  the clock moves, timers run out
//	inject P OPCODE psn= [len= dma= to= rkey= imm= ackreq pad= compare= swap= syndrome= orig=]
//	modify P STATE [dest=]
//	dereg P, state, counters P, deadline P
func (c *conversation) run(cmd *command, out io.Writer) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	switch cmd.word(0) {
	case "new":
		c.create(cmd)
	case "connect":
		c.connect(cmd)
	case "post":
		p := c.party(cmd.word(1))
		wr := p.workRequest(cmd)
		if err := p.qp.PostSend(&wr, &p.out); err != nil {
			say(out, "%s: %v", p.name, err)
		}
		p.settle(out)
	case "recv":
		p := c.party(cmd.word(1))
		sge := p.sge(cmd, p.mem, recvOffset)
		if err := p.qp.PostRecv(&verbs.WorkRequest{ID: cmd.number("id", 0), SGL: []verbs.SGE{sge}}, &p.out); err != nil {
			say(out, "%s: %v", p.name, err)
		}
		p.settle(out)
	case "emit":
		if c.party(cmd.word(1)).emit(c.now, cmd.has("acks"), int(cmd.number("budget", 1000)), out) {
			say(out, "%s: more", cmd.word(1))
		}
	case "deliver":
		p := c.party(cmd.word(1))
		p.deliver(c.now, int(cmd.number("count", uint64(len(p.incoming)))), out)
	case "drop", "double", "last":
		c.disturb(c.party(cmd.word(1)), cmd, out)
	case "run":
		c.settleDown(out)
	case "tick":
		c.now += int64(cmd.duration(1))
		for _, p := range []*party{c.a, c.b} {
			if d := p.qp.Deadline(); d != 0 && c.now >= d {
				say(out, "%s: timer", p.name)
				p.qp.Tick(c.now, &p.out)
				p.settle(out)
			}
		}
	case "inject":
		p := c.party(cmd.word(1))
		p.incoming = append(p.incoming, p.forge(cmd))
		p.deliver(c.now, len(p.incoming), out)
	case "modify":
		p := c.party(cmd.word(1))
		var more verbs.AttrMask
		if _, ok := cmd.values["dest"]; ok {
			p.attr.MaxDestRDAtomic, more = uint8(cmd.number("dest", 0)), verbs.AttrMaxDestRDAtomic
		}
		if err := p.modify(cmd.word(2), more); err != nil {
			say(out, "%s: %v", p.name, err)
		}
		p.settle(out)
	case "dereg":
		p := c.party(cmd.word(1))
		p.memory.Deregister(p.mem)
	case "state":
		for _, p := range []*party{c.a, c.b} {
			attr := p.qp.Attr()
			say(out, "%s: %v sq_psn=%d rq_psn=%d idle=%v owes=%v", p.name, p.qp.State(), attr.SQPSN, attr.RQPSN, p.qp.Idle(), p.qp.OwesAck())
		}
	case "deadline":
		p := c.party(cmd.word(1))
		if d := p.qp.Deadline(); d != 0 {
			say(out, "%s: in %v", p.name, time.Duration(d-c.now))
		} else {
			say(out, "%s: none", p.name)
		}
	case "counters":
		p := c.party(cmd.word(1))
		v := reflect.ValueOf(p.counters)
		for i := range v.NumField() {
			if n := v.Field(i).Uint(); n != 0 {
				say(out, "%s: %s %d", p.name, v.Type().Field(i).Name, n)
			}
		}
	default:
		return fmt.Errorf("unknown command %q", cmd.word(0))
	}
	return nil
}

func say(out io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(out, format+"\n", args...)
}

func (c *conversation) create(cmd *command) {
	c.now = 1
	c.a, c.b = &party{name: "a"}, &party{name: "b"}
	c.a.peer, c.b.peer = c.b, c.a
	for i, p := range []*party{c.a, c.b} {
		p.mem = p.memory.Register(memSize, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead|verbs.AccessRemoteAtomic)
		p.local = p.memory.Register(memSize, verbs.AccessLocalWrite)
		wr := int(cmd.number("wr", 16))
		p.qp = rc.New(rc.Config{
			QPN: uint32(16 + i), Cap: verbs.QPCap{MaxSendWR: wr, MaxRecvWR: wr, MaxSendSGE: 4, MaxRecvSGE: 4},
			SigAll: cmd.has("sig-all"), Memory: &p.memory, Counters: &p.counters, Window: int(cmd.number("window", 32)),
		})
	}
	c.connect(cmd)
}

func (c *conversation) connect(cmd *command) {
	access := map[string]verbs.Access{"none": 0, "write": verbs.AccessRemoteWrite, "read": verbs.AccessRemoteRead, "atomic": verbs.AccessRemoteAtomic}
	for i, p := range []*party{c.a, c.b} {
		mtu, err := verbs.MTUFromBytes(int(cmd.number("mtu", 256)))
		if err != nil {
			panic(err)
		}
		rights, ok := access[cmd.values["access"]]
		if !ok {
			rights = verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
		}
		psn := []uint32{uint32(cmd.number("psn-a", 100)), uint32(cmd.number("psn-b", 200))}
		a := verbs.QPAttr{
			PortNum: 1, AH: verbs.AHAttr{IsGlobal: true, PortNum: 1, GRH: verbs.GlobalRoute{DGID: verbs.GID{15: 1}}},
			PathMTU: mtu, Access: rights, SQPSN: psn[i], RQPSN: psn[1-i], DestQPN: uint32(17 - i),
			MaxRDAtomic: uint8(cmd.number("rd", 4)), MaxDestRDAtomic: uint8(cmd.number("dest", 4)),
			Timeout: uint8(cmd.number("timeout", 14)), RetryCnt: uint8(cmd.number("retry", 3)), RNRRetry: uint8(cmd.number("rnr", 3)),
			MinRNRTimer: uint8(cmd.number("rnr-timer", 12)),
		}
		p.attr = a
		p.incoming = nil
		for _, state := range []string{"init", "rtr", "rts"} {
			if err := p.modify(state, 0); err != nil {
				panic(err)
			}
		}
	}
}

// states are those that a script names, and what a change to them must say.
var states = map[string]struct {
	state verbs.QPState
	mask  verbs.AttrMask
}{
	"reset": {verbs.StateReset, 0},
	"init":  {verbs.StateInit, verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess},
	"rtr": {verbs.StateRTR, verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN |
		verbs.AttrMaxDestRDAtomic | verbs.AttrMinRNRTimer},
	"rts": {verbs.StateRTS, verbs.AttrTimeout | verbs.AttrRetryCnt | verbs.AttrRNRRetry | verbs.AttrSQPSN | verbs.AttrMaxRDAtomic},
	"sqd": {verbs.StateSQD, 0},
	"err": {verbs.StateErr, 0},
}

func (p *party) modify(state string, more verbs.AttrMask) error {
	to := states[state]
	a := p.attr
	a.State = to.state
	mask := to.mask | more | verbs.AttrState
	if p.qp.State() == verbs.StateSQD && to.state == verbs.StateRTS {
		mask = verbs.AttrState
	}
	if err := verbs.CheckModify(p.qp.Num(), p.qp.State(), &a, mask, nil); err != nil {
		return err
	}
	p.qp.Modify(&a, mask, &p.out)
	return nil
}

// settleDown emits and delivers until nothing moves.
func (c *conversation) settleDown(out io.Writer) {
	for round := range 1000 {
		for _, p := range []*party{c.a, c.b} {
			p.emit(c.now, true, 1000, out)
		}
		if len(c.a.incoming)+len(c.b.incoming) == 0 {
			return
		}
		for _, p := range []*party{c.b, c.a} {
			p.deliver(c.now, len(p.incoming), out)
		}
		if round == 999 {
			panic("the two never come to rest")
		}
	}
}

// disturb loses, doubles or holds back a packet on its way to p.
func (c *conversation) disturb(p *party, cmd *command, out io.Writer) {
	i := int(cmd.number("nth", 1)) - 1
	if i >= len(p.incoming) {
		panic(fmt.Sprintf("%d packets are on their way to %s", len(p.incoming), p.name))
	}
	b := p.incoming[i]
	var packet wire.Packet
	if err := wire.Parse(&packet, b); err != nil {
		panic(err)
	}
	say(out, "%s %s psn=%d", cmd.word(0), packet.Opcode, packet.PSN)
	switch cmd.word(0) {
	case "drop":
		p.incoming = slices.Delete(p.incoming, i, i+1)
	case "double":
		p.incoming = slices.Insert(p.incoming, i, slices.Clone(b))
	case "last":
		p.incoming = append(slices.Delete(p.incoming, i, i+1), b)
	}
}

var wrOpcodes = map[string]verbs.Opcode{
	"send": verbs.OpSend, "send-imm": verbs.OpSendImm, "write": verbs.OpWrite, "write-imm": verbs.OpWriteImm,
	"read": verbs.OpRead, "cas": verbs.OpCompSwap, "faa": verbs.OpFetchAdd,
}

func (p *party) workRequest(cmd *command) verbs.WorkRequest {
	op, ok := wrOpcodes[cmd.word(2)]
	if !ok {
		panic("unknown work request " + cmd.word(2))
	}
	wr := verbs.WorkRequest{
		ID: cmd.number("id", 0), Opcode: op, Flags: verbs.FlagSignaled, Imm: uint32(cmd.number("imm", 0)),
		RemoteAddr: p.peer.mem.Addr + cmd.number("to", remOffset), RKey: p.peer.key(cmd, "rkey", p.peer.mem),
		CompareAdd: cmd.number("add", cmd.number("compare", 0)), Swap: cmd.number("swap", 0),
	}
	if op == verbs.OpCompSwap || op == verbs.OpFetchAdd {
		cmd.values["len"] = "8"
	}
	if cmd.has("quiet") {
		wr.Flags = 0
	}
	if cmd.has("fence") {
		wr.Flags |= verbs.FlagFence
	}
	if cmd.has("solicited") {
		wr.Flags |= verbs.FlagSolicited
	}
	lengths := cmd.values["sges"]
	if lengths == "" {
		lengths = fmt.Sprint(cmd.number("len", 0))
	}
	at := sendOffset
	for _, text := range strings.Split(lengths, ",") {
		cmd.values["len"] = text
		wr.SGL = append(wr.SGL, p.sge(cmd, p.mem, at))
		at += 1000
	}
	return wr
}

func (p *party) sge(cmd *command, r *simnet.Region, offset int) verbs.SGE {
	return verbs.SGE{Addr: r.Addr + cmd.number("at", uint64(offset)), Length: uint32(cmd.number("len", 0)), LKey: p.key(cmd, "lkey", r)}
}

// key is that of r, or as the command says: of local, or none.
func (p *party) key(cmd *command, name string, r *simnet.Region) uint32 {
	switch cmd.values[name] {
	case "":
		return r.Key
	case "local":
		return p.local.Key
	case "bad":
		return 0xbad
	}
	panic(name + ": expected local or bad")
}

func (p *party) emit(now int64, acks bool, budget int, out io.Writer) (more bool) {
	more = p.qp.Emit(now, acks, budget, &p.out)
	for i := range p.out.Packets {
		q := &p.out.Packets[i]
		b := append([]byte(nil), q.Header[:q.HeaderLen]...)
		for _, f := range p.out.Frags[q.FirstFrag : q.FirstFrag+uint32(q.Frags)] {
			b = append(b, p.memory.Bytes(f.Addr, int(f.Len))...)
		}
		b = append(b, make([]byte, int(q.Pad)+wire.ICRCLen)...)
		var packet wire.Packet
		if err := wire.Parse(&packet, b); err != nil {
			panic(err)
		}
		say(out, "%s→%s %s", p.name, p.peer.name, describe(&packet))
		p.peer.incoming = append(p.peer.incoming, b)
	}
	p.out.ResetPackets()
	p.settle(out)
	return more
}

func (p *party) deliver(now int64, count int, out io.Writer) {
	for range count {
		b := p.incoming[0]
		p.incoming = p.incoming[1:]
		var packet wire.Packet
		bad := wire.Parse(&packet, b)
		p.qp.Step(&packet, bad, now, &p.out)
		p.settle(out)
	}
}

// settle carries out the orders and tells of them and of the completions.
func (p *party) settle(out io.Writer) {
	for i := range p.out.Orders {
		o := &p.out.Orders[i]
		where := fmt.Sprintf("mem+%d", o.Addr-p.mem.Addr)
		switch p.memory.Carry(o); o.Kind {
		case rc.Place:
			say(out, "  %s: place %d bytes at %s", p.name, len(o.Data), where)
		case rc.Store64:
			say(out, "  %s: store %d at %s", p.name, o.Value, where)
		case rc.FetchAdd:
			say(out, "  %s: add %d at %s", p.name, o.Value, where)
		case rc.CompSwap:
			say(out, "  %s: if %d store %d at %s", p.name, o.Value, o.Swap, where)
		}
	}
	p.out.Orders = p.out.Orders[:0]
	for _, c := range p.out.Completions {
		queue := "send"
		if c.Recv {
			queue = "receive"
		}
		line := fmt.Sprintf("  %s: %s %d: %v", p.name, queue, c.ID, c.Status)
		if c.Status == verbs.Success {
			line += fmt.Sprintf(", %v, %d bytes", c.Opcode, c.ByteLen)
		}
		if c.Flags&verbs.WCWithImm != 0 {
			line += fmt.Sprintf(", imm %#x", c.Imm)
		}
		if c.Solicited && c.Status == verbs.Success {
			line += ", solicited"
		}
		say(out, "%s", line)
	}
	p.out.Completions = p.out.Completions[:0]
}

var wireOpcodes = func() map[string]wire.Opcode {
	m := make(map[string]wire.Opcode)
	for o := range 256 {
		m[wire.Opcode(o).String()] = wire.Opcode(o)
	}
	return m
}()

// forge makes a packet to p that its peer would not send.
func (p *party) forge(cmd *command) []byte {
	op, ok := wireOpcodes[cmd.word(2)]
	if !ok {
		panic("unknown opcode " + cmd.word(2))
	}
	length := int(cmd.number("len", 0))
	f := wire.BTHFields{
		Opcode: op, PKey: wire.DefaultPKey, DestQPN: p.qp.Num(), PSN: uint32(cmd.number("psn", 0)), AckReq: cmd.has("ackreq"),
		PadCount: uint8(cmd.number("pad", uint64(wire.Pad(length)))),
	}
	b := make([]byte, op.HeaderLen()+length+wire.Pad(length)+wire.ICRCLen)
	wire.BTH(b).Encode(&f)
	h, flags := b[wire.BTHLen:], op.Flags()
	va, rkey := p.mem.Addr+cmd.number("to", remOffset), p.key(cmd, "rkey", p.mem)
	switch {
	case flags&wire.HasRETH != 0:
		wire.RETH(h).Encode(va, rkey, uint32(cmd.number("dma", uint64(length))))
		h = h[wire.RETHLen:]
	case flags&wire.HasAtomicETH != 0:
		wire.AtomicETH(h).Encode(va, rkey, cmd.number("swap", 0), cmd.number("compare", 0))
	case flags&wire.HasAETH != 0:
		wire.AETH(h).Encode(wire.Syndrome(cmd.number("syndrome", uint64(wire.SyndromeAck))), 0)
		h = h[wire.AETHLen:]
	}
	if flags&wire.HasImm != 0 {
		wire.ImmDt(h).Encode(uint32(cmd.number("imm", 0)))
	}
	if flags&wire.HasAtomicAck != 0 {
		wire.AtomicAckETH(h).Encode(cmd.number("orig", 0))
	}
	return b
}
