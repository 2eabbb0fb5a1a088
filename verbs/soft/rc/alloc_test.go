package rc_test

import (
	"testing"

	"ringcli/verbs"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/rc/rctest/simnet"
	"ringcli/verbs/soft/wire"
)

// pipe is two queue pairs whose packets go from one to the other as they are,
// without a wire: what it measures is the queue pairs alone.
type pipe struct {
	qps    [2]*rc.QP
	out    [2]rc.Output
	memory simnet.Memory
	done   [2]int
	packet wire.Packet
	data   []byte
}

func newPipe(t testing.TB, mtu verbs.MTU, window int) *pipe {
	p := &pipe{data: make([]byte, wire.MaxHeaderLen+4096+wire.ICRCLen)}
	rights := verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	for i := range p.qps {
		p.qps[i] = rc.New(rc.Config{
			QPN: uint32(16 + i), Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 2, MaxRecvSGE: 2},
			Memory: &p.memory, Counters: &rc.Counters{}, Window: window,
		})
		a := verbs.QPAttr{PathMTU: mtu, DestQPN: uint32(17 - i), Access: rights, MaxRDAtomic: 4, MaxDestRDAtomic: 4, Timeout: 14, RetryCnt: 7}
		for _, s := range []string{"init", "rtr", "rts"} {
			a.State = states[s].state
			p.qps[i].Modify(&a, states[s].mask|verbs.AttrState, &p.out[i])
		}
	}
	return p
}

// run moves packets until nothing moves.
func (p *pipe) run() {
	for moved := true; moved; {
		moved = false
		for i, q := range p.qps {
			out := &p.out[i]
			q.Emit(1, true, 64, out)
			for j := range out.Packets {
				moved = true
				p.carry(i, &out.Packets[j])
			}
			out.ResetPackets()
		}
	}
}

// carry gives a packet of one to the other. Its payload is not looked at: one
// piece of memory stands for all.
func (p *pipe) carry(from int, k *rc.Packet) {
	b := p.data[:int(k.HeaderLen)+int(k.Len)+int(k.Pad)+wire.ICRCLen]
	copy(b, k.Header[:k.HeaderLen])
	bad := wire.Parse(&p.packet, b)
	out := &p.out[1-from]
	p.qps[1-from].Step(&p.packet, bad, 1, out)
	out.Orders = out.Orders[:0]
	for i := range out.Completions {
		if out.Completions[i].Status == verbs.Success {
			p.done[1-from]++
		}
	}
	out.Completions = out.Completions[:0]
}

func TestAllocations(t *testing.T) {
	const size = 1 << 20
	p := newPipe(t, verbs.MTU4096, 64)
	r := p.memory.Register(size, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
	sgl := []verbs.SGE{r.SGE(0, size)}
	var err error
	cycle := func(op verbs.Opcode) func() {
		send := verbs.WorkRequest{SGL: sgl, Opcode: op, Flags: verbs.FlagSignaled, RemoteAddr: r.Addr, RKey: r.Key}
		recv := verbs.WorkRequest{SGL: sgl}
		return func() {
			if op != verbs.OpRead {
				if e := p.qps[1].PostRecv(&recv, &p.out[1]); e != nil {
					err = e
				}
			}
			if e := p.qps[0].PostSend(&send, &p.out[0]); e != nil {
				err = e
			}
			p.run()
		}
	}
	for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpWriteImm, verbs.OpRead} {
		p.done = [2]int{}
		const runs = 20
		if n := testing.AllocsPerRun(runs, cycle(op)); n != 0 || err != nil {
			t.Errorf("%v of 1 MiB: %v allocations (%v), want none", op, n, err)
		}
		// AllocsPerRun runs once more, to warm up.
		if p.done[0] != runs+1 || op != verbs.OpRead && p.done[1] != runs+1 {
			t.Errorf("%v: %v completions, want %d", op, p.done, runs+1)
		}
	}
}

// BenchmarkMessage moves 1 MiB from one queue pair to the other: the cost of the
// state machines, without copies, checksums and sockets.
func BenchmarkMessage(b *testing.B) {
	const size = 1 << 20
	p := newPipe(b, verbs.MTU4096, 64)
	r := p.memory.Register(size, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	wr := verbs.WorkRequest{SGL: []verbs.SGE{r.SGE(0, size)}, Opcode: verbs.OpWrite, RemoteAddr: r.Addr, RKey: r.Key}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.qps[0].PostSend(&wr, &p.out[0]); err != nil {
			b.Fatal(err)
		}
		p.run()
	}
}
