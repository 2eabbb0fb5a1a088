package ring

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// A rank whose edges cannot be made, at any step, is named on all ranks, which are
// left without the edges of that call. By hand it can be mended.
func TestMeshHalfWay(t *testing.T) {
	const at = 1
	for name, c := range map[string]struct {
		spoil func(r *Ring)
		want  []string
		usage bool
	}{
		"created": {func(r *Ring) { r.opts.MTU = 1 << 20 }, []string{"mtu 1048576"}, true},
		"to INIT": {func(r *Ring) { r.devices.list[0].Port.Num = 9 }, []string{"9"}, false},
		"to RTR":  {func(r *Ring) { r.opts.MinRNRTimer = new(99) }, []string{"edge to rank 2", "min_rnr_timer"}, false},
		"differs": {func(r *Ring) { r.opts.SL = 3 }, []string{"service levels differ"}, true},
	} {
		for _, byHand := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, by hand %v", name, byHand), func(t *testing.T) {
				world := connect(t, 4, func(_ int, o *Options) { o.ByHand = byHand })
				noErrors(t, each(world, overMesh(t.Context(), "before", pairs)))
				before := memory.Live.Load()
				good := world[at].opts
				c.spoil(world[at])
				for i, err := range each(world, func(r *Ring) error {
					_, err := r.Mesh(t.Context(), Purpose{What: "all"}, others(4, r.Rank()))
					return err
				}) {
					for _, want := range append(c.want, fmt.Sprintf("rank %d (127.", at), "connections for all") {
						if !strings.Contains(textOf(err), want) {
							t.Errorf("rank %d: %s: expected %q", i, textOf(err), want)
						}
					}
					if usage.Is(err) != c.usage {
						t.Errorf("rank %d: %v is usage: %v", i, err, usage.Is(err))
					}
					if r := world[i]; r.Failed() == byHand || len(r.MeshEdges()) != 1 {
						t.Errorf("rank %d: failed %v with %d mesh edges: expected the one of before", i, r.Failed(), len(r.MeshEdges()))
					}
				}
				if live := memory.Live.Load(); live != before {
					t.Errorf("%d bytes are left behind", live-before)
				}
				if !byHand {
					return
				}
				world[at].opts, world[at].devices.list[0].Port.Num = good, good.Port
				noErrors(t, each(world, overMesh(t.Context(), "all", others)))
			})
		}
	}
}

// pairs are ranks 0 and 1, 2 and 3, and so on.
func pairs(_, rank int) []int { return []int{rank ^ 1} }

// A rank that fails when the others are through tells them with a verdict.
func TestMeshFailsLast(t *testing.T) {
	world := connect(t, 3, nil)
	world[1].opts.QPTimeout = new(99)
	errs := each(world, func(r *Ring) error {
		if _, err := r.Mesh(t.Context(), Purpose{What: "all"}, others(3, r.Rank())); err != nil {
			return err
		}
		return r.Barrier(t.Context())
	})
	for i, err := range errs {
		if text := textOf(err); !strings.Contains(text, "edge to rank 0") || !strings.Contains(text, "timeout") || !world[i].Failed() {
			t.Errorf("rank %d: %s: expected the queue pair of rank 1", i, text)
		}
	}
	if n := len(world[1].MeshEdges()); n > 0 {
		t.Errorf("rank 1 keeps %d mesh edges", n)
	}
}

// Ranks die, leave, give up and close at any moment of a mesh that is being made:
// the others hear of it in time, and nothing is left.
func TestMeshAtAnyMoment(t *testing.T) {
	moments := 12
	if testing.Short() {
		moments = 4
	}
	before := memory.Live.Load()
	t.Run("all", func(t *testing.T) { // returns when its parallel tests have ended
		for name, end := range map[string]func(r *Ring, w *wire, cancel context.CancelFunc){
			"death":  func(_ *Ring, w *wire, _ context.CancelFunc) { w.cut() },
			"cancel": func(_ *Ring, _ *wire, cancel context.CancelFunc) { cancel() },
			"close":  func(r *Ring, _ *wire, _ context.CancelFunc) { _ = r.Close() },
			"fail":   func(r *Ring, _ *wire, _ context.CancelFunc) { r.Fail(errors.New("enough")) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel() // it waits
				for moment := range moments {
					endAMesh(t, time.Duration(moment)*16*time.Millisecond/time.Duration(moments), end)
				}
			})
		}
	})
	if live := memory.Live.Load(); live != before {
		t.Errorf("%d bytes are left", live-before)
	}
}

