package rc_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/rc/rctest/simnet"
	"ringcli/verbs/soft/wire"
)

var (
	oneSeed = flag.Int64("seed", -1, "TestProperty: run this seed alone and, with -v, print its packets")
	seeds   = flag.Int("seeds", 0, "TestProperty: how many seeds to run (default 3000, 300 with -short)")
)

// classes are how bad the network of a seed is. A damaged packet is as good as
// lost, so loss is both together.
var classes = []struct {
	name string
	loss float64 // at most
	mix  float64 // duplication and reordering, each at most
}{
	{"no faults", 0, 0},
	{"no loss, doubled and reordered", 0, 0.3},
	{"loss up to 1 %", 0.01, 0.05},
	{"loss up to 5 %", 0.05, 0.1},
	{"loss up to 10 %", 0.10, 0.1},
	{"loss up to 20 %", 0.20, 0.2},
}

// outcome is what a seed came to.
type outcome struct {
	class     int
	delivered bool
	problems  []string
	counters  [2]rc.Counters
	stats     simnet.Stats
	virtual   time.Duration
}

// mostVirtual is the time within which every run must have come to rest. The
// slowest is one that retries to the end, several times over.
const mostVirtual = 120 * time.Second

// runSeed plans and runs one seed.
func runSeed(seed uint64, trace func(string)) (o outcome) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	o.class = int(seed % uint64(len(classes)))
	class := classes[o.class]
	loss := class.loss * rnd.Float64()
	opts := simnet.Options{Seed: seed, Latency: time.Duration(1+rnd.IntN(20)) * time.Microsecond}
	opts.Faults.Corrupt = loss * rnd.Float64()
	opts.Faults.Loss = loss - opts.Faults.Corrupt
	opts.Faults.Duplicate, opts.Faults.Reorder = class.mix*rnd.Float64(), class.mix*rnd.Float64()
	opts.Turnaround = time.Duration(rnd.IntN(3)*rnd.IntN(20)) * time.Microsecond
	opts.AckDelay = time.Duration(rnd.IntN(2)*rnd.IntN(50)) * time.Microsecond
	opts.Budget = 1 + rnd.IntN(64)
	opts.KeepEarly = rnd.IntN(3) > 0
	opts.TellEarly = opts.KeepEarly && rnd.IntN(2) == 0
	if class.mix > 0 && rnd.IntN(4) == 0 {
		opts.Faults.Jitter = time.Duration(rnd.IntN(2000)) * time.Microsecond
	}
	if rnd.IntN(2) == 0 {
		opts.Bandwidth = 1e9 * (0.1 + rnd.Float64())
	}
	if trace != nil {
		trace(fmt.Sprintf("seed %d, %s: %+v", seed, class.name, opts.Faults))
	}
	w := &workload{rnd: rnd}
	orders := map[*simnet.Node]*responseOrder{}
	opts.Trace = func(e simnet.Event) {
		if trace != nil {
			trace(packetLine(e))
		}
		if problem := checkOrder(orders, w.mtu, e); problem != "" {
			o.problems = append(o.problems, fmt.Sprintf("at %v: %s", time.Duration(e.At), problem))
		}
	}
	w.net = simnet.New(opts)
	mtu := verbs.MTU(1 + rnd.IntN(5))
	w.mtu = mtu.Bytes()
	fail := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		o.problems = append(o.problems, fmt.Sprintf("at %v: %s", time.Duration(w.net.Now()), text))
		if trace != nil {
			trace("PROBLEM: " + text)
		}
	}
	var attrs [2]verbs.QPAttr
	depth := uint8(1 + rnd.IntN(8))
	for i := range w.sides {
		s := &side{name: string(rune('a' + i)), fail: fail}
		s.qp = w.net.NewNode().NewQP(rc.Config{
			Cap:    verbs.QPCap{MaxSendWR: 1 + rnd.IntN(20), MaxRecvWR: 1 + rnd.IntN(10), MaxSendSGE: 4, MaxRecvSGE: 4},
			Window: 1 << rnd.IntN(8), Counters: &s.counters,
		})
		attrs[i] = verbs.QPAttr{
			PathMTU: mtu, SQPSN: rnd.Uint32() & wire.PSNMask, Access: verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic,
			MaxRDAtomic: 1 + uint8(rnd.IntN(int(depth))), MaxDestRDAtomic: depth, MinRNRTimer: uint8(1 + rnd.IntN(16)),
			Timeout: uint8(10 + rnd.IntN(4)), RetryCnt: 7, RNRRetry: 7,
		}
		if rnd.IntN(2) == 0 {
			attrs[i].SQPSN = wire.PSNAdd(0, -rnd.IntN(300))
		}
		w.sides[i] = s
	}
	a, b := w.sides[0], w.sides[1]
	a.peer, b.peer = b, a
	if err := simnet.Connect(a.qp, b.qp, attrs[0], attrs[1]); err != nil {
		fail("connect: %v", err)
		return o
	}
	for _, s := range w.sides {
		w.plan(s, 1+rnd.IntN(25))
	}
	for _, s := range w.sides {
		w.start(s)
	}
	if !w.net.Run(mostVirtual) {
		fail("still running after %v", mostVirtual)
	}
	for _, s := range w.sides {
		s.finish()
	}
	o.delivered = a.status == verbs.Success && b.status == verbs.Success
	o.counters, o.stats, o.virtual = [2]rc.Counters{a.counters, b.counters}, w.net.Stats, time.Duration(w.net.Now())
	switch {
	case o.class <= 1 && !o.delivered:
		fail("nothing was lost, and yet %v and %v", a.status, b.status)
	case o.class == 0 && (complains(&a.counters) || complains(&b.counters)):
		fail("nothing was lost, and yet a complaint: %+v %+v", a.counters, b.counters)
	}
	return o
}

