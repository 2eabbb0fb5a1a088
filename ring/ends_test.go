package ring

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"ringcli/ring/diagnose"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// The names that scripts read.
const endFields = `rank node side peer peer_node device provider netdev link_layer gid gid_type gid_index lid port active_mtu udp_port
qpn qp_state path_mtu rq_psn sq_psn dest_qpn dgid sgid_index sl traffic_class hop_limit access pkey_index pkey port_num qp_timeout retry_cnt
rnr_retry min_rnr_timer max_rd_atomic max_dest_rd_atomic cap first_psn slots slot_count slot_size regions counters receives_posted first_error`

func TestEndAsJSON(t *testing.T) {
	world := connect(t, 2, nil)
	own, peer, err := world[0].Ends().Both(t.Context(), Right.Edge())
	if err != nil {
		t.Fatal(err)
	}
	said := own
	said.Capabilities = verbs.Capabilities{} // they go over TCP alone
	b, err := json.Marshal(own)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(endFields) {
		if _, ok := fields[name]; !ok {
			t.Errorf("no %s in %s", name, b)
		}
	}
	for name := range fields {
		if name != strings.ToLower(name) || strings.Contains(name, "-") {
			t.Errorf("%s is not snake_case", name)
		}
	}
	var back diagnose.End
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(said, back) {
		t.Errorf("%v: it came back as %+v, was %+v", err, back, own)
	}
	// What comes over TCP is what the neighbour sees of itself, but for the counters.
	theirs, err := world[1].Ends().Own(Left.Edge())
	if err != nil {
		t.Fatal(err)
	}
	theirs.Counters, peer.Counters = nil, nil
	if !reflect.DeepEqual(theirs, peer) {
		t.Errorf("rank 0 is told %+v, rank 1 has %+v", peer, theirs)
	}
}

// Every attribute is the queue pair's own: what is done behind the ring's back
// shows.
func TestEndIsLive(t *testing.T) {
	world := byHand(t, 2)
	upTo(t, world, StateExchanged)
	r := world[0]
	qp := r.Left().QP
	gid := verbs.GIDFromAddr(r.Host().Addr())
	index := r.devices.list[0].GID.Entry.Index
	modify := func(attr verbs.QPAttr, mask verbs.AttrMask) {
		t.Helper()
		if err := qp.Modify(attr, mask); err != nil {
			t.Fatal(err)
		}
	}
	modify(verbs.QPAttr{
		State: verbs.StateRTR, PathMTU: verbs.MTU512, DestQPN: 0x123456, RQPSN: 0x654321, MaxDestRDAtomic: 5, MinRNRTimer: 9,
		Access: verbs.AccessRemoteRead,
		AH: verbs.AHAttr{IsGlobal: true, SL: 3, PortNum: 1, DLID: 77, UDP: verbs.UDPPeer{Port: 4999, LowIPIDs: true},
			GRH: verbs.GlobalRoute{DGID: gid, SGIDIndex: index, HopLimit: 11, TrafficClass: 106, FlowLabel: 8}},
	}, verbs.AttrState|verbs.AttrAV|verbs.AttrPathMTU|verbs.AttrDestQPN|verbs.AttrRQPSN|verbs.AttrMaxDestRDAtomic|verbs.AttrMinRNRTimer|verbs.AttrAccess)
	modify(verbs.QPAttr{State: verbs.StateRTS, SQPSN: 0xabcdef, Timeout: 21, RetryCnt: 4, RNRRetry: 2, MaxRDAtomic: 6},
		verbs.AttrState|verbs.AttrTimeout|verbs.AttrRetryCnt|verbs.AttrRNRRetry|verbs.AttrSQPSN|verbs.AttrMaxRDAtomic)
	end, err := r.Ends().Own(Left.Edge())
	if err != nil {
		t.Fatal(err)
	}
	want := end // for what is not of the queue pair
	want.QPN, want.QPState, want.PathMTU, want.RQPSN, want.SQPSN, want.DestQPN, want.DGID = qp.Num(), diagnose.Is(verbs.StateRTS), 512, 0x654321, 0xabcdef, 0x123456, gid
	want.DLID, want.DestUDPPort, want.SGIDIndex, want.FlowLabel, want.SL, want.TrafficClass, want.HopLimit = 77, 4999, index, 8, 3, 106, 11
	want.Access, want.AccessFlags, want.PKeyIndex, want.PortNum = verbs.AccessRemoteRead, []string{"REMOTE_READ"}, 0, 1
	want.QPTimeout, want.RetryCnt, want.RNRRetry, want.MinRNRTimer, want.MaxRDAtomic, want.MaxDestRDAtomic = 21, 4, 2, 9, 6, 5
	want.Cap = verbs.QPCap{MaxSendWR: sendDepth, MaxRecvWR: recvDepth, MaxSendSGE: 2, MaxRecvSGE: 1, MaxInlineData: MessageSize}
	want.SQPSNFirst, want.RQPSNFirst, want.ReceivesPosted = new(uint32(0xabcdef)), new(uint32(0x654321)), recvDepth
	if !reflect.DeepEqual(end, want) {
		t.Errorf("got  %+v\nwant %+v", end, want)
	}
	if peer, err := world[1].Ends().Peer(t.Context(), Right.Edge()); err != nil || peer.SQPSN != 0xabcdef || peer.TrafficClass != 106 {
		t.Errorf("rank 1 is told %+v, %v", peer, err)
	}
	modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState)
	if end, err := r.Ends().Own(Left.Edge()); err != nil || !end.QPState.Is(verbs.StateErr) || !end.Killed || end.ReceivesPosted != 0 || !strings.Contains(end.FirstError, "Flushed") {
		t.Errorf("%+v, %v: expected ERR, and the first of the receives flushed", end, err)
	}
	modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState)
	if end, err := r.Ends().Own(Left.Edge()); err != nil || !end.QPState.Is(verbs.StateReset) || end.Killed || end.FirstError != "" || end.SQPSNFirst != nil || end.PathMTU != 0 {
		t.Errorf("%+v, %v: expected RESET to forget all", end, err)
	}
}