// endAMesh ends rank 1 of three that make one mesh after the other.
func endAMesh(t *testing.T, after time.Duration, end func(*Ring, *wire, context.CancelFunc)) {
	const victim = 1
	var w wire
	world := connect(t, 3, func(rank int, o *Options) {
		if rank == victim {
			w.install(o)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	time.AfterFunc(after, func() { end(world[victim], &w, cancel); close(ended) })
	begun := time.Now()
	errs := each(world, func(r *Ring) error {
		of := t.Context()
		if r.Rank() == victim {
			of = ctx
		}
		for i := 0; ; i++ {
			if _, err := r.Mesh(of, Purpose{What: fmt.Sprint("all ", i)}, others(3, r.Rank())); err != nil {
				if r.Rank() == victim {
					err = errors.Join(err, r.Close())
				}
				return err
			}
		}
	})
	<-ended
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("after %s: it took %s", after, took)
	}
	for i, err := range errs {
		if text := textOf(err); i != victim && !strings.Contains(text, "rank 1") && !strings.Contains(text, "enough") {
			t.Errorf("after %s: rank %d: %s: expected rank 1", after, i, text)
		}
	}
}

// What comes over a mesh while a rank pings or answers pings is kept for its next
// operation.
func TestMeshMessagesAreKept(t *testing.T) {
	world := connect(t, 2, nil)
	noErrors(t, each(world, func(r *Ring) error {
		_, err := r.Mesh(t.Context(), Purpose{What: "pair"}, []int{1 - r.Rank()})
		return err
	}))
	for _, ping := range []func(r *Ring) error{
		func(r *Ring) error { _, err := r.Ping(t.Context(), 3); return err },
		func(r *Ring) error {
			if r.Rank() == 1 {
				return nil
			}
			_, err := r.PingSide(t.Context(), Right, 3)
			return err
		},
	} {
		early := world[0].MeshEdges()[0]
		if err := early.SendMessage([]byte("early")); err != nil {
			t.Fatal(err)
		}
		noErrors(t, each(world, ping))
		for i, want := range []WRKind{WRMessage, WRRecv} {
			r := world[i]
			token := begin(t, r)
			var wc [1]verbs.Completion
			for n := 0; n == 0; {
				if _, err := token.poll(nil); err != nil {
					t.Fatal(err)
				}
				n, _ = token.Poll(wc[:])
			}
			id, kind, value := ParseWRID(wc[0].ID)
			if id != firstMesh || kind != want || wc[0].Status != verbs.Success {
				t.Fatalf("rank %d: a completion of edge %d, kind %d, %s", i, id, kind, wc[0].Status)
			}
			if kind == WRRecv {
				e := r.Edge(id)
				if got := string(e.Message(value, wc[0].ByteLen)); got != "early" {
					t.Errorf("%q came", got)
				}
				noErrors(t, []error{e.Repost(value)})
			}
			noErrors(t, []error{token.End()})
		}
	}
}

// Both ends of a mesh edge can be looked at and compared, whoever is on the way.
func TestMeshEnds(t *testing.T) {
	world := connect(t, 6, func(_ int, o *Options) { o.ByHand = true })
	noErrors(t, each(world, func(r *Ring) error {
		_, err := r.Mesh(t.Context(), Purpose{What: "all"}, others(6, r.Rank()))
		return err
	}))
	for _, r := range world {
		for _, e := range r.MeshEdges() {
			own, peer, err := r.Ends().Both(t.Context(), e.ID)
			if err != nil || own.Side != "mesh" || own.Peer != e.Peer || peer.Rank != e.Peer || peer.Peer != r.Rank() || peer.DestQPN != own.QPN || own.DestQPN != peer.QPN {
				t.Errorf("rank %d, the %s: %v: from %d to %d, back from %d to %d", r.Rank(), e, err, own.QPN, own.DestQPN, peer.QPN, peer.DestQPN)
			}
			if text := explain(diagnose.Compare(&own, &peer)); text != "" {
				t.Errorf("rank %d, the %s: %s: expected nothing to find", r.Rank(), e, text)
			}
		}
	}
	r := world[0]
	e := r.table.mesh.to(3)
	if err := world[3].table.mesh.to(0).QP.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	gone := &CompletionError{Edge: e.ID, Peer: 3, Status: verbs.RetryExceeded}
	if text := explain(r.Ends().Diagnose(t.Context(), e.ID, gone)); !strings.Contains(text, "rank 3") || !strings.Contains(text, "ERR") {
		t.Errorf("%s: expected rank 3's queue pair", text)
	}
	noErrors(t, []error{world[3].table.mesh.drop(&world[3].table.mu)})
	_, err := r.Ends().Peer(t.Context(), e.ID)
	var answer *bootstrap.AnswerError
	if !errors.As(err, &answer) || answer.Rank != 3 || !strings.HasSuffix(textOf(err), "has no mesh edge to rank 0") || strings.Count(textOf(err), "asked for") != 1 {
		t.Errorf("%v: expected that rank 3 has none", err)
	}
	_, err = r.Ends().Own(firstMesh + 5)
	_, far := r.Ends().Peer(t.Context(), firstMesh+5)
	if !strings.Contains(textOf(err), "no mesh edge at side 7") || !strings.Contains(textOf(far), "no mesh edge at side 7") {
		t.Errorf("%v, %v: expected that there is none", err, far)
	}
}
