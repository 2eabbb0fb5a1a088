package ring

import (
	"context"
	"errors"
	"strings"
	"testing"

	"ringcli/configs/usage"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// TestChannels: each channel of each edge faces the same one of the neighbour's, on any device
// and after a reset, and pings pass over each.
func TestChannels(t *testing.T) {
	const channels = 3
	for name, c := range map[string]struct {
		ranks  int
		change func(rank int, o *Options)
	}{
		"soft":        {3, func(_ int, o *Options) { o.Channels = channels }},
		"two ranks":   {2, func(_ int, o *Options) { o.Channels = channels }},
		"itself":      {1, func(_ int, o *Options) { o.Channels = channels }},
		"two sockets": {3, func(_ int, o *Options) { o.Channels, o.Device = channels, "soft:lo,soft:lo" }},
		"moved to shared memory": {3, func(rank int, o *Options) {
			automatic()(rank, o)
			o.Channels = channels
		}},
	} {
		t.Run(name, func(t *testing.T) {
			world := connect(t, c.ranks, c.change)
			check := func() {
				t.Helper()
				for _, r := range world {
					peers, err := r.Ends().Status()
					if err != nil || len(peers) != 2*channels || r.State() != StateReady {
						t.Fatalf("rank %d is %s and has %d queue pairs, %v: expected %d", r.Rank(), r.State(), len(peers), err, 2*channels)
					}
					for _, p := range peers {
						own, peer, err := r.Ends().Both(t.Context(), p.ID)
						if err != nil {
							t.Fatal(err)
						}
						if own.DestQPN != peer.QPN || peer.DestQPN != own.QPN || own.Channel != p.ID.Channel() || peer.Channel != own.Channel || own.Traffic.Sends == 0 || own.Traffic.Receives == 0 {
							t.Errorf("rank %d, %s: it is queue pair %06x to %06x with %+v, its peer %06x to %06x, channel %d",
								r.Rank(), p.ID.Name(), own.QPN, own.DestQPN, own.Traffic, peer.QPN, peer.DestQPN, peer.Channel)
						}
						if out := loud(diagnose.Compare(&own, &peer)); len(out) > 0 {
							t.Errorf("rank %d, %s: false alarms: %s", r.Rank(), p.ID.Name(), strings.Join(out, "\n"))
						}
					}
				}
			}
			check()
			noErrors(t, each(world, func(r *Ring) error { return r.Reset(t.Context()) }))
			for _, step := range []func(*Ring, context.Context) error{
				func(r *Ring, ctx context.Context) error { return r.Init(ctx, Values{}) }, (*Ring).Exchange,
				func(r *Ring, ctx context.Context) error { return r.RTR(ctx, Values{}) }, (*Ring).AwaitNeighbours,
				func(r *Ring, ctx context.Context) error { return r.RTS(ctx, Values{}) },
				func(r *Ring, ctx context.Context) error { _, err := r.Ping(ctx, 2); return err },
			} {
				noErrors(t, each(world, func(r *Ring) error { return step(r, t.Context()) }))
			}
			check()
		})
	}
}

// TestChannelsDiffer: ranks with different numbers of channels are told both, with their nodes,
// before anything is sent.
func TestChannelsDiffer(t *testing.T) {
	world := newRings(t, 2, func(rank int, o *Options) { o.Channels = 1 + 2*rank })
	for i, err := range each(world, through(t.Context())) {
		const want = "the number of channels differs: "
		if text := textOf(err); !strings.Contains(text, want) || !strings.Contains(text, "has 1 and") && !strings.Contains(text, "has 1:") ||
			!strings.Contains(text, "has 3") || !strings.Contains(text, "rank 0 (127.") || !strings.Contains(text, "rank 1 (127.") {
			t.Errorf("rank %d: %v: expected %q, 1 and 3, and both ranks", i, err, want)
		}
	}
}

// TestChannelFails: a queue pair that fails is named with its channel, by the ring and to the
// neighbours.
func TestChannelFails(t *testing.T) {
	world := connect(t, 3, func(_ int, o *Options) { o.Channels, o.QPTimeout, o.RetryCnt = 3, new(17), new(1) })
	if err := world[1].Left().Channels()[2].QP.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if err := world[1].Usable(); err == nil || !strings.Contains(err.Error(), "the left, channel 2 queue pair is ERR") {
		t.Errorf("rank 1: %v: expected its left channel 2", err)
	}
	_, err := world[0].Ping(t.Context(), 1)
	var failed *CompletionError
	if !errors.As(err, &failed) || failed.Edge != Right.Edge().On(2) || !strings.Contains(err.Error(), "right edge to rank 1 (127.") || !strings.Contains(err.Error(), "), channel 2, queue pair") {
		t.Errorf("rank 0: %v: expected its right channel 2", err)
	}
}

// TestChannelIDs: edge and channel go through the ID of a work request.
func TestChannelIDs(t *testing.T) {
	for _, first := range []EdgeID{Left.Edge(), Right.Edge(), firstMesh, firstMesh + 40} {
		for channel := range 16 {
			id, kind, value := ParseWRID(WRID(first.On(channel), WRUser+3, 12345))
			if id.First() != first || id.Channel() != channel || id.Side() != first.Side() || id.IsMesh() != (first >= firstMesh) || kind != WRUser+3 || value != 12345 {
				t.Errorf("edge %d, channel %d: %d, kind %d, value %d", first, channel, id, kind, value)
			}
		}
	}
}

// TestRails: channels go over the devices by turns, each from a UDP port of its own, memory is
// registered on all, and lists that cannot be are refused.
func TestRails(t *testing.T) {
	world := connect(t, 2, func(_ int, o *Options) { o.Channels, o.Device = 4, "soft:lo, soft:lo" })
	for _, r := range world {
		if n := len(r.Devices()); n != 2 {
			t.Fatalf("rank %d has %d devices, want 2", r.Rank(), n)
		}
		peers, err := r.Ends().Status()
		if err != nil {
			t.Fatal(err)
		}
		ports := map[uint16]int{}
		for _, p := range peers {
			ports[p.Local.UDPPort]++
			e := r.Edge(p.ID)
			if want := r.Devices()[p.ID.Channel()%2]; e.Device() != want || e.Device().Rail != p.ID.Channel()%2 {
				t.Errorf("rank %d, %s is on device %d, want %d", r.Rank(), p.ID.Name(), e.Device().Rail, want.Rail)
			}
		}
		if len(ports) != 2 {
			t.Errorf("rank %d: queue pairs by UDP port: %v, want two ports", r.Rank(), ports)
		}
	}
	for device, want := range map[string]string{
		"soft:lo,soft:lo":             "2 devices for 1 channels",
		"soft:lo,":                    `"" is one of several`,
		"soft:lo,auto":                `"auto" is one of several`,
		"shm:0,soft:lo":               `"shm:0" is one of several`,
		strings.Repeat("a,", 8) + "a": "9 devices: expected at most 8",
	} {
		if _, err := New([]string{"a", "b"}, 0, Options{Device: device}); err == nil || !usage.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("device %q: %v: expected %q", device, err, want)
		}
	}
	missing := newRings(t, 1, func(_ int, o *Options) { o.Channels, o.Device = 2, "soft:lo,soft:none0" })[0]
	if err := missing.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "none0") {
		t.Errorf("a second device that is not there: %v", err)
	}
}
