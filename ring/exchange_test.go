package ring

import (
	"context"
	"strings"
	"testing"

	"ringcli/ring/diagnose"
	"ringcli/verbs/route"
	_ "ringcli/verbs/shm"
)

// automatic leaves the choice of devices to the ring; the ranks in away say that
// they are on hosts of their own.
func automatic(away ...int) func(int, *Options) {
	return func(rank int, o *Options) {
		o.Device = ""
		for _, a := range away {
			if a == rank {
				h := route.ThisHost()
				h.BootID += o.Device + string(rune('a'+rank))
				o.Host = &h
			}
		}
	}
}

// wantProviders says which provider each edge is to be on.
func wantProviders(t *testing.T, world []*Ring, away ...int) {
	t.Helper()
	apart := make(map[int]bool)
	for _, a := range away {
		apart[a] = true
	}
	for _, r := range world {
		used := make(map[string]bool)
		for _, side := range bothSides {
			e := r.Edge(side.Edge())
			want := "shm"
			if e.Peer != r.Rank() && (apart[r.Rank()] || apart[e.Peer]) {
				want = "soft"
			}
			d, why := r.DeviceTo(side.Edge())
			if e.Device().Provider() != want || d != e.Device() || why == "" || e.Local.Device != d.Name || e.Remote.Capabilities != d.Attr.Capabilities {
				t.Errorf("rank %d %s: on %s (%s), which says %s and its peer %s: expected %s", r.Rank(), side, e.Device().Name, why, e.Local.Device, e.Remote.Device, want)
			}
			used[e.Device().Name] = true
		}
		if len(r.Devices()) != len(used) {
			t.Errorf("rank %d has %d devices open: expected the %d that its edges use", r.Rank(), len(r.Devices()), len(used))
		}
	}
}

// Rings on shared memory, and rings that mix it with soft devices.
func TestAutomaticDevices(t *testing.T) {
	for name, c := range map[string]struct {
		n    int
		away []int
	}{
		"one": {1, nil}, "two": {2, nil}, "four": {4, nil}, "two, apart": {2, []int{1}}, "three, one apart": {3, []int{1}},
		"five, two apart": {5, []int{0, 3}}, "three, all apart": {3, []int{0, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			world := connect(t, c.n, automatic(c.away...))
			wantProviders(t, world, c.away...)
			ping := func(r *Ring) error { _, err := r.Ping(t.Context(), 20); return err }
			noErrors(t, each(world, ping))
			for _, r := range world {
				for _, side := range bothSides {
					noErrors(t, []error{pingSide(t.Context(), r, side, 3)})
					own, peer, err := r.Ends().Both(t.Context(), side.Edge())
					if err != nil {
						t.Fatal(err)
					}
					if out := loud(diagnose.Compare(&own, &peer)); len(out) > 0 {
						t.Errorf("rank %d %s: %q", r.Rank(), side, out)
					}
				}
			}
			if c.n > 1 {
				noErrors(t, each(world, overMesh(t.Context(), "all", others)))
			}
			noErrors(t, each(world, func(r *Ring) error { return r.Barrier(t.Context()) }))
		})
	}
}

// A rank that is walked finds the device in Exchange, keeps what Init was given, and
// finds the same after a reset.
func TestMovedByHand(t *testing.T) {
	world := newRings(t, 3, func(rank int, o *Options) {
		automatic(1)(rank, o)
		o.ByHand = true
	})
	noErrors(t, each(world, func(r *Ring) error { return r.Open(t.Context()) }))
	for range 2 {
		noErrors(t, each(world, func(r *Ring) error { return r.Init(t.Context(), Values{PSN: new(uint32(77 + r.Rank()))}) }))
		noErrors(t, each(world, func(r *Ring) error { return r.Exchange(t.Context()) }))
		noErrors(t, each(world, func(r *Ring) error { return r.Exchange(t.Context()) }))
		wantProviders(t, world, 1)
		for _, r := range world {
			if r.Left().Local.PSN != uint32(77+r.Rank()) || r.Left().Remote.PSN != uint32(77+r.Left().Peer) {
				t.Errorf("rank %d: PSN %d, the left neighbour's %d: expected what init was given", r.Rank(), r.Left().Local.PSN, r.Left().Remote.PSN)
			}
		}
		for _, step := range []func(*Ring, context.Context) error{
			func(r *Ring, ctx context.Context) error { return r.RTR(ctx, Values{}) }, (*Ring).AwaitNeighbours,
			func(r *Ring, ctx context.Context) error { return r.RTS(ctx, Values{}) },
			func(r *Ring, ctx context.Context) error { _, err := r.Ping(ctx, 3); return err }, (*Ring).Reset,
		} {
			noErrors(t, each(world, func(r *Ring) error { return step(r, t.Context()) }))
		}
	}
}

// Ends that ask for what does not go together are told, with both names.
func TestDevicesThatDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		devices [2]string
		away    []int
		want    string
	}{
		"shm and soft":     {[2]string{"shm", "soft:lo"}, nil, "the device differs"},
		"shm on two hosts": {[2]string{"shm", "auto"}, []int{1}, "cannot share memory: they are on two hosts"},
	} {
		t.Run(name, func(t *testing.T) {
			world := newRings(t, 2, func(rank int, o *Options) {
				automatic(c.away...)(rank, o)
				o.Device = c.devices[rank]
			})
			for i, err := range each(world, through(t.Context())) {
				if text := textOf(err); !strings.Contains(text, c.want) || !strings.Contains(text, "rank 0 (127.") || !strings.Contains(text, "rank 1 (127.") {
					t.Errorf("rank %d: %v: expected %q and both ranks", i, err, c.want)
				}
			}
		})
	}
}
