package ring

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ringcli/ring/diagnose"
	"ringcli/ring/edges"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// ward is two ranks by hand whose edge from rank 0's right to rank 1's left is to
// be made ill.
type ward struct {
	t     *testing.T
	world []*Ring
}

// admit makes the ranks. Retries end soon, and a rank may have no CPU for as long on a busy
// machine: 4 tries, in 0.4 s.
func admit(t *testing.T, change func(rank int, o *Options)) *ward {
	t.Helper()
	return &ward{t, newRings(t, 2, func(rank int, o *Options) {
		o.ByHand, o.Timeout, o.QPTimeout, o.RetryCnt, o.RNRRetry = true, 3*time.Second, new(13), new(3), new(1)
		if change != nil {
			change(rank, o)
		}
	})}
}

// dose is what the steps are given at each rank.
type dose struct{ init, rtr, rts [2]Values }

// walk takes both ranks to RTS, or rank 1 no further than its last step says.
func (w *ward) walk(d dose, last State) {
	w.t.Helper()
	upTo(w.t, w.world, StateOpened)
	step := func(to State, take func(*Ring) error) {
		w.t.Helper()
		for rank, err := range each(w.world, func(r *Ring) error {
			if r.Rank() == 1 && to > last {
				return nil
			}
			return take(r)
		}) {
			if err != nil {
				w.t.Fatalf("rank %d: %v", rank, err)
			}
		}
	}
	// What is for one side leaves the other to the proper values.
	both := func(take func(context.Context, Values) error, v Values) error {
		if err := take(w.t.Context(), v); err != nil || v.Side == nil {
			return err
		}
		return take(w.t.Context(), Values{Side: new(v.Side.Opposite())})
	}
	step(StateInitialised, func(r *Ring) error { return both(r.Init, d.init[r.Rank()]) })
	step(StateExchanged, func(r *Ring) error { return r.Exchange(w.t.Context()) })
	step(StateRTR, func(r *Ring) error { return both(r.RTR, d.rtr[r.Rank()]) })
	step(StateRTS, func(r *Ring) error { return both(r.RTS, d.rts[r.Rank()]) })
}

// post posts a request on an edge and waits for its completion.
func (w *ward) post(e *Edge, r *Ring, wr verbs.WorkRequest) error {
	w.t.Helper()
	token := begin(w.t, r)
	defer func() { _ = token.End() }()
	if _, err := e.QP.PostSend([]verbs.WorkRequest{wr}); err != nil {
		return err
	}
	return w.await(token, wr.ID)
}

// await polls until a request has completed, and returns its error.
func (w *ward) await(token Token, id uint64) error {
	w.t.Helper()
	var wc [16]verbs.Completion
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		n, err := token.Poll(wc[:])
		if err != nil {
			return err
		}
		for i := range wc[:n] {
			switch {
			case wc[i].ID == id && wc[i].Status != verbs.Success:
				return w.world[0].Failure().Completion(&wc[i])
			case wc[i].ID == id:
				return nil
			}
		}
		if n == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	w.t.Fatalf("work request %#x never completed", id)
	return nil
}

// send sends a message of n bytes from rank 0 to rank 1.
func (w *ward) send(n int) error {
	r := w.world[0]
	return w.post(r.Right(), r, verbs.WorkRequest{
		ID: WRID(Right.Edge(), WRUser, 1), Opcode: verbs.OpSend, Flags: verbs.FlagInline,
		SGL: []verbs.SGE{{Addr: r.Right().messages.Addr(), Length: uint32(n), LKey: r.Right().msgMR.LKey()}},
	})
}

// oneSided posts a WRITE or READ at rank 0, to n bytes at rank 1's slots unless
// change says otherwise.
func (w *ward) oneSided(op verbs.Opcode, n uint32, change func(*verbs.WorkRequest)) error {
	r := w.world[0]
	e := r.Right()
	addr, rkey := e.RemoteSlot(0)
	wr := verbs.WorkRequest{
		ID: WRID(Right.Edge(), WRUser, 2), Opcode: op, RemoteAddr: addr, RKey: rkey,
		SGL: []verbs.SGE{{Addr: e.slots.Addr(), Length: n, LKey: e.slotMR.LKey()}},
	}
	if change != nil {
		change(&wr)
	}
	return w.post(e, r, wr)
}

