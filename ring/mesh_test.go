package ring

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/diagnose"
	"ringcli/ring/watch"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// others are all ranks but one.
func others(n, rank int) []int {
	var list []int
	for i := range n {
		if i != rank {
			list = append(list, i)
		}
	}
	return list
}

// doublers are the peers of recursive doubling among a power of two.
func doublers(n, rank int) []int {
	var list []int
	for bit := 1; bit < n; bit <<= 1 {
		list = append(list, rank^bit)
	}
	return list
}

// exchangeOver has a rank send a message and write a slot over each edge, with
// immediate data, and verifies what comes from each peer. All ranks run it.
func exchangeOver(ctx context.Context, r *Ring, edges []*Edge) error {
	token, err := r.Begin(ctx)
	if err != nil {
		return err
	}
	defer token.Release()
	const length = 1000
	staging, err := memory.Alloc(uint64(len(edges)*length) + 1)
	if err != nil {
		return err
	}
	defer func() { _ = staging.Free() }()
	mr, err := r.Memory().Register(staging.Addr(), uint64(staging.Len()), verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	defer func() { _ = mr.Close() }()
	byPeer := func(from, to, i int) byte { return byte(from*31 + to*7 + i) }
	slot := r.Rank() % MeshSlots
	for k, e := range edges {
		b := staging.Bytes()[k*length:][:length]
		for i := range b {
			b[i] = byPeer(r.Rank(), e.Peer, i)
		}
		if err := e.SendMessage(binary.LittleEndian.AppendUint64(nil, uint64(r.Rank())<<32|uint64(e.Peer))); err != nil {
			return err
		}
		addr, rkey := e.RemoteSlot(slot)
		wr := verbs.WorkRequest{ID: WRID(e.ID, WRUser, 9), Opcode: verbs.OpWriteImm, Flags: verbs.FlagSignaled, Imm: uint32(slot),
			RemoteAddr: addr, RKey: rkey, SGL: []verbs.SGE{{Addr: memory.Addr(b), Length: length, LKey: mr.LKey(e.Device())}}}
		if _, err := e.QP.PostSend([]verbs.WorkRequest{wr}); err != nil {
			return err
		}
	}
	var wc [16]verbs.Completion
	waiter := r.host.NewWaiter()
	begun := time.Now()
	for missing := 4 * len(edges); missing > 0; {
		n, err := token.Poll(wc[:])
		if err != nil {
			return err
		}
		for i := range wc[:n] {
			c := &wc[i]
			if c.Status != verbs.Success {
				return r.Failure().Completion(c)
			}
			id, kind, value := ParseWRID(c.ID)
			e := r.Edge(id)
			if e == nil || !slices.Contains(edges, e) {
				return fmt.Errorf("a completion of edge %d: expected a mesh edge", id)
			}
			missing--
			switch {
			case kind != WRRecv:
				continue
			case c.Opcode == verbs.WCRecvWriteImm:
				if int(c.Imm) != e.Peer%MeshSlots {
					return fmt.Errorf("slot %d written by rank %d", c.Imm, e.Peer)
				}
				for i, b := range e.Slot(int(c.Imm))[:length] {
					if want := byPeer(e.Peer, r.Rank(), i); b != want {
						return fmt.Errorf("byte %d from rank %d is %d: expected %d", i, e.Peer, b, want)
					}
				}
			default:
				if got := binary.LittleEndian.Uint64(e.Message(value, c.ByteLen)); got != uint64(e.Peer)<<32|uint64(r.Rank()) {
					return fmt.Errorf("message %#x from rank %d", got, e.Peer)
				}
			}
			if err := e.Repost(value); err != nil {
				return err
			}
		}
		switch {
		case n > 0:
			waiter.Reset()
			continue
		case r.Failed():
			return r.Err()
		case time.Since(begun) > 20*time.Second:
			return fmt.Errorf("%d completions are missing", missing)
		}
		if err := waiter.Wait(); err != nil {
			return err
		}
	}
	return token.End()
}

// overMesh makes a mesh and uses it.
func overMesh(ctx context.Context, purpose string, peers func(n, rank int) []int) func(*Ring) error {
	return func(r *Ring) error {
		want := peers(r.Size(), r.Rank())
		edges, err := r.Mesh(ctx, Purpose{What: purpose}, want)
		if err != nil {
			return err
		}
		if len(edges) != len(want) {
			return fmt.Errorf("%d edges: expected %d", len(edges), len(want))
		}
		for i, e := range edges {
			if e.Peer != want[i] || e.ID < firstMesh || r.Edge(e.ID) != e {
				return fmt.Errorf("edge %d is the %s with ID %d: expected one to rank %d", i, e, e.ID, want[i])
			}
		}
		return exchangeOver(ctx, r, edges)
	}
}

// All pairs of ranks, over edges of their own, beside the ring.
func TestMesh(t *testing.T) {
	for n := 1; n <= 9; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			peers := others
			if n == 9 { // a rank of a larger ring reaches some
				peers = func(n, rank int) []int {
					return []int{(rank + 3) % n, (rank + n - 3) % n, (rank + 1) % n, (rank + n - 1) % n}
				}
			}
			world := connect(t, n, nil)
			for range 2 {
				noErrors(t, each(world, overMesh(t.Context(), "all", peers)))
				noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 3); return err }))
			}
			for i, r := range world {
				if e := r.MeshEdges(); len(e) != len(peers(n, i)) {
					t.Errorf("rank %d has %d mesh edges: expected %d", i, len(e), len(peers(n, i)))
				}
				if r.Left().Side != Left || r.Right().Side != Right || r.Edge(firstMesh+100) != nil || r.Edge(-1) != nil {
					t.Errorf("rank %d: the sides are mixed up", i)
				}
			}
		})
	}
}

