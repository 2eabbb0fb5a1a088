package rc_test

import (
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/rc/rctest/simnet"
	"ringcli/verbs/soft/wire"
)

// request tells whether a packet is one of the requester, and its opcode and PSN.
func request(b []byte) (op wire.Opcode, psn uint32, ok bool) {
	var p wire.Packet
	if wire.Parse(&p, b) != nil || p.Flags&wire.IsRequest == 0 {
		return 0, 0, false
	}
	return p.Opcode, p.PSN, true
}

// A READ that a NAK asks for before going back has come to it again counts among those
// in flight: a peer of one READ at a time refused the next.
func TestReadAskedForAheadOfGoingBack(t *testing.T) {
	lost := false
	net := simnet.New(simnet.Options{
		Seed: 1, Latency: 10 * time.Microsecond, Turnaround: 80 * time.Millisecond, Bandwidth: 2.5e9, KeepEarly: true, TellEarly: true,
		Drop: func(b []byte) bool {
			op, _, ok := request(b)
			drop := ok && op == wire.ReadRequest && !lost
			lost = lost || drop
			return drop
		},
	})
	a, b := net.NewNode(), net.NewNode()
	config := rc.Config{Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1}, SigAll: true, Window: 64}
	qa, qb := a.NewQP(config), b.NewQP(config)
	attr := verbs.QPAttr{
		PathMTU: verbs.MTU256, Access: verbs.AccessRemoteWrite | verbs.AccessRemoteRead, MaxRDAtomic: 1, MaxDestRDAtomic: 1,
		Timeout: 14, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 12, SQPSN: 7,
	}
	if err := simnet.Connect(qa, qb, attr, attr); err != nil {
		t.Fatal(err)
	}
	local, remote := a.Memory.Register(1<<16, verbs.AccessLocalWrite), b.Memory.Register(1<<16, verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
	done := 0
	qa.Complete = func(c rc.Completion) {
		if done++; c.Status != verbs.Success {
			t.Errorf("request %d: %s: %s", done, c.Opcode, c.Status)
		}
	}
	requests := []verbs.WorkRequest{
		{Opcode: verbs.OpWrite, SGL: []verbs.SGE{local.SGE(0, 60*256)}}, {Opcode: verbs.OpRead, SGL: []verbs.SGE{local.SGE(0, 100)}},
		{Opcode: verbs.OpWrite, SGL: []verbs.SGE{local.SGE(0, 100)}}, {Opcode: verbs.OpRead, SGL: []verbs.SGE{local.SGE(0, 100)}},
	}
	for _, wr := range requests {
		wr.RemoteAddr, wr.RKey = remote.Addr, remote.Key
		if err := qa.PostSend(&wr); err != nil {
			t.Fatal(err)
		}
	}
	net.Run(5 * time.Second)
	if done != len(requests) || !lost {
		t.Errorf("%d of %d requests are done; a READ was lost: %v", done, len(requests), lost)
	}
}

// A probe sends one packet, whether or not the peer keeps what comes early, and what was
// lost behind it follows at once.
func TestProbes(t *testing.T) {
	const first = 0xffff00
	for _, test := range []struct {
		name    string
		keep    bool
		latency time.Duration
		tail    int // packets lost at the end, once
		again   uint64
		took    time.Duration
	}{
		// With the whole window for each probe they are 1,808.
		{"a round trip of 20 ms", false, 10 * time.Millisecond, 0, 1000, time.Minute},
		// A probe for each packet would take 35 ms.
		{"a tail of 32 packets", true, 10 * time.Microsecond, 32, 200, 15 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			const size, messages = 1 << 20, 64
			const total = messages * size / 4096
			lost := map[uint32]bool{}
			net := simnet.New(simnet.Options{
				Seed: 1, Latency: test.latency, Turnaround: 2 * time.Microsecond, Bandwidth: 2.5e9, KeepEarly: test.keep, TellEarly: test.keep,
				Drop: func(b []byte) bool {
					_, psn, ok := request(b)
					i := int(wire.PSNDiff(psn, first))
					if !ok || lost[psn] || i != total-400 && i < total-test.tail {
						return false
					}
					lost[psn] = true
					return true
				},
			})
			a, b := net.NewNode(), net.NewNode()
			var count rc.Counters
			config := rc.Config{Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}, SigAll: true, Window: 256, Counters: &count}
			qa := a.NewQP(config)
			config.Counters = nil
			qb := b.NewQP(config)
			attr := verbs.QPAttr{
				PathMTU: verbs.MTU4096, Access: verbs.AccessRemoteWrite, MaxRDAtomic: 16, MaxDestRDAtomic: 16,
				Timeout: 14, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 12, SQPSN: first,
			}
			if err := simnet.Connect(qa, qb, attr, attr); err != nil {
				t.Fatal(err)
			}
			local, remote := a.Memory.Register(size, verbs.AccessLocalWrite), b.Memory.Register(size, verbs.AccessRemoteWrite)
			wr := verbs.WorkRequest{Opcode: verbs.OpWrite, SGL: []verbs.SGE{local.SGE(0, size)}, RemoteAddr: remote.Addr, RKey: remote.Key}
			posted, done := 0, 0
			post := func() {
				if posted++; posted <= messages {
					if err := qa.PostSend(&wr); err != nil {
						t.Error(err)
					}
				}
			}
			var tailAt, end int64
			qa.Complete = func(c rc.Completion) {
				if done++; c.Status != verbs.Success {
					t.Errorf("message %d: %s", done, c.Status)
				}
				switch done {
				case messages - 1:
					tailAt = net.Now()
				case messages:
					end = net.Now()
				}
				post()
			}
			for range 4 {
				post()
			}
			for done < messages && net.Now() < int64(time.Minute) && net.Step() {
			}
			if took := time.Duration(end - tailAt); done != messages || count.RetransmittedPkts > test.again || took > test.took {
				t.Errorf("%d of %d messages; %d packets were sent again in %d probes, the last message took %v: expected at most %d, and %v",
					done, messages, count.RetransmittedPkts, count.LossProbes, took, test.again, test.took)
			}
		})
	}
}

