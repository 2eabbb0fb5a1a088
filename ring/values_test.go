package ring

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"ringcli/configs/usage"
	"ringcli/verbs"
)

// byHand makes rings whose steps are taken by hand.
func byHand(t testing.TB, n int) []*Ring {
	t.Helper()
	return newRings(t, n, func(_ int, o *Options) { o.ByHand, o.Timeout = true, 3*time.Second })
}

// upTo takes every rank to a state, all at once.
func upTo(t testing.TB, world []*Ring, to State) {
	t.Helper()
	noErrors(t, each(world, func(r *Ring) error {
		for _, step := range handSteps(r) {
			if step.to > to || r.State() >= step.to {
				continue
			}
			if step.to == StateRTS {
				if err := r.AwaitNeighbours(t.Context()); err != nil {
					return err
				}
			}
			if err := step.take(t.Context()); err != nil {
				return err
			}
		}
		if s := r.State(); s != to {
			return fmt.Errorf("the ring is %s: expected %s", s, to)
		}
		return nil
	}))
}

func attrOf(t testing.TB, e *Edge) verbs.QPAttr {
	t.Helper()
	attr, _, err := e.QP.Query()
	if err != nil {
		t.Fatal(err)
	}
	return attr
}

// Every value arrives in the queue pair as it was given.
func TestValuesReachTheQueuePair(t *testing.T) {
	gid := verbs.GIDFromAddr(netip.MustParseAddr("127.9.9.9"))
	for name, c := range map[string]struct {
		from State
		step func(*Ring, context.Context, Values) error
		v    Values
		got  func(*verbs.QPAttr) any
		want any
	}{
		"access":             {StateOpened, (*Ring).Init, Values{Access: new(verbs.AccessLocalWrite)}, func(a *verbs.QPAttr) any { return a.Access }, verbs.AccessLocalWrite},
		"rq_psn":             {StateExchanged, (*Ring).RTR, Values{PSN: new(uint32(5))}, func(a *verbs.QPAttr) any { return a.RQPSN }, uint32(5)},
		"mtu":                {StateExchanged, (*Ring).RTR, Values{MTU: new(256)}, func(a *verbs.QPAttr) any { return a.PathMTU }, verbs.MTU256},
		"dest_qpn":           {StateExchanged, (*Ring).RTR, Values{DestQPN: new(uint32(0x77))}, func(a *verbs.QPAttr) any { return a.DestQPN }, uint32(0x77)},
		"dgid":               {StateExchanged, (*Ring).RTR, Values{DGID: &gid}, func(a *verbs.QPAttr) any { return a.AH.GRH.DGID }, gid},
		"sl":                 {StateExchanged, (*Ring).RTR, Values{SL: new(3)}, func(a *verbs.QPAttr) any { return a.AH.SL }, uint8(3)},
		"traffic_class":      {StateExchanged, (*Ring).RTR, Values{TrafficClass: new(106)}, func(a *verbs.QPAttr) any { return a.AH.GRH.TrafficClass }, uint8(106)},
		"hop_limit":          {StateExchanged, (*Ring).RTR, Values{HopLimit: new(1)}, func(a *verbs.QPAttr) any { return a.AH.GRH.HopLimit }, uint8(1)},
		"min_rnr_timer":      {StateExchanged, (*Ring).RTR, Values{MinRNRTimer: new(1)}, func(a *verbs.QPAttr) any { return a.MinRNRTimer }, uint8(1)},
		"max_dest_rd_atomic": {StateExchanged, (*Ring).RTR, Values{MaxDestRDAtomic: new(2)}, func(a *verbs.QPAttr) any { return a.MaxDestRDAtomic }, uint8(2)},
		"sq_psn":             {StateRTR, (*Ring).RTS, Values{PSN: new(uint32(6))}, func(a *verbs.QPAttr) any { return a.SQPSN }, uint32(6)},
		"timeout":            {StateRTR, (*Ring).RTS, Values{Timeout: new(9)}, func(a *verbs.QPAttr) any { return a.Timeout }, uint8(9)},
		"retry_cnt":          {StateRTR, (*Ring).RTS, Values{RetryCnt: new(1)}, func(a *verbs.QPAttr) any { return a.RetryCnt }, uint8(1)},
		"rnr_retry":          {StateRTR, (*Ring).RTS, Values{RNRRetry: new(2)}, func(a *verbs.QPAttr) any { return a.RNRRetry }, uint8(2)},
		"max_rd_atomic":      {StateRTR, (*Ring).RTS, Values{MaxRDAtomic: new(4)}, func(a *verbs.QPAttr) any { return a.MaxRDAtomic }, uint8(4)},
	} {
		t.Run(name, func(t *testing.T) {
			world := byHand(t, 1)
			r := world[0]
			upTo(t, world, c.from)
			right := Right
			c.v.Side = &right
			if err := c.step(r, t.Context(), c.v); err != nil {
				t.Fatal(err)
			}
			attr := attrOf(t, r.Right())
			if got := c.got(&attr); got != c.want {
				t.Errorf("the right queue pair has %v: expected %v", got, c.want)
			}
			// The left one has not taken the step.
			if s := r.State(); s != c.from {
				t.Errorf("after a step of one side the ring is %s: expected %s", s, c.from)
			}
			c.v.Side = nil
			if err := c.step(r, t.Context(), Values{}); err != nil {
				t.Error(err)
			}
			if s := r.State(); s <= c.from {
				t.Errorf("after the other side's step the ring is still %s", s)
			}
			attr = attrOf(t, r.Right())
			if got := c.got(&attr); got != c.want {
				t.Errorf("the other side's step changed the right queue pair to %v", got)
			}
		})
	}
}