// A ring may fail before it has queue pairs: that they are missing is what is said.
func TestEndBeforeInit(t *testing.T) {
	r := byHand(t, 1)[0]
	upTo(t, []*Ring{r}, StateOpened)
	for range 2 {
		var step *StepError
		if _, err := r.Ends().Own(Left.Edge()); !errors.As(err, &step) || step.Missing != "init" {
			t.Errorf("%s: %v: expected that init is missing", r.State(), err)
		}
		r.Fail(errors.New("enough"))
	}
}

// An end can be had in every state from Initialised on, and a neighbour's as soon
// as there is a connection to ask over.
func TestEndInEveryState(t *testing.T) {
	world := byHand(t, 2)
	r := world[0]
	var step *StepError
	for _, to := range []State{StateOpened, StateInitialised} {
		if _, err := r.Ends().Own(Left.Edge()); !errors.As(err, &step) {
			t.Errorf("%s: %v: expected a StepError", r.State(), err)
		}
		if _, err := r.Ends().Peer(t.Context(), Left.Edge()); err == nil {
			t.Errorf("%s: a neighbour answered", r.State())
		}
		upTo(t, world, to)
	}
	if _, err := r.Ends().Peer(t.Context(), Left.Edge()); err == nil || !strings.Contains(err.Error(), "exchange") {
		t.Errorf("%s: %v: expected that exchange is missing", r.State(), err)
	}
	if found := r.Ends().Diagnose(t.Context(), Left.Edge(), nil); len(found) != 1 || found[0].Severity != diagnose.Note {
		t.Errorf("%+v", found)
	}
	for to, state := range map[State]verbs.QPState{
		StateInitialised: verbs.StateInit, StateExchanged: verbs.StateInit, StateRTR: verbs.StateRTR, StateRTS: verbs.StateRTS, StateReady: verbs.StateRTS,
	} {
		w := byHand(t, 2)
		upTo(t, w, to)
		if end, err := w[0].Ends().Own(Right.Edge()); err != nil || !end.QPState.Is(state) || end.RingState != to.String() {
			t.Errorf("%s: the queue pair is %s, the ring %s, %v", to, end.QPState, end.RingState, err)
		}
		if to == StateInitialised {
			continue
		}
		if end, err := w[1].Ends().Peer(t.Context(), Left.Edge()); err != nil || !end.QPState.Is(state) || end.Rank != 0 || end.Side != "right" {
			t.Errorf("%s: rank 1 is told %s, of rank %d, %s: %v", to, end.QPState, end.Rank, end.Side, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Ends().Own(Left.Edge()); !errors.As(err, &step) {
		t.Errorf("closed: %v", err)
	}
}

// What is posted is counted until it completes, whoever polls; a look takes no
// completion away.
func TestEndCountsWhatIsPosted(t *testing.T) {
	world := byHand(t, 2)
	upTo(t, world, StateReady)
	look := func(rank int, side Side, sends, receives int) {
		t.Helper()
		end, err := world[rank].Ends().Own(side.Edge())
		if err != nil || end.SendsPosted != sends || end.ReceivesPosted != receives {
			t.Errorf("rank %d: %d sends and %d receives posted, %v: expected %d and %d", rank, end.SendsPosted, end.ReceivesPosted, err, sends, receives)
		}
	}
	look(0, Right, 0, recvDepth)
	const messages = 3
	for range messages {
		if err := world[0].Right().SendMessage([]byte("hello")); err != nil {
			t.Fatal(err)
		}
	}
	// Of what a look has polled, the next operation still gets all.
	r := world[1]
	got := 0
	token := begin(t, r)
	var wc [8]verbs.Completion
	for got < messages {
		if got == 1 {
			look(1, Left, 0, recvDepth-1)
		}
		n, err := token.Poll(wc[:1])
		if err != nil {
			t.Fatal(err)
		}
		got += n
	}
	noErrors(t, []error{token.End()})
	look(1, Left, 0, recvDepth-messages)
	sent := 0
	token = begin(t, world[0])
	for sent < messages {
		n, err := token.Poll(wc[:])
		if err != nil {
			t.Fatal(err)
		}
		sent += n
	}
	noErrors(t, []error{token.End()})
	look(0, Right, 0, recvDepth)

	// A request that the queue pair refuses was never posted.
	if n, err := world[0].Right().QP.PostSend([]verbs.WorkRequest{{SGL: make([]verbs.SGE, 3)}}); n != 0 || err == nil {
		t.Errorf("three pieces were taken: %d, %v", n, err)
	}
	look(0, Right, 0, recvDepth)
}

// A look while nobody polls keeps what it finds for the next who does.
func TestLookKeepsCompletions(t *testing.T) {
	world := byHand(t, 2)
	upTo(t, world, StateReady)
	if err := world[0].Right().SendMessage([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	r := world[0]
	for posted := 1; posted > 0; {
		end, err := r.Ends().Own(Right.Edge())
		if err != nil {
			t.Fatal(err)
		}
		posted = end.SendsPosted
	}
	token := begin(t, r)
	var wc [8]verbs.Completion
	n, err := token.Poll(wc[:])
	noErrors(t, []error{err, token.End()})
	if _, kind, _ := ParseWRID(wc[0].ID); n != 1 || kind != WRMessage || wc[0].Status != verbs.Success {
		t.Errorf("%d completions: %+v", n, wc[0])
	}
}

func TestRegions(t *testing.T) {
	world := connect(t, 2, nil)
	r := world[1]
	block, err := memory.Alloc(8192)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { noErrors(t, []error{block.Free()}) }()
	want := []diagnose.Region{}
	for i, name := range []string{"a", "b"} {
		access := verbs.AccessLocalWrite | verbs.AccessRemoteRead<<i
		mr, err := r.Memory().Register(block.Addr()+uint64(i)*4096, 4096, access)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { noErrors(t, []error{mr.Close()}) }()
		r.Memory().AddRegion(name, mr)
		want = append(want, diagnose.Region{
			Name: name, Addr: mr.Addr, Length: 4096, LKey: mr.LKey(r.Right().Device()), RKey: mr.RKey(r.Right().Device()),
			Access: access, Flags: strings.Split(access.String(), ", "),
		})
	}
	for range 2 {
		if end, err := world[0].Ends().Peer(t.Context(), Left.Edge()); err != nil || !reflect.DeepEqual(end.Regions, want) {
			t.Errorf("rank 0 is told %+v, %v: expected %+v", end.Regions, err, want)
		}
		r.Memory().RemoveRegion(want[0].Name)
		want = want[1:]
	}
}

// That completions are noted costs the hot path no allocation.
func TestNotedAllocatesNothing(t *testing.T) {
	world := byHand(t, 1)
	upTo(t, world, StateReady)
	wc := []verbs.Completion{{ID: 5, QPN: world[0].Right().QP.Num(), Opcode: verbs.WCSend}}
	if n := testing.AllocsPerRun(1000, func() { noted(world[0].table, wc) }); n != 0 {
		t.Errorf("%v allocations for a completion", n)
	}
}

// What was deferred comes before what a look found after it.
func TestLookKeepsTheOrder(t *testing.T) {
	world := byHand(t, 2)
	upTo(t, world, StateReady)
	r := world[1]
	var wc [1]verbs.Completion
	var want, got [3]uint64
	var token Token
	next := func() verbs.Completion {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
			n, err := token.Poll(wc[:])
			if err != nil {
				t.Fatal(err)
			}
			if n == 1 {
				return wc[0]
			}
		}
		t.Fatal("nothing completed")
		return verbs.Completion{}
	}
	for i := range want {
		if err := world[0].Right().SendMessage([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			token = begin(t, r)
			token.Defer(next())
			noErrors(t, []error{token.End()})
			want[0] = wc[0].ID
			continue
		}
		for posted := recvDepth; posted > recvDepth-1-i; {
			end, err := r.Ends().Own(Left.Edge())
			if err != nil {
				t.Fatal(err)
			}
			posted = end.ReceivesPosted
		}
		want[i] = WRID(Left.Edge(), WRRecv, (want[0]+uint64(i))&(1<<40-1))
	}
	token = begin(t, r)
	for i := range got {
		got[i] = next().ID
	}
	noErrors(t, []error{token.End()})
	if got != want {
		t.Errorf("got %#x, want %#x", got, want)
	}
}