// Edges are shared between purposes, ranks may have none, and what is known costs
// nothing: not even the others need to take part.
func TestMeshShares(t *testing.T) {
	world := connect(t, 4, nil)
	square := func(n, rank int) []int { return []int{(rank + 1) % n, (rank + n - 1) % n} }
	pair := func(_, rank int) []int { return map[int][]int{0: {2}, 2: {0}}[rank] }
	for i, step := range []struct {
		purpose string
		peers   func(n, rank int) []int
		edges   []int
	}{{"square", square, []int{2, 2, 2, 2}}, {"pair", pair, []int{3, 2, 3, 2}}, {"all", others, []int{3, 3, 3, 3}}, {"again", square, []int{3, 3, 3, 3}}} {
		noErrors(t, each(world, overMesh(t.Context(), step.purpose, step.peers)))
		for rank, r := range world {
			if n := len(r.MeshEdges()); n != step.edges[rank] {
				t.Errorf("step %d: rank %d has %d mesh edges: expected %d", i, rank, n, step.edges[rank])
			}
		}
	}
	if edges, err := world[1].Mesh(t.Context(), Purpose{What: "square"}, square(4, 1)); err != nil || len(edges) != 2 {
		t.Errorf("%v, %v: expected the known edges at once", edges, err)
	}
	known := []int{0, 1, 3}
	if n := testing.AllocsPerRun(100, func() { _, _ = world[2].Mesh(t.Context(), Purpose{What: "all"}, known) }); n > 0 {
		t.Errorf("a call for known edges allocates %v times", n)
	}
	if _, err := world[1].Mesh(t.Context(), Purpose{What: "square"}, []int{0}); !usage.Is(err) || !strings.Contains(textOf(err), `connections for square: rank 1 names peers [0], and named [2 0] before`) {
		t.Errorf("%v: expected the peers of before", err)
	}
	noErrors(t, each(world, func(r *Ring) error { return r.Barrier(t.Context()) }))
}