// status fails the test unless err is a failed completion of a status.
func (w *ward) status(err error, want verbs.Status) {
	w.t.Helper()
	var e *CompletionError
	if !errors.As(err, &e) || e.Status != want {
		w.t.Fatalf("%v: expected the status %d", err, want)
	}
}

// expectation is what the first finding must say.
type expectation struct {
	attribute string
	rank      int
	own, peer string   // within the values
	text      []string // within the sentence
}

// first checks the first finding of one end.
func (w *ward) first(rank int, cause error, want expectation) {
	w.t.Helper()
	side := []Side{Right, Left}[rank]
	found := w.world[rank].Ends().Diagnose(w.t.Context(), side.Edge(), cause)
	if len(found) == 0 {
		w.t.Errorf("rank %d: nothing found: expected %s", rank, want.attribute)
		return
	}
	f := found[0]
	if f.Severity != diagnose.Fault || f.Attribute != want.attribute || f.Rank != want.rank ||
		!strings.Contains(f.Own, want.own) || !strings.Contains(f.Peer, want.peer) {
		w.t.Errorf("rank %d: got %+v,\nwant %s at rank %d, %q and %q; all: %q", rank, f, want.attribute, want.rank, want.own, want.peer, loud(found))
	}
	for _, text := range append(want.text, fmt.Sprintf("rank %d", want.rank)) {
		if !strings.Contains(f.String(), text) {
			w.t.Errorf("rank %d: %s: expected %q", rank, f, text)
		}
	}
	if line := explain(found); line != f.String() || strings.Contains(line, "\n") {
		w.t.Errorf("rank %d: explained in %q", rank, line)
	}
	if w.world[rank].Failed() {
		w.t.Errorf("rank %d: the ring has failed: %v", rank, w.world[rank].Err())
	}
}

// errWaited is the error of who errWaited in vain.
var errWaited = fmt.Errorf("nothing came: %w", context.DeadlineExceeded)

// with returns the doses with one rank's value.
func with(rank int, v Values) (vs [2]Values) {
	vs[rank] = v
	return vs
}

func TestDiagnoseWrongOrder(t *testing.T) {
	w := admit(t, nil)
	w.walk(dose{}, StateExchanged)
	err := w.world[1].RTS(t.Context(), Values{})
	w.first(1, err, expectation{"state", 1, "exchanged", "", []string{"rtr comes first"}})
	w.first(0, errWaited, expectation{"qp_state", 1, "RTS", "INIT", []string{"INIT", "dropped silently", "rtr"}})

	// Before the queue pair is there, and before there is anybody to ask.
	r := newRings(t, 1, nil)[0]
	found := r.Ends().Diagnose(t.Context(), Right.Edge(), r.Exchange(t.Context()))
	if len(found) != 1 || !strings.Contains(found[0].Text, "open comes first") || found[0].Fix != "run open first" {
		t.Errorf("%+v", found)
	}
	if found := r.Ends().Diagnose(t.Context(), Right.Edge(), nil); len(found) != 1 || found[0].Attribute != "state" {
		t.Errorf("%+v", found)
	}
}

func TestDiagnosePeerBehind(t *testing.T) {
	for _, state := range []verbs.QPState{verbs.StateInit, verbs.StateReset} {
		w := admit(t, nil)
		last := StateExchanged
		if state == verbs.StateReset {
			last = StateRTS
		}
		w.walk(dose{}, last)
		if state == verbs.StateReset {
			noErrors(t, []error{w.world[1].Left().QP.Modify(verbs.QPAttr{State: state}, verbs.AttrState)})
		}
		err := w.send(64)
		w.status(err, verbs.RetryExceeded)
		w.first(0, err, expectation{"qp_state", 1, "ERR", state.String(), []string{"still " + state.String(), "dropped silently", "RETRY_EXC (12)"}})
		w.first(1, errWaited, expectation{"qp_state", 1, state.String(), "ERR", []string{"still " + state.String(), "dropped silently"}})
	}
}

