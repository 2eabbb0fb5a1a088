package ring

import (
	"context"
	"strings"
	"testing"

	"ringcli/configs/usage"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
	"ringcli/verbs/route"
	_ "ringcli/verbs/shm"
)

// Both ends come to the same device, whatever they ask for and wherever they are.
func TestChoose(t *testing.T) {
	here := route.Host{BootID: "b", UID: 1000, NetNS: "net:[1]", UserNS: "user:[1]"}
	with := func(change func(*locality)) locality {
		s := locality{Asked: route.Auto, Host: here}
		change(&s)
		return s
	}
	asks := func(device string) locality {
		return with(func(s *locality) {
			s.Asked, s.AskedHostLocal = device, verbs.CapabilitiesOf(device).HostLocal
		})
	}
	auto := asks(route.Auto)
	away := with(func(s *locality) { s.Host.BootID = "other" })
	for name, c := range map[string]struct {
		a, b locality
		shm  bool
		want string // in the reason, or in the error
		bad  bool
	}{
		"one host":               {auto, auto, true, "processes of one host", false},
		"two hosts":              {auto, away, false, "cannot share memory: they are on two hosts", false},
		"two users":              {auto, with(func(s *locality) { s.Host.UID = 0 }), false, "users differ", false},
		"two network namespaces": {auto, with(func(s *locality) { s.Host.NetNS = "net:[2]" }), false, "network namespaces differ", false},
		"two user namespaces":    {auto, with(func(s *locality) { s.Host.UserNS = "user:[2]" }), false, "user namespaces differ", false},
		"without /proc":          {auto, with(func(s *locality) { s.Host = route.Host{Missing: "no /proc"} }), false, "not known: no /proc", false},
		"no shared memory there": {auto, with(func(s *locality) { s.NoSHM = "there is none" }), false, "at rank 1 there is none", false},
		"no shared memory here":  {with(func(s *locality) { s.NoSHM = "there is none" }), auto, false, "at rank 0 there is none", false},
		"soft at one":            {auto, asks("soft:lo"), false, "soft:lo was asked for at rank 1", false},
		"soft at both":           {asks("soft"), asks("soft:lo"), false, "soft was asked for at rank 0", false},
		"shm at one":             {auto, asks("shm"), true, "shm was asked for at rank 1", false},
		"shm at both":            {asks("shm:0"), asks("shm"), true, "shm:0 was asked for at rank 0", false},
		"shm and soft":           {asks("shm"), asks("soft"), false, "the device differs: rank 0 has shm and rank 1 has soft", true},
		"soft and shm":           {asks("soft"), asks("shm"), false, "the device differs: rank 0 has soft and rank 1 has shm", true},
		"shm, two hosts":         {asks("shm"), away, false, "--device shm at rank 0: rank 0 and rank 1 cannot share memory: they are on two hosts", true},
		"shm there, two hosts":   {away, asks("shm"), false, "--device shm at rank 1: rank 0 and rank 1 cannot share memory", true},
		"shm, where there is none": {asks("shm"), with(func(s *locality) { s.NoSHM = "there is none" }), false,
			"at rank 1 there is none", true},
	} {
		got, err := choose(c.a, c.b, [2]string{"rank 0", "rank 1"})
		other, otherErr := choose(c.b, c.a, [2]string{"rank 1", "rank 0"})
		if (err == nil) != (otherErr == nil) || got.hostLocal != other.hostLocal {
			t.Errorf("%s: %+v, %v at one end and %+v, %v at the other: expected the same", name, got, err, other, otherErr)
		}
		if c.bad {
			if !usage.Is(err) || !strings.Contains(textOf(err), c.want) {
				t.Errorf("%s: %v: expected usage with %q", name, err, c.want)
			}
			continue
		}
		if err != nil || got.hostLocal != c.shm || !strings.Contains(got.why, c.want) {
			t.Errorf("%s: %+v, %v: expected shm %v and %q", name, got, err, c.shm, c.want)
		}
	}
}

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
					own, peer, err := r.Ends(t.Context(), side.Edge())
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