// Whatever ranks disagree on, all are told the same, and by whom.
func TestMeshDisagreements(t *testing.T) {
	for name, c := range map[string]struct {
		purpose func(rank int) string
		peers   [][]int
		usage   bool
		want    []string
	}{
		"one-sided": {nil, [][]int{{1}, {0, 2}, {}}, true, []string{`connections for it: `, "rank 1 (127.", "names rank 2 (127.", "which names []"}},
		"itself":    {nil, [][]int{{1}, {0}, {2}}, true, []string{`connections for it: `, "rank 2 (127.", "peer 2 is this rank itself"}},
		"outside":   {nil, [][]int{{1}, {0, 3}, {}}, true, []string{`connections for it: `, "rank 1 (127.", "peer 3: expected 0 to 2"}},
		"negative":  {nil, [][]int{{-1}, {}, {}}, true, []string{"rank 0 (127.", "peer -1: expected 0 to 2"}},
		"twice":     {nil, [][]int{{1, 1}, {0}, {}}, true, []string{"rank 0 (127.", "peer 1 is named twice"}},
		"purposes": {func(rank int) string { return []string{"it", "it", "that"}[rank] }, [][]int{{1}, {0}, {}}, true,
			[]string{`to make the connections for it`, `to make the connections for that`, "all ranks must run the same operations"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			purpose := c.purpose
			if purpose == nil {
				purpose = func(int) string { return "it" }
			}
			for _, byHand := range []bool{false, true} {
				world := connect(t, 3, func(_ int, o *Options) { o.ByHand = byHand })
				for i, err := range each(world, func(r *Ring) error {
					_, err := r.Mesh(t.Context(), Purpose{What: purpose(r.Rank())}, c.peers[r.Rank()])
					return err
				}) {
					for _, want := range c.want {
						if !strings.Contains(textOf(err), want) {
							t.Errorf("rank %d: %s: expected %q", i, textOf(err), want)
						}
					}
					if usage.Is(err) != c.usage {
						t.Errorf("rank %d: %v is usage: %v", i, err, usage.Is(err))
					}
					if r := world[i]; r.Failed() == byHand || len(r.MeshEdges()) > 0 {
						t.Errorf("rank %d: failed %v with %d mesh edges", i, r.Failed(), len(r.MeshEdges()))
					}
				}
				if byHand { // nothing is lost
					noErrors(t, each(world, overMesh(t.Context(), "it", others)))
				}
			}
		})
	}
}

// More edges than the completion queue has room for.
func TestMeshTooMany(t *testing.T) {
	const n = 100
	if most := MeshMost(n); most >= n-1 {
		t.Fatalf("%d of %d", most, n)
	}
	for n, want := range map[int]int{1: 0, 2: 1, 8: 7, 65: 64, 79: 78, 80: 78, 1000: 84} {
		if got := MeshMost(n); got != want {
			t.Errorf("%d edges at %d ranks: expected %d", got, n, want)
		}
	}
	r := newRings(t, 1, nil)[0]
	r.nodes = slices.Repeat(r.nodes, n)
	m := &meshCall{r: r, purpose: Purpose{What: "all"}, peers: others(n, 0)}
	if err := m.check(); !usage.Is(err) || !strings.Contains(textOf(err), "99 peers make 99 edges beside the ring's: expected at most 78 on a ring of 100 ranks") {
		t.Errorf("%v: expected that there are too many", err)
	}
	r.nodes = r.nodes[:1]
}

// A rank that never comes is named, with what was awaited.
func TestMeshMissingRank(t *testing.T) {
	t.Parallel() // it waits
	world := connect(t, 3, nil)
	setTimeout(world, 2*time.Second)
	begun := time.Now()
	for i, err := range each(world[:2], func(r *Ring) error {
		_, err := r.Mesh(t.Context(), Purpose{What: "all"}, others(3, r.Rank()))
		return err
	}) {
		if text := textOf(err); !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(text, "found by") || !strings.Contains(text, `waiting for rank 2 to make the connections for all`) {
			t.Errorf("rank %d: %s: expected that rank 2 is missing", i, text)
		}
		if !world[i].Failed() {
			t.Errorf("rank %d: the ring has not failed", i)
		}
	}
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("it took %s: expected the deadline to hold", took)
	}
}