func writePacket(op wire.Opcode, psn uint32, ackReq bool, va uint64, rkey uint32) []byte {
	const payload = 256
	b := make([]byte, op.HeaderLen()+payload+wire.ICRCLen)
	wire.BTH(b).Encode(&wire.BTHFields{Opcode: op, PSN: psn, AckReq: ackReq, DestQPN: fuzzQPN})
	if op.Flags()&wire.HasRETH != 0 {
		wire.RETH(b[wire.BTHLen:]).Encode(va, rkey, 8*payload)
	}
	return b
}

// sent returns what the queue pair sends now, as AETH syndromes.
func (f *fuzzed) sent() (syndromes []wire.Syndrome) {
	f.qp.Emit(f.now, true, 64, &f.out)
	for i := range f.out.Packets {
		p := &f.out.Packets[i]
		var parsed wire.Packet
		b := append(append([]byte{}, p.Header[:p.HeaderLen]...), make([]byte, int(p.Len)+int(p.Pad)+wire.ICRCLen)...)
		if err := wire.Parse(&parsed, b); err != nil {
			f.t.Error(err)
		}
		syndromes = append(syndromes, parsed.AETH.Syndrome())
	}
	f.out.ResetPackets()
	f.settle()
	return syndromes
}

func ready(t *testing.T) *fuzzed {
	f := newFuzzed(t, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, 4)
	f.modify(verbs.StateRTR, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, 4)
	f.modify(verbs.StateRTS, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, 4)
	f.step(writePacket(wire.WriteFirst, 5, false, f.mem.Addr, f.mem.Key))
	return f
}

// What came before it could be asked for is not asked for.
func TestAGapThatIsFilledInTime(t *testing.T) {
	f := ready(t)
	f.step(writePacket(wire.WriteMiddle, 7, true, 0, 0))
	f.step(writePacket(wire.WriteMiddle, 6, false, 0, 0))
	if got := f.sent(); len(got) != 1 || !got[0].IsAck() {
		t.Errorf("sent %v: expected one ACK, and no NAK", got)
	}
}

// A queue pair in ERR asks for nothing.
func TestAGapEndsWithErr(t *testing.T) {
	f := ready(t)
	f.step(writePacket(wire.WriteMiddle, 7, true, 0, 0))
	f.sent()
	f.now += int64(time.Millisecond)
	f.step(writePacket(wire.WriteMiddle, 6, false, 0, 0))
	f.step(writePacket(wire.WriteMiddle, 6, false, 0, 0)) // it was late: the next gap waits
	f.sent()
	f.step(writePacket(wire.WriteMiddle, 9, true, 0, 0))
	if f.qp.Deadline() == 0 {
		t.Fatal("the gap does not wait")
	}
	f.modify(verbs.StateErr, verbs.AccessLocalWrite, 4)
	if d := f.qp.Deadline(); d != 0 {
		t.Errorf("in %s there is a deadline, in %v", f.qp.State(), time.Duration(d-f.now))
	}
}