// complains reports whether counters tell of a fault of the wire or of the peer. After
// an RNR NAK a requester rightly sends again what came after the message that was
// refused.
func complains(c *rc.Counters) bool {
	n := c.LocalAckTimeoutErr + c.PacketSeqErr + c.ImpliedNakSeqErr + c.DuplicateRequest + c.WindowReductions
	if c.RNRNakRetryErr == 0 {
		n += c.RetransmittedPkts
	}
	return n != 0
}

// responseOrder is what one node's requests ask of its peer's responses: a READ
// response or an atomic ACK, however often it is repeated, goes for the first time
// before any answer with a later PSN. An ACK that overtook one would tell the
// requester that it is lost.
type responseOrder struct {
	begun bool
	next  uint32   // PSN after all requests so far
	due   []uint32 // PSNs of READs and atomics that were never answered, ascending
}

// checkOrder follows the packets of two nodes and says what is wrong with this one.
func checkOrder(orders map[*simnet.Node]*responseOrder, mtu int, e simnet.Event) string {
	var p wire.Packet
	if wire.Parse(&p, e.Packet) != nil {
		return ""
	}
	requester := e.Src
	if p.Flags&wire.IsResponse != 0 {
		requester = e.Dst
	}
	o := orders[requester]
	if o == nil {
		o = &responseOrder{}
		orders[requester] = o
	}
	if p.Flags&wire.IsResponse == 0 {
		packets := 1
		if p.Opcode == wire.ReadRequest {
			packets = max(1, (int(p.RETH.DMALen())+mtu-1)/mtu)
		}
		for psn := p.PSN; packets > 0; psn, packets = wire.PSNAdd(psn, 1), packets-1 {
			if o.begun && wire.PSNDiff(psn, o.next) < 0 {
				continue // asked for again
			}
			o.begun, o.next = true, wire.PSNAdd(psn, 1)
			if p.Flags&(wire.IsRead|wire.IsAtomic) != 0 {
				o.due = append(o.due, psn)
			}
		}
		return ""
	}
	if len(o.due) > 0 && wire.PSNDiff(p.PSN, o.due[0]) > 0 {
		return fmt.Sprintf("%s is sent before the first answer to PSN %d", describe(&p), o.due[0])
	}
	if len(o.due) > 0 && p.PSN == o.due[0] && p.Opcode != wire.Acknowledge {
		o.due = o.due[1:]
	}
	return ""
}

func packetLine(e simnet.Event) string {
	var p wire.Packet
	if err := wire.Parse(&p, e.Packet); err != nil {
		return fmt.Sprintf("%12v %v sends what does not parse: %v", time.Duration(e.At), e.Src.Addr, err)
	}
	line := fmt.Sprintf("%12v %v %s", time.Duration(e.At), e.Src.Addr.Addr(), describe(&p))
	if e.Fate != "" {
		line += "  (" + e.Fate + ")"
	}
	return line
}

// describe writes a packet in one line.
func describe(p *wire.Packet) string {
	line := fmt.Sprintf("%v psn=%d", p.Opcode, p.PSN)
	if p.Flags&wire.HasPayload != 0 {
		line += fmt.Sprintf(" len=%d", len(p.Payload))
	}
	if p.Flags&wire.HasRETH != 0 {
		line += fmt.Sprintf(" dma=%d", p.RETH.DMALen())
	}
	if p.Flags&wire.HasImm != 0 {
		line += fmt.Sprintf(" imm=%#x", p.Imm)
	}
	if p.AckReq {
		line += " ackreq"
	}
	if p.Solicited {
		line += " solicited"
	}
	if p.Flags&wire.HasAETH != 0 {
		line += fmt.Sprintf(" msn=%d [%v]", p.AETH.MSN(), p.AETH.Syndrome())
	}
	if p.Flags&wire.HasAtomicAck != 0 {
		line += fmt.Sprintf(" orig=%d", p.AtomicAck.Orig())
	}
	return line
}