// The device judges values, and what it says comes through; the step may be
// repeated with others.
func TestDeviceRefusesValues(t *testing.T) {
	for name, c := range map[string]struct {
		from State
		step func(*Ring, context.Context, Values) error
		v    Values
		want string
	}{
		"port":               {StateOpened, (*Ring).Init, Values{Port: new(2)}, "port_num 2"},
		"pkey-index":         {StateOpened, (*Ring).Init, Values{PKeyIndex: new(9)}, "pkey_index 9"},
		"access":             {StateOpened, (*Ring).Init, Values{Access: new(verbs.Access(64))}, "qp_access_flags"},
		"rtr psn":            {StateExchanged, (*Ring).RTR, Values{PSN: new(uint32(1 << 24))}, "rq_psn 0x1000000"},
		"dest-qpn":           {StateExchanged, (*Ring).RTR, Values{DestQPN: new(uint32(1 << 24))}, "dest_qp_num 0x1000000"},
		"dgid":               {StateExchanged, (*Ring).RTR, Values{DGID: new(verbs.GID)}, "dgid is zero"},
		"family":             {StateExchanged, (*Ring).RTR, Values{DGID: new(verbs.GIDFromAddr(netip.MustParseAddr("fd00::1")))}, "different families"},
		"sgid-index":         {StateExchanged, (*Ring).RTR, Values{SGIDIndex: new(200)}, "sgid_index 200"},
		"min-rnr-timer":      {StateExchanged, (*Ring).RTR, Values{MinRNRTimer: new(32)}, "min_rnr_timer 32"},
		"max-dest-rd-atomic": {StateExchanged, (*Ring).RTR, Values{MaxDestRDAtomic: new(255)}, "max_dest_rd_atomic 255"},
		"rts psn":            {StateRTR, (*Ring).RTS, Values{PSN: new(uint32(1 << 31))}, "sq_psn 0x80000000"},
		"qp-timeout":         {StateRTR, (*Ring).RTS, Values{Timeout: new(32)}, "timeout 32"},
		"retry-cnt":          {StateRTR, (*Ring).RTS, Values{RetryCnt: new(8)}, "retry_cnt 8"},
		"rnr-retry":          {StateRTR, (*Ring).RTS, Values{RNRRetry: new(8)}, "rnr_retry 8"},
		"max-rd-atomic":      {StateRTR, (*Ring).RTS, Values{MaxRDAtomic: new(200)}, "max_rd_atomic 200"},
	} {
		t.Run(name, func(t *testing.T) {
			world := byHand(t, 1)
			r := world[0]
			upTo(t, world, c.from)
			err := c.step(r, t.Context(), c.v)
			var refusal *verbs.ModifyError
			if text := textOf(err); !errors.As(err, &refusal) || !strings.Contains(text, c.want) || strings.Contains(text, "\n") {
				t.Errorf("%s: expected one line of the device's with %q", text, c.want)
			}
			if s := r.State(); s != c.from || r.Failed() {
				t.Errorf("the ring is %s: expected %s, as before", s, c.from)
			}
			if err := c.step(r, t.Context(), Values{}); err != nil || r.State() <= c.from {
				t.Errorf("the proper values: %v, the ring is %s", err, r.State())
			}
		})
	}
}