// Who waits elsewhere can learn that others are in a mesh.
func TestAwaited(t *testing.T) {
	world := connect(t, 2, nil)
	r := newRings(t, 1, nil)[0]
	for _, r := range []*Ring{r, world[0]} {
		if what, ok := r.Stalls().Awaited(); ok {
			t.Errorf("%s: expected that nobody waits", what)
		}
	}
	done := make(chan error, 1)
	go func() { _, err := world[1].Mesh(t.Context(), Purpose{What: "inbox"}, []int{0}); done <- err }()
	var what Awaited
	for ok := false; !ok; what, ok = world[0].Stalls().Awaited() {
		if t.Context().Err() != nil || world[0].Failed() {
			t.Fatal(world[0].Err())
		}
		time.Sleep(time.Millisecond)
	}
	if want := "rank 1 (" + world[1].nodes[1].String() + ") waits for rank 0 to make the connections for inbox"; what.String() != want {
		t.Errorf("%s: expected %s", what, want)
	}
	_, err := world[0].Mesh(t.Context(), Purpose{What: "inbox"}, []int{1})
	noErrors(t, []error{err, <-done})
	if what, ok := world[0].Stalls().Awaited(); ok {
		t.Errorf("%s: expected that nobody waits any more", what)
	}
}

// A rank dies while the others wait for it in Mesh.
func TestMeshAndADeath(t *testing.T) {
	const victim = 1
	var w wire
	world := connect(t, 4, func(rank int, o *Options) {
		if rank == victim {
			w.install(o)
		}
	})
	time.AfterFunc(50*time.Millisecond, w.cut)
	for i, err := range each(world, func(r *Ring) error {
		if r.Rank() == victim {
			return nil
		}
		_, err := r.Mesh(t.Context(), Purpose{What: "all"}, others(4, r.Rank()))
		return err
	}) {
		var v *Verdict
		if i != victim && (!errors.As(err, &v) || v.Rank != victim) {
			t.Errorf("rank %d: %v: expected the loss of rank %d", i, err, victim)
		}
	}
}

// A ring that fails takes the mesh with it, while it works and while it is made.
func TestFailTakesTheMesh(t *testing.T) {
	for _, made := range []bool{true, false} {
		world := connect(t, 3, nil)
		all := func(r *Ring) error {
			_, err := r.Mesh(t.Context(), Purpose{What: "all"}, others(3, r.Rank()))
			return err
		}
		if made {
			noErrors(t, each(world, all))
		}
		time.AfterFunc(time.Millisecond, func() { world[2].Fail(errors.New("enough")) })
		errs := each(world, func(r *Ring) error {
			for {
				var err error
				if made {
					err = exchangeOver(t.Context(), r, r.MeshEdges())
				} else {
					_, err = r.Mesh(t.Context(), Purpose{What: fmt.Sprint("all ", len(r.table.mesh.made))}, others(3, r.Rank()))
				}
				if err != nil {
					return r.failure.Settled(err)
				}
			}
		})
		for i, r := range world {
			if !r.Failed() || !strings.Contains(textOf(errs[i]), "enough") {
				t.Errorf("rank %d: %v: expected the reason", i, errs[i])
			}
			for _, e := range r.MeshEdges() {
				if attr, _, err := e.QP.Query(); err != nil || attr.State != verbs.StateErr {
					t.Errorf("rank %d: the queue pair of the %s is %s, %v", i, e, attr.State, err)
				}
			}
			if _, err := r.Mesh(t.Context(), Purpose{What: "more"}, nil); !strings.Contains(textOf(err), "enough") {
				t.Errorf("rank %d: a mesh on a failed ring: %v", i, err)
			}
		}
	}
}