func TestDiagnosePSN(t *testing.T) {
	t.Run("ahead, by what rank 0 sends", func(t *testing.T) {
		w := admit(t, nil)
		w.walk(dose{init: with(0, Values{PSN: new(uint32(1<<24 - 2))}), rts: with(0, Values{Side: new(Right), PSN: new(uint32(3))})}, StateRTS)
		err := w.send(64)
		w.status(err, verbs.RetryExceeded)
		text := []string{"PSN 0x000003", "expects 0xfffffe", "ahead by 5", "sequence NAKs", "RETRY_EXC (12)"}
		w.first(0, err, expectation{"sq_psn", 0, "began with 0x000003", "rq_psn 0xfffffe", text})
		w.first(1, errWaited, expectation{"rq_psn", 0, "rq_psn 0xfffffe", "began with 0x000003", text})
	})
	t.Run("ahead, by what rank 1 expects", func(t *testing.T) {
		w := admit(t, nil)
		w.walk(dose{init: with(0, Values{PSN: new(uint32(100))}), rtr: with(1, Values{Side: new(Left), PSN: new(uint32(5))})}, StateRTS)
		err := w.send(64)
		w.status(err, verbs.RetryExceeded)
		w.first(0, err, expectation{"sq_psn", 1, "began with 0x000064", "rq_psn 0x000005", []string{"ahead by 95"}})
		w.first(1, errWaited, expectation{"rq_psn", 1, "rq_psn 0x000005", "began with 0x000064", []string{"ahead by 95"}})
	})
	t.Run("behind", func(t *testing.T) {
		w := admit(t, nil)
		w.walk(dose{init: with(0, Values{PSN: new(uint32(100))}), rtr: with(1, Values{Side: new(Left), PSN: new(uint32(102))})}, StateRTS)
		r := w.world[0]
		// Two packets: the second makes the ACK of PSN 101 one of what was sent.
		err := w.oneSided(verbs.OpSend, uint32(r.Right().MTU+1), nil)
		if err != nil {
			t.Fatalf("%v: expected success, though nothing arrives", err)
		}
		// By now they are in step: what comes next arrives.
		for rank, err := range []error{nil, errWaited} {
			found := w.world[rank].Ends().Diagnose(t.Context(), []EdgeID{Right.Edge(), Left.Edge()}[rank], err)
			if len(found) == 0 || found[0].Severity != diagnose.Warning || found[0].Rank != 1 || !strings.Contains(found[0].Text, "though rank 0 saw success") {
				t.Errorf("rank %d: %+v", rank, found)
			}
		}
	})
	t.Run("further behind", func(t *testing.T) {
		w := admit(t, nil)
		w.walk(dose{init: with(0, Values{PSN: new(uint32(100))}), rtr: with(1, Values{Side: new(Left), PSN: new(uint32(110))}), rts: with(0, Values{Timeout: new(18)})}, StateRTS)
		text := []string{"PSN 0x000064", "expects 0x00006e", "behind by 10", "duplicates", "acknowledges PSN 0x00006d", "rank 0 sees success"}
		w.first(0, nil, expectation{"sq_psn", 1, "sq_psn 0x000064", "rq_psn 0x00006e", text})
		if err := w.world[0].Right().SendMessage(make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
		w.first(0, errWaited, expectation{"sq_psn", 1, "sq_psn 0x000065 (began with 0x000064)", "rq_psn 0x00006e", text})
		w.first(1, errWaited, expectation{"rq_psn", 1, "rq_psn 0x00006e", "sq_psn 0x000065 (began with 0x000064)", text})
	})
	t.Run("behind, and given up", func(t *testing.T) {
		w := admit(t, nil)
		w.walk(dose{init: with(0, Values{PSN: new(uint32(100))}), rts: with(0, Values{Side: new(Right), PSN: new(uint32(90))})}, StateRTS)
		err := w.send(64)
		w.status(err, verbs.RetryExceeded)
		text := []string{"PSN 0x00005a", "expects 0x000064", "behind by 10", "RETRY_EXC (12)"}
		w.first(0, err, expectation{"sq_psn", 0, "began with 0x00005a", "rq_psn 0x000064", text})
		w.first(1, errWaited, expectation{"rq_psn", 0, "rq_psn 0x000064", "began with 0x00005a", text})
	})
	t.Run("one end began anew", func(t *testing.T) {
		w := admit(t, nil)
		w.walk(dose{}, StateRTS)
		noErrors(t, []error{w.send(64)})
		r := w.world[1]
		noErrors(t, []error{r.Reset(t.Context()), r.Init(t.Context(), Values{}), r.Exchange(t.Context()), r.RTR(t.Context(), Values{}), r.RTS(t.Context(), Values{})})
		w.first(0, nil, expectation{"sq_psn", 0, "sq_psn", "rq_psn", []string{"began anew", "ahead by 1"}})
		w.first(1, errWaited, expectation{"rq_psn", 0, "rq_psn", "sq_psn", []string{"began anew", "ahead by 1"}})
	})
}

func TestDiagnoseMTU(t *testing.T) {
	for _, mtu := range [][2]int{{4096, 1024}, {1024, 4096}} {
		w := admit(t, nil)
		w.walk(dose{rtr: [2]Values{{MTU: &mtu[0]}, {MTU: &mtu[1]}}}, StateRTS)
		noErrors(t, []error{w.oneSided(verbs.OpWrite, 1024, nil)}) // one packet either way
		err := w.oneSided(verbs.OpWrite, 4096, nil)
		w.status(err, verbs.RemoteInvalidRequest)
		small := 0
		if mtu[1] < mtu[0] {
			small = 1
		}
		text := []string{"4096", "1024", "up to 1024 bytes pass", "REM_INV_REQ (9)"}
		w.first(0, err, expectation{"path_mtu", small, fmt.Sprint(mtu[0]), fmt.Sprint(mtu[1]), text})
		w.first(1, errWaited, expectation{"path_mtu", small, fmt.Sprint(mtu[1]), fmt.Sprint(mtu[0]), text})
	}
}

func TestDiagnoseRemoteAccess(t *testing.T) {
	w0 := admit(t, nil)
	w0.walk(dose{}, StateRTS)
	slots := w0.world[0].Right().Remote.Slots
	for name, c := range map[string]struct {
		op     verbs.Opcode
		change func(*verbs.WorkRequest, diagnose.MemoryInfo)
		want   string
		rank   int
		text   string
	}{
		"wrong rkey":       {verbs.OpWrite, func(wr *verbs.WorkRequest, s diagnose.MemoryInfo) { wr.RKey = 0xbad00 }, "rkey", 0, "no region of it has this rkey"},
		"wrong rkey, READ": {verbs.OpRead, func(wr *verbs.WorkRequest, s diagnose.MemoryInfo) { wr.RKey = 0xbad00 }, "rkey", 0, "no region of it has this rkey"},
		"wrong address":    {verbs.OpWrite, func(wr *verbs.WorkRequest, s diagnose.MemoryInfo) { wr.RemoteAddr = s.Addr - 1 }, "range", 0, "outside its region slots"},
		"beyond the end":   {verbs.OpWrite, func(wr *verbs.WorkRequest, s diagnose.MemoryInfo) { wr.RemoteAddr = s.Addr + s.Length - 15 }, "range", 0, "outside its region slots"},
		"no right":         {verbs.OpRead, nil, "access", 1, "gives no REMOTE_READ"},
	} {
		t.Run(name, func(t *testing.T) {
			w := admit(t, nil)
			w.walk(dose{}, StateRTS)
			slots = w.world[0].Right().Remote.Slots
			var posted verbs.WorkRequest
			err := w.oneSided(c.op, 16, func(wr *verbs.WorkRequest) {
				if c.change != nil {
					c.change(wr, slots)
				}
				posted = *wr
			})
			w.status(err, verbs.RemoteAccessError)
			asked := fmt.Sprintf("%s of 16 bytes at %#x with rkey %#x", c.op, posted.RemoteAddr, posted.RKey)
			offered := fmt.Sprintf("slots: rkey %#x, %d bytes from %#x", slots.RKey, slots.Length, slots.Addr)
			text := []string{c.text, asked, offered, "REM_ACCESS, 10"}
			w.first(0, err, expectation{c.want, c.rank, asked, offered, text})
			w.first(1, errWaited, expectation{c.want, c.rank, offered, asked, text})
		})
	}
}

// A region that was registered by hand is told from a wrong key.
func TestDiagnoseRegionByHand(t *testing.T) {
	w := admit(t, nil)
	w.walk(dose{}, StateRTS)
	r := w.world[1]
	block, err := memory.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	mr, err := r.Memory().Register(block.Addr(), 4096, verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { noErrors(t, []error{mr.Close(), block.Free()}) }()
	r.Memory().AddRegion("mine", mr)
	err = w.oneSided(verbs.OpWrite, 8, func(wr *verbs.WorkRequest) { wr.RKey, wr.RemoteAddr = mr.RKey(r.Left().Device()), mr.Addr })
	w.status(err, verbs.RemoteAccessError)
	w.first(0, err, expectation{"access", 1, "RDMA_WRITE of 8 bytes", "mine: rkey", []string{"mine", "gives no REMOTE_WRITE"}})
	r.Memory().RemoveRegion("mine")
	w.first(0, err, expectation{"rkey", 0, "RDMA_WRITE of 8 bytes", "slots: rkey", []string{"no region of it has this rkey"}})
}

func TestDiagnoseAccessOfTheQueuePair(t *testing.T) {
	for op, c := range map[verbs.Opcode]struct{ access, missing verbs.Access }{
		verbs.OpWrite: {verbs.AccessLocalWrite | verbs.AccessRemoteRead, verbs.AccessRemoteWrite},
		verbs.OpRead:  {verbs.AccessLocalWrite | verbs.AccessRemoteWrite, verbs.AccessRemoteRead},
	} {
		w := admit(t, nil)
		w.walk(dose{init: with(1, Values{Access: &c.access})}, StateRTS)
		err := w.oneSided(op, 64, nil)
		w.status(err, verbs.RemoteInvalidRequest)
		text := []string{"gives rank 0 no " + c.missing.String(), "REM_INV_REQ (9)"}
		w.first(0, err, expectation{"access", 1, edges.AllAccess.String(), c.access.String(), text})
		w.first(1, errWaited, expectation{"access", 1, c.access.String(), edges.AllAccess.String(), text})
	}
}

func TestDiagnoseKilled(t *testing.T) {
	w := admit(t, nil)
	w.walk(dose{}, StateRTS)
	noErrors(t, []error{w.world[1].Left().QP.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState)})
	flushed := w.world[1].Failure().Completion(&verbs.Completion{ID: WRID(Left.Edge(), WRRecv, 0), Status: verbs.FlushError})
	text := []string{"is ERR", "taken there by Modify"}
	w.first(1, flushed, expectation{"qp_state", 1, "ERR", "RTS", text})
	err := w.send(64)
	w.status(err, verbs.RetryExceeded)
	w.first(0, err, expectation{"qp_state", 1, "ERR", "ERR", text})
	w.first(1, flushed, expectation{"qp_state", 1, "ERR", "ERR", text})
}

func TestDiagnoseNoReceive(t *testing.T) {
	w := admit(t, nil)
	w.walk(dose{init: with(1, Values{Receives: new(0)})}, StateRTS)
	err := w.send(64)
	w.status(err, verbs.RNRRetryExceeded)
	text := []string{"rank 1 (127.", "no receive posted", "RNR_RETRY_EXC (13)"}
	w.first(0, err, expectation{"sends_posted", 1, "rnr_retry 1", "receives_posted 0", text})
	w.first(1, errWaited, expectation{"receives_posted", 1, "receives_posted 0", "rnr_retry 1", text})
}

// With rnr_retry 7 nothing ever fails: who waits is told.
func TestDiagnoseNoReceiveForEver(t *testing.T) {
	w := admit(t, nil)
	w.walk(dose{init: with(1, Values{Receives: new(0)}), rts: with(0, Values{RNRRetry: new(7)})}, StateRTS)
	if err := w.world[0].Right().SendMessage(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	text := []string{"no receive posted", "wait for ever (rnr_retry 7)"}
	w.first(0, errWaited, expectation{"sends_posted", 1, "sends_posted 1", "receives_posted 0", text})
	w.first(1, nil, expectation{"receives_posted", 1, "receives_posted 0", "sends_posted 1", text})
}

func TestDiagnoseDestQPN(t *testing.T) {
	w := admit(t, nil)
	w.walk(dose{rtr: with(0, Values{Side: new(Right), DestQPN: new(uint32(0xabcdef))})}, StateRTS)
	err := w.send(64)
	w.status(err, verbs.RetryExceeded)
	real := fmt.Sprintf("0x%06x", w.world[1].Left().QP.Num())
	text := []string{"0xabcdef", real, "go astray", "RETRY_EXC (12)"}
	w.first(0, err, expectation{"dest_qpn", 0, "0xabcdef", real, text})
	w.first(1, errWaited, expectation{"qpn", 0, real, "0xabcdef", text})
}

func TestDiagnoseDGID(t *testing.T) {
	w := admit(t, nil)
	var elsewhere verbs.GID
	noErrors(t, []error{elsewhere.UnmarshalText([]byte("::ffff:127.254.254.254"))})
	w.walk(dose{rtr: with(0, Values{DGID: &elsewhere})}, StateRTS)
	err := w.send(64)
	w.status(err, verbs.RetryExceeded)
	real := w.world[1].Left().Local.GID.String()
	text := []string{"127.254.254.254", real, "packets go elsewhere"}
	w.first(0, err, expectation{"dgid", 0, "127.254.254.254", real, text})
	w.first(1, errWaited, expectation{"gid", 0, real, "127.254.254.254", text})
}

func TestDiagnoseLength(t *testing.T) {
	w := admit(t, nil)
	w.walk(dose{init: with(1, Values{Receives: new(0)})}, StateRTS)
	e := w.world[1].Left()
	if _, err := e.QP.PostRecv([]verbs.WorkRequest{{ID: WRID(Left.Edge(), WRUser, 9), SGL: []verbs.SGE{{Addr: e.messages.Addr(), Length: 16, LKey: e.msgMR.LKey()}}}}); err != nil {
		t.Fatal(err)
	}
	err := w.send(100)
	w.status(err, verbs.RemoteInvalidRequest)
	text := []string{"100 bytes", "holds 16", "LOC_LEN (1)", "REM_INV_REQ (9)"}
	w.first(0, err, expectation{"length", 0, "100 bytes", "16 bytes", text})
	token := begin(t, w.world[1])
	local := w.await(token, WRID(Left.Edge(), WRUser, 9))
	token.Release()
	w.status(local, verbs.LocalLengthError)
	w.first(1, local, expectation{"length", 0, "16 bytes", "100 bytes", text})
}

func TestDiagnoseLocalProtection(t *testing.T) {
	w := admit(t, nil)
	w.walk(dose{}, StateRTS)
	err := w.oneSided(verbs.OpWrite, 16, func(wr *verbs.WorkRequest) { wr.SGL[0].LKey = 0xbad00 })
	w.status(err, verbs.LocalProtectionError)
	w.first(0, err, expectation{"lkey", 0, "lkey 0xbad00, 16 bytes", "", []string{"LOC_PROT, 4"}})
	w.first(1, errWaited, expectation{"lkey", 0, "", "lkey 0xbad00, 16 bytes", []string{"LOC_PROT, 4"}})
}

func TestDiagnoseSilence(t *testing.T) {
	w := admit(t, func(rank int, o *Options) {
		if rank == 0 {
			o.Inject = "soft: loss 100%"
		}
	})
	w.walk(dose{}, StateRTS)
	err := w.send(64)
	w.status(err, verbs.RetryExceeded)
	text := []string{"TCP ok, RDMA silent", "UDP port 4791", "2^13", "counted no packet"}
	w.first(0, err, expectation{"port_rcv_packets", 1, "", "port_rcv_packets +0", text})
	if out := loud(w.world[0].Ends().Diagnose(t.Context(), Left.Edge(), err)); len(out) > 0 {
		t.Errorf("the other edge is blamed, too: %q", out)
	}
	w.first(1, errWaited, expectation{"port_rcv_packets", 1, "port_rcv_packets +0", "", text})
}

// A value that the device refuses is named, and the queue pair is where it was.
func TestDiagnoseModify(t *testing.T) {
	for name, c := range map[string]struct {
		value           Values
		attribute, want string
	}{
		"min_rnr_timer": {Values{MinRNRTimer: new(40)}, "min_rnr_timer", "40"},
		"max_dest":      {Values{MaxDestRDAtomic: new(200)}, "max_dest_rd_atomic", "200"},
		"psn":           {Values{PSN: new(uint32(1 << 24))}, "rq_psn", "0x1000000"},
	} {
		t.Run(name, func(t *testing.T) {
			w := admit(t, nil)
			upTo(t, w.world, StateExchanged)
			err := w.world[0].RTR(t.Context(), c.value)
			// The left edge comes first.
			found := w.world[0].Ends().Diagnose(t.Context(), Left.Edge(), err)
			if f := found[0]; f.Attribute != c.attribute || f.Rank != 0 || !strings.Contains(f.Own, c.want) || !strings.Contains(f.Text, "INIT→RTR") || !strings.Contains(f.Text, "rank 0") {
				t.Errorf("%+v", found)
			}
			if out := loud(w.world[0].Ends().Diagnose(t.Context(), Right.Edge(), err)); len(out) > 0 {
				t.Errorf("the other edge is blamed, too: %q", out)
			}
		})
	}
}

// A neighbour whose TCP connections end is lost: what is known of the own end
// is said anyway.
func TestDiagnoseWithoutTCP(t *testing.T) {
	var cable wire
	w := admit(t, func(rank int, o *Options) {
		if rank == 1 {
			cable.install(o)
		}
	})
	w.walk(dose{}, StateRTS)
	cable.cut()
	for deadline := time.Now().Add(5 * time.Second); !w.world[0].Failed() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	found := w.world[0].Ends().Diagnose(t.Context(), Right.Edge(), errWaited)
	if len(found) == 0 || found[0].Attribute != "ring" || found[0].Rank != 1 || !strings.Contains(explain(found), "rank 1") {
		t.Errorf("%+v", found)
	}
}

// Both ends agree and nothing was sent: a wait that ends is somebody's who has
// not begun.
func TestDiagnoseNobodyBegan(t *testing.T) {
	w := admit(t, nil)
	w.walk(dose{}, StateRTS)
	found := w.world[0].Ends().Diagnose(t.Context(), Right.Edge(), errWaited)
	if len(found) == 0 || found[0].Severity != diagnose.Warning || found[0].Attribute != "busy" || !strings.Contains(found[0].Text, "has not begun") {
		t.Errorf("%+v", found)
	}
}

// Once the ring has failed nobody answers, but what a neighbour said before still
// explains the failure.
func TestDiagnoseAFailedRing(t *testing.T) {
	w := admit(t, nil)
	w.walk(dose{rtr: [2]Values{{MTU: new(4096)}, {MTU: new(1024)}}}, StateRTS)
	if _, _, err := w.world[0].Ends().Both(t.Context(), Right.Edge()); err != nil {
		t.Fatal(err)
	}
	err := w.oneSided(verbs.OpWrite, 4096, nil)
	w.status(err, verbs.RemoteInvalidRequest)
	w.world[0].Fail(err)
	if own, err := w.world[0].Ends().Own(Right.Edge()); err != nil || lastPeerEnd(w.world[0].ends, Right.Edge(), &own) == nil || lastPeerEnd(w.world[0].ends, Left.Edge(), &own) != nil {
		t.Errorf("%v: expected to have seen the right neighbour's end alone", err)
	}
	found := w.world[0].Ends().Diagnose(t.Context(), Right.Edge(), err)
	if len(found) < 2 || found[0].Attribute != "path_mtu" || found[0].Rank != 1 || found[0].Own != "4096" || found[0].Peer != "1024" {
		t.Errorf("%+v", found)
	}
	for deadline := time.Now().Add(5 * time.Second); !w.world[1].Failed() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if found := w.world[1].Ends().Diagnose(t.Context(), Left.Edge(), errWaited); len(found) == 0 || found[0].Attribute != "ring" || !strings.Contains(found[0].Text, "remote invalid request") {
		t.Errorf("%+v", found)
	}
}
