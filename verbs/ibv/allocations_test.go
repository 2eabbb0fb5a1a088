//go:build !nodl

package ibv_test

import (
	"testing"

	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/verbstest"
)

// post is what it takes to post and poll: a queue pair that is its own peer, and
// WRITEs of 8 bytes.
type post struct {
	verbstest.Endpoint
	qp    verbs.QP
	cq    verbs.CQ
	empty verbs.CQ
	sends []verbs.WorkRequest
	wc    []verbs.Completion
}

func newPost(t testing.TB) *post {
	p := &post{Endpoint: openRDMA(t, verbs.OpenOptions{}), wc: make([]verbs.Completion, 16)}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	closes := func(c interface{ Close() error }) { t.Cleanup(func() { ok(c.Close()) }) }
	closes(p.Context)
	pd, err := p.Context.AllocPD()
	ok(err)
	closes(pd)
	buf, err := memory.Alloc(4096)
	ok(err)
	t.Cleanup(func() { ok(buf.Free()) })
	mr, err := pd.RegMR(buf.Addr(), 4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	ok(err)
	closes(mr)
	p.cq, err = p.Context.CreateCQ(256, nil)
	ok(err)
	closes(p.cq)
	p.empty, err = p.Context.CreateCQ(16, nil)
	ok(err)
	closes(p.empty)
	p.qp, err = pd.CreateQP(verbs.QPInitAttr{
		SendCQ: p.cq, RecvCQ: p.cq, Type: verbs.RC, Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	ok(err)
	closes(p.qp)
	gid, err := p.Context.QueryGID(p.Port, p.GIDIndex)
	ok(err)
	attr := verbs.QPAttr{
		PathMTU: verbs.MTU1024, DestQPN: p.qp.Num(), PortNum: p.Port, Access: verbs.AccessRemoteWrite, MaxRDAtomic: 1, MaxDestRDAtomic: 1,
		MinRNRTimer: 1, Timeout: 14, RetryCnt: 6, RNRRetry: 7, AH: verbs.AHAttr{
			PortNum: p.Port, IsGlobal: true, GRH: verbs.GlobalRoute{DGID: gid.GID, SGIDIndex: p.GIDIndex, HopLimit: 1},
		},
	}
	for _, step := range []struct {
		state verbs.QPState
		mask  verbs.AttrMask
	}{
		{verbs.StateInit, verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess},
		{verbs.StateRTR, verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN | verbs.AttrMaxDestRDAtomic | verbs.AttrMinRNRTimer},
		{verbs.StateRTS, verbs.AttrTimeout | verbs.AttrRetryCnt | verbs.AttrRNRRetry | verbs.AttrSQPSN | verbs.AttrMaxRDAtomic},
	} {
		attr.State = step.state
		ok(p.qp.Modify(attr, verbs.AttrState|step.mask))
	}
	for id := range uint64(16) {
		p.sends = append(p.sends, verbs.WorkRequest{
			ID: id, Opcode: verbs.OpWrite, Flags: verbs.FlagSignaled, RemoteAddr: buf.Addr() + 64, RKey: mr.RKey(), SGL: []verbs.SGE{{Addr: buf.Addr(), Length: 8, LKey: mr.LKey()}},
		})
	}
	return p
}

// run posts n requests in one chain and polls until they are done.
func (p *post) run(t testing.TB, n int) {
	if _, err := p.qp.PostSend(p.sends[:n]); err != nil {
		t.Fatal(err)
	}
	p.drain(t, n)
}

func (p *post) drain(t testing.TB, n int) {
	for left, polls := n, 0; left > 0; polls++ {
		got, err := p.cq.Poll(p.wc)
		if err != nil || polls > 1e7 || got > 0 && p.wc[0].Status != verbs.Success {
			t.Fatalf("polled %d times for %d completions: %v, %s", polls, left, err, p.wc[0].Status)
		}
		left -= got
	}
}

// Posting and polling allocate nothing.
func TestAllocations(t *testing.T) {
	p := newPost(t)
	for _, n := range []int{1, 16} {
		if got := testing.AllocsPerRun(200, func() { p.run(t, n) }); got != 0 {
			t.Errorf("%v allocations to post %d requests and poll them, want none", got, n)
		}
	}
	if got := testing.AllocsPerRun(200, func() { _, _ = p.empty.Poll(p.wc) }); got != 0 {
		t.Errorf("%v allocations of an empty poll, want none", got)
	}
}