// What no queue pair could be told, or what another step sets, is usage.
func TestValuesThatAreNone(t *testing.T) {
	world := byHand(t, 1)
	r := world[0]
	upTo(t, world, StateExchanged)
	left := Side(7)
	for name, c := range map[string]struct {
		step func(*Ring, context.Context, Values) error
		v    Values
		want string
	}{
		"mtu":          {(*Ring).RTR, Values{MTU: new(1500)}, "mtu 1500: expected 256, 512, 1024, 2048 or 4096"},
		"too many bit": {(*Ring).RTR, Values{MinRNRTimer: new(300)}, "min-rnr-timer 300 does not fit into the attribute of the queue pair: expected 0 to 255"},
		"negative":     {(*Ring).RTR, Values{SL: new(-1)}, "sl -1 does not fit"},
		"other step":   {(*Ring).RTR, Values{RetryCnt: new(1)}, "rtr takes no retry-cnt: it is set by rts"},
		"side":         {(*Ring).RTR, Values{Side: &left}, "side 7"},
		"receives":     {(*Ring).Init, Values{Receives: new(129)}, "receives 129: expected 0 to 128"},
		"and below":    {(*Ring).Init, Values{Receives: new(-1)}, "receives -1"},
	} {
		if err := c.step(r, t.Context(), c.v); !usage.Is(err) || !strings.Contains(textOf(err), c.want) {
			t.Errorf("%s: %v: expected usage with %q", name, err, c.want)
		}
		if r.State() != StateExchanged {
			t.Fatalf("%s: the ring is %s", name, r.State())
		}
	}
}

// An own first PSN is announced, and used on both ends.
func TestFirstPSN(t *testing.T) {
	world := byHand(t, 2)
	noErrors(t, each(world, func(r *Ring) error { return r.Open(t.Context()) }))
	noErrors(t, each(world, func(r *Ring) error { return r.Init(t.Context(), Values{PSN: new(uint32(100 + r.Rank()))}) }))
	upTo(t, world, StateRTS)
	for i, r := range world {
		if own, peer := attrOf(t, r.Left()), attrOf(t, r.Right()); own.SQPSN != uint32(100+i) || peer.RQPSN != uint32(101-i) {
			t.Errorf("rank %d sends from %d and expects %d", i, own.SQPSN, peer.RQPSN)
		}
	}
	noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 3); return err }))
}