// Reset drops the mesh, and it can be made anew; a rank that was not reset is named.
func TestMeshReset(t *testing.T) {
	world := byHand(t, 3)
	upTo(t, world, StateRTS)
	before := memory.Live.Load()
	for range 3 {
		noErrors(t, each(world, overMesh(t.Context(), "all", others)))
		if memory.Live.Load() == before {
			t.Error("a mesh takes no memory")
		}
		noErrors(t, each(world, func(r *Ring) error { return r.Reset(t.Context()) }))
		if live := memory.Live.Load(); live != before {
			t.Errorf("%d bytes are left of the mesh", live-before)
		}
		for i, r := range world {
			if len(r.MeshEdges()) > 0 {
				t.Errorf("rank %d has mesh edges after a reset", i)
			}
		}
		if _, err := world[0].Mesh(t.Context(), Purpose{What: "all"}, []int{1, 2}); !strings.Contains(textOf(err), "init comes first") {
			t.Errorf("%v: expected that init comes first", err)
		}
		upTo(t, world, StateRTS)
	}
	noErrors(t, each(world, overMesh(t.Context(), "all", others)))
	noErrors(t, []error{world[0].table.mesh.drop(&world[0].table.mu)})
	for i, err := range each(world, func(r *Ring) error {
		_, err := r.Mesh(t.Context(), Purpose{What: "other"}, others(3, r.Rank()))
		return err
	}) {
		if text := textOf(err); !strings.Contains(text, "from before a reset there: reset on all ranks") {
			t.Errorf("rank %d: %s: expected the edge that is left", i, text)
		}
	}
}

// A failed completion on a mesh edge says which.
func TestMeshCompletionError(t *testing.T) {
	world := connect(t, 3, nil)
	noErrors(t, each(world, func(r *Ring) error {
		_, err := r.Mesh(t.Context(), Purpose{What: "all"}, others(3, r.Rank()))
		return err
	}))
	r := world[0]
	e := r.MeshEdges()[1]
	token := begin(t, r)
	wr := verbs.WorkRequest{ID: WRID(e.ID, WRUser, 1), Opcode: verbs.OpWrite, Flags: verbs.FlagSignaled, RemoteAddr: 4096, RKey: 12345}
	wr.SGL = []verbs.SGE{{Addr: e.messages.Addr(), Length: 8, LKey: e.msgMR.LKey()}}
	if _, err := e.QP.PostSend([]verbs.WorkRequest{wr}); err != nil {
		t.Fatal(err)
	}
	var wc [1]verbs.Completion
	waiter := r.host.NewWaiter()
	for n := 0; n == 0; {
		var err error
		if n, err = token.Poll(wc[:]); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			noErrors(t, []error{waiter.Wait()})
		}
	}
	err := r.Failure().Completion(&wc[0])
	var c *CompletionError
	if text := textOf(err); !errors.As(err, &c) || c.Edge != firstMesh+1 || c.Peer != 2 || c.Status != verbs.RemoteAccessError || !strings.Contains(text, "mesh edge to rank 2 (127.") {
		t.Errorf("%s: expected the edge", text)
	}
	if f := e.QP.(*watch.QP).Known().First; f == nil || f.Opcode != diagnose.Is(verbs.OpWrite) {
		t.Errorf("%+v: expected the request that failed", f)
	}
	noErrors(t, []error{token.End()})
	if err := r.Failure().Completion(&verbs.Completion{ID: WRID(firstMesh+2, WRUser, 0), Status: verbs.RetryExceeded}); !strings.Contains(textOf(err), "unknown work request") {
		t.Errorf("%v: expected an edge that is not there to be unknown", err)
	}
}

// A rank's memory grows with the ring by its edges alone, of which recursive
// doubling needs log2 n.
func TestMeshMemory(t *testing.T) {
	sizes := []int{4, 16, 64}
	if testing.Short() {
		sizes = sizes[:2]
	}
	const perEdge = 560 << 10
	for _, n := range sizes {
		bare := memory.Live.Load()
		world := connect(t, n, func(_ int, o *Options) { o.Timeout = time.Minute })
		ring := memory.Live.Load()
		noErrors(t, each(world, overMesh(t.Context(), "doubling", doublers)))
		mesh := (memory.Live.Load() - ring) / int64(n)
		edges := int64(len(doublers(n, 0)))
		t.Logf("%d ranks: %d bytes for the ring, %d for %d mesh edges", n, (ring-bare)/int64(n), mesh, edges)
		if mesh <= 0 || mesh > edges*perEdge {
			t.Errorf("%d ranks: %d bytes a rank: expected at most %d for each of %d edges", n, mesh, perEdge, edges)
		}
		noErrors(t, each(world, func(r *Ring) error { return r.Close() }))
		if live := memory.Live.Load(); live != bare {
			t.Errorf("%d bytes are left", live-bare)
		}
	}
}