// TestProperty runs random work in both directions over bad networks. Nothing
// wrong, doubled or lost may ever be reported as success, and all must come to
// rest.
//
// A damaged packet passes the ICRC with a probability of 2^-25: the IP ID is
// solved for, of which the 128 that a soft peer can send are taken, that is 2^7
// of 2^32 remainders. Patterns of few bits are always found.
// Such a packet may do anything, so the test bounds their number and leaves out
// what such a seed came to.
func TestProperty(t *testing.T) {
	if *oneSeed >= 0 {
		o := runSeed(uint64(*oneSeed), func(line string) { t.Log(line) })
		report(t, uint64(*oneSeed), o)
		t.Logf("delivered %v in %v\n%+v\n%+v", o.delivered, o.virtual, o.stats, o.counters)
		return
	}
	count := *seeds
	if count == 0 {
		if count = 3000; testing.Short() {
			count = 300
		}
	}
	outcomes := make([]outcome, count)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(count); i = next.Add(1) - 1 {
				outcomes[i] = guarded(uint64(i))
			}
		})
	}
	workers.Wait()
	summarize(t, outcomes)
}

// guarded turns a panic into a problem, so that its seed is named.
func guarded(seed uint64) (o outcome) {
	defer func() {
		if r := recover(); r != nil {
			o = outcome{class: int(seed % uint64(len(classes))), problems: []string{fmt.Sprintf("panic: %v", r)}}
		}
	}()
	return runSeed(seed, nil)
}

func report(t *testing.T, seed uint64, o outcome) {
	if len(o.problems) > 0 && o.stats.Undetected == 0 {
		t.Errorf("seed %d (%s): %s\n\tgo test ./verbs/soft/rc -run TestProperty -seed %d -v", seed, classes[o.class].name,
			strings.Join(o.problems[:min(3, len(o.problems))], "\n\t"), seed)
	}
}

func summarize(t *testing.T, outcomes []outcome) {
	type row struct {
		seeds, delivered                       int
		sent, lost, damaged, again, timeouts   uint64
		sequence, implied, rnr, worst, retries uint64
	}
	rows := make([]row, len(classes))
	failures, damaged, undetected := 0, 0, 0
	for seed, o := range outcomes {
		if len(o.problems) > 0 && o.stats.Undetected == 0 {
			if failures++; failures <= 10 {
				report(t, uint64(seed), o)
			}
			t.Fail()
		}
		damaged += o.stats.Corrupted
		undetected += o.stats.Undetected
		r := &rows[o.class]
		r.seeds++
		if o.delivered {
			r.delivered++
		}
		r.sent += uint64(o.stats.Sent)
		r.lost += uint64(o.stats.Lost)
		r.damaged += uint64(o.stats.Corrupted)
		for i := range o.counters {
			c := &o.counters[i]
			r.again += c.RetransmittedPkts
			r.timeouts += c.LocalAckTimeoutErr
			r.sequence += c.PacketSeqErr
			r.implied += c.ImpliedNakSeqErr
			r.rnr += c.RNRNakRetryErr
			r.retries += c.RetryExceededErr
		}
		r.worst = max(r.worst, uint64(o.virtual))
	}
	for i, r := range rows {
		t.Logf("%-32s %5d seeds, %6.2f %% delivered; packets %8d, lost %6d, damaged %5d, sent again %6d; timeouts %5d, sequence NAKs %5d, implied %5d, RNR %5d, given up %3d; longest %v",
			classes[i].name, r.seeds, 100*float64(r.delivered)/float64(max(1, r.seeds)), r.sent, r.lost, r.damaged, r.again,
			r.timeouts, r.sequence, r.implied, r.rnr, r.retries, time.Duration(r.worst))
		if classes[i].loss <= 0.05 && 100*r.delivered < 99*r.seeds {
			t.Errorf("%s: %d of %d seeds delivered everything, want 99 %%", classes[i].name, r.delivered, r.seeds)
		}
	}
	if failures > 10 {
		t.Errorf("%d seeds failed in all", failures)
	}
	if most := 1 + damaged>>20; undetected > most {
		t.Errorf("%d of %d damaged packets passed the ICRC, expected at most %d", undetected, damaged, most)
	}
}