// Both ends are compared, but for what the operator gives on purpose.
func TestDisagreementByHand(t *testing.T) {
	world := newRings(t, 2, func(rank int, o *Options) { o.ByHand, o.MTU, o.SL, o.Timeout = true, 512<<rank, rank, 3*time.Second })
	upTo(t, world, StateExchanged)
	r := world[0]
	if err := r.RTR(t.Context(), Values{}); !usage.Is(err) || !strings.Contains(textOf(err), "service level") {
		t.Errorf("%v: expected that the service levels differ", err)
	}
	if err := r.RTR(t.Context(), Values{SL: new(1)}); !usage.Is(err) || !strings.Contains(textOf(err), "path MTU") {
		t.Errorf("%v: expected that the path MTUs differ", err)
	}
	if s := r.State(); s != StateExchanged {
		t.Errorf("the ring is %s", s)
	}
	if err := r.RTR(t.Context(), Values{SL: new(1), MTU: new(1024)}); err != nil || r.State() != StateRTR || r.Left().MTU != 1024 {
		t.Errorf("%v: the ring is %s", err, r.State())
	}
}

// Wrong values break the edge that they are given for, and a reset mends it.
func TestWrongValuesAreFelt(t *testing.T) {
	world := newRings(t, 2, func(_ int, o *Options) {
		o.ByHand, o.Timeout, o.QPTimeout = true, 1500*time.Millisecond, new(17) // the edge that is well bears a rank without a CPU
	})
	right, left := Right, Left
	for _, c := range []struct {
		name     string
		rtr, rts [2]func(*Ring) Values // of each rank; nil is proper
	}{
		{name: "rq_psn ahead", rtr: [2]func(*Ring) Values{1: func(r *Ring) Values { return Values{Side: &left, PSN: new((r.Left().Remote.PSN + 1) & 0xffffff)} }}},
		{name: "rq_psn behind", rtr: [2]func(*Ring) Values{1: func(r *Ring) Values { return Values{Side: &left, PSN: new((r.Left().Remote.PSN - 1) & 0xffffff)} }}},
		{name: "sq_psn", rts: [2]func(*Ring) Values{0: func(r *Ring) Values { return Values{Side: &right, PSN: new((r.Right().Local.PSN + 9) & 0xffffff)} }}},
		{name: "dest_qpn", rtr: [2]func(*Ring) Values{0: func(*Ring) Values { return Values{Side: &right, DestQPN: new(uint32(0xfffff0))} }}},
		{name: "dgid", rtr: [2]func(*Ring) Values{0: func(*Ring) Values {
			return Values{Side: &right, DGID: new(verbs.GIDFromAddr(netip.MustParseAddr("127.0.0.99")))}
		}}},
	} {
		upTo(t, world, StateExchanged)
		take := func(step func(*Ring, context.Context, Values) error, given [2]func(*Ring) Values) {
			noErrors(t, each(world, func(r *Ring) error {
				if given[r.Rank()] != nil {
					if err := step(r, t.Context(), given[r.Rank()](r)); err != nil {
						return err
					}
				}
				return step(r, t.Context(), Values{})
			}))
		}
		take((*Ring).RTR, c.rtr)
		proper := c.rts[0]
		c.rts[0] = func(r *Ring) (v Values) { // the one that is broken is soon told so
			if proper != nil {
				v = proper(r)
			}
			v.Side, v.Timeout, v.RetryCnt = &right, new(12), new(2)
			return v
		}
		take((*Ring).RTS, c.rts)
		_, err := world[0].PingSide(t.Context(), Right, 1)
		var failed *CompletionError
		if text := textOf(err); !errors.As(err, &failed) && !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(text, "reset on both ends") {
			t.Errorf("%s: %s: expected a ping that fails", c.name, text)
		}
		// The other edge, between the same two ranks, knows nothing of it.
		if err := pingSide(t.Context(), world[0], Left, 3); err != nil {
			t.Errorf("%s: the other side: %v", c.name, err)
		}
		noErrors(t, each(world, func(r *Ring) error { return r.Reset(t.Context()) }))
	}
	upTo(t, world, StateRTS)
	noErrors(t, each(world, func(r *Ring) error { return pingSide(t.Context(), r, Right, 3) }))
}
