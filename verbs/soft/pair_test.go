package soft

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringcli/verbs"
	"ringcli/verbs/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// end is one end of a connection, with a region that gives every right.
type end struct {
	ctx     verbs.Context
	pd      verbs.PD
	channel verbs.CompChannel
	cq      verbs.CQ
	qp      verbs.QP
	mem     *memory.Block
	mr      verbs.MR
	wc      [16]verbs.Completion
}

const everything = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// InjectForTest has the packets of a context fare as the text says.
func InjectForTest(t testing.TB, ctx verbs.Context, text string) {
	t.Helper()
	faults, err := verbs.ParseFaults(text)
	if err == nil {
		err = ctx.(verbs.Injector).Inject(faults)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newEnd opens soft:lo on an address.
func newEnd(t testing.TB, o verbs.OpenOptions, bytes uint64) *end {
	t.Helper()
	e, err := tryEnd(o, bytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func tryEnd(o verbs.OpenOptions, bytes uint64) (*end, error) { return openEnd("soft:lo", o, bytes) }

func openEnd(device string, o verbs.OpenOptions, bytes uint64) (e *end, err error) {
	e = &end{}
	d, err := verbs.Find(device)
	if err != nil {
		return nil, err
	}
	if e.ctx, err = d.Open(o); err != nil {
		return nil, err
	}
	if e.pd, err = e.ctx.AllocPD(); err != nil {
		return nil, err
	}
	if e.channel, err = e.ctx.CreateCompChannel(); err != nil {
		return nil, err
	}
	if e.cq, err = e.ctx.CreateCQ(1024, e.channel); err != nil {
		return nil, err
	}
	if e.mem, err = memory.Alloc(bytes); err != nil {
		return nil, err
	}
	if e.mr, err = e.pd.RegMR(e.mem.Addr(), bytes, everything); err != nil {
		return nil, err
	}
	e.qp, err = e.pd.CreateQP(verbs.QPInitAttr{
		SendCQ: e.cq, RecvCQ: e.cq, Type: verbs.RC, SigAll: true,
		Cap: verbs.QPCap{MaxSendWR: 128, MaxRecvWR: 128, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 128},
	})
	return e, err
}

func (e *end) close() error {
	for _, c := range []interface{ Close() error }{e.qp, e.mr, e.pd, e.cq, e.channel, e.ctx} {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return e.mem.Free()
}

// gid returns the GID that the context speaks from.
func (e *end) gid() (verbs.GIDEntry, error) {
	for i := 0; ; i++ {
		g, err := e.ctx.QueryGID(1, i)
		if err != nil || g.UDPPort != 0 {
			return g, err
		}
	}
}

const (
	initMask = verbs.AttrState | verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess
	rtrMask  = verbs.AttrState | verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN |
		verbs.AttrMaxDestRDAtomic | verbs.AttrMinRNRTimer
	rtsMask = verbs.AttrState | verbs.AttrTimeout | verbs.AttrRetryCnt | verbs.AttrRNRRetry | verbs.AttrSQPSN | verbs.AttrMaxRDAtomic
)

// connect takes both ends to RTS.
func connect(a, b *end) error {
	for _, p := range [][2]*end{{a, b}, {b, a}} {
		me, peer := p[0], p[1]
		local, err := me.gid()
		if err != nil {
			return err
		}
		remote, err := peer.gid()
		if err != nil {
			return err
		}
		if err := me.qp.Modify(verbs.QPAttr{State: verbs.StateInit, PortNum: 1, Access: everything}, initMask); err != nil {
			return err
		}
		err = me.qp.Modify(verbs.QPAttr{
			State: verbs.StateRTR, PathMTU: verbs.MTU4096, DestQPN: peer.qp.Num(), RQPSN: 0xfffff0, MaxDestRDAtomic: 16, MinRNRTimer: 1,
			AH: verbs.AHAttr{
				IsGlobal: true, PortNum: 1, GRH: verbs.GlobalRoute{DGID: remote.GID, SGIDIndex: local.Index},
				UDP: verbs.UDPPeer{Port: remote.UDPPort, LowIPIDs: true},
			},
		}, rtrMask)
		if err != nil {
			return err
		}
	}
	for _, e := range []*end{a, b} {
		err := e.qp.Modify(verbs.QPAttr{State: verbs.StateRTS, Timeout: 14, RetryCnt: 6, RNRRetry: 7, SQPSN: 0xfffff0, MaxRDAtomic: 16}, rtsMask)
		if err != nil {
			return err
		}
	}
	return nil
}

// waitsForEver has an end send nothing again, and give up nothing, for want of an answer.
func (e *end) waitsForEver(t testing.TB) {
	t.Helper()
	for _, m := range []struct {
		attr verbs.QPAttr
		mask verbs.AttrMask
	}{{verbs.QPAttr{State: verbs.StateSQD}, verbs.AttrState}, {verbs.QPAttr{Timeout: 0}, verbs.AttrTimeout}, {verbs.QPAttr{State: verbs.StateRTS}, verbs.AttrState}} {
		if err := e.qp.Modify(m.attr, m.mask); err != nil {
			t.Fatal(err)
		}
	}
}

// pair returns two connected ends on addresses that no other test has.
func pair(t testing.TB, bytes uint64) (a, b *end) {
	t.Helper()
	a = newEnd(t, verbs.OpenOptions{LocalAddr: freshAddr()}, bytes)
	b = newEnd(t, verbs.OpenOptions{LocalAddr: freshAddr()}, bytes)
	if err := connect(a, b); err != nil {
		t.Fatal(err)
	}
	return a, b
}

var (
	firstAddr = rand.Uint32N(1 << 15)
	lastAddr  atomic.Uint32
)

// freshAddr returns the next address of 127.77.0.0/16, of which each process begins elsewhere.
// Should another process use it, its endpoint gets another UDP port.
func freshAddr() netip.Addr {
	n := firstAddr + lastAddr.Add(1)
	return netip.AddrFrom4([4]byte{127, 77, byte(n >> 8), byte(n)})
}

// wait polls until n completions have come, and returns the last.
func (e *end) wait(t testing.TB, n int) verbs.Completion {
	t.Helper()
	c, err := e.await(n)
	if err != nil {
		counters, _ := e.ctx.Counters(1)
		t.Fatalf("%v; counters %v", err, counters)
	}
	return c
}

func (e *end) await(n int) (verbs.Completion, error) {
	wc := e.wc[:] // polled into through an interface: on the stack it would escape
	deadline := time.Now().Add(10 * time.Second)
	for got := 0; ; {
		k, err := e.cq.Poll(wc[:min(16, n-got)])
		if err != nil {
			return wc[0], err
		}
		for _, c := range wc[:k] {
			if c.Status != verbs.Success {
				return c, fmt.Errorf("completion %d of %d: %w", got+1, n, c.Status.Err())
			}
		}
		if got += k; got == n {
			return wc[k-1], nil
		}
		if k == 0 {
			if time.Now().After(deadline) {
				return wc[0], fmt.Errorf("awaited %d completions for 10 s, %d came", n, got)
			}
			runtime.Gosched() // the other end's goroutine may have this CPU alone
		}
	}
}

// request makes a work request over the first n bytes of both regions.
func request(op verbs.Opcode, from, to *end, n uint32) []verbs.WorkRequest {
	return []verbs.WorkRequest{{
		Opcode: op, SGL: []verbs.SGE{{Addr: from.mem.Addr(), Length: n, LKey: from.mr.LKey()}},
		RemoteAddr: to.mem.Addr(), RKey: to.mr.RKey(),
	}}
}
