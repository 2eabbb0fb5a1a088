package interop

import (
	"flag"
	"net/netip"
	"testing"

	"ringcli/verbs"
	_ "ringcli/verbs/ibv"
	"ringcli/verbs/route"
	_ "ringcli/verbs/soft"
	"ringcli/verbs/verbstest"
)

var (
	softDevice = flag.String("soft", "", "soft device with a path to the ibv device, such as soft:v1")
	ibvDevice  = flag.String("ibv", "", "ibv device, such as ibv:rxe0; none skips the tests")
	softAddr   = flag.String("soft-address", "", "address of the soft device, IPv4 or IPv6")
	ibvAddr    = flag.String("ibv-address", "", "address of the ibv device, of the same family")
	impaired   = flag.Bool("impaired", false, "packets from the ibv device get lost or mixed up on the way")
	stressOps  = flag.Int("stress", 0, "operations of the stress test; 0 takes what the suite does")
	ackTimeout = flag.Uint("timeout", 0, "ACK timeout code where a case does not choose one; 0 takes what the suite does")
	faults     = flag.String("inject", verbs.NoFaults, "faults that the soft device injects into its packets")
)

// TestSoftToIBV has soft for the end that most cases send from.
func TestSoftToIBV(t *testing.T) {
	h := harness(t, func(soft, ibv verbstest.Endpoint) (a, b verbstest.Endpoint) { return soft, ibv })
	h.OnlyB = verbstest.RXE
	verbstest.Run(t, h)
}

// TestIBVToSoft is the other way round.
func TestIBVToSoft(t *testing.T) {
	h := harness(t, func(soft, ibv verbstest.Endpoint) (a, b verbstest.Endpoint) { return ibv, soft })
	h.OnlyA = verbstest.RXE
	verbstest.Run(t, h)
}

func harness(t *testing.T, order func(soft, ibv verbstest.Endpoint) (a, b verbstest.Endpoint)) verbstest.Harness {
	if *ibvDevice == "" {
		t.Skip("no -ibv device was named: the bench of virtual machines has one")
	}
	soft, ibv := find(t, *softDevice, *softAddr), find(t, *ibvDevice, *ibvAddr)
	inject, err := verbs.ParseFaults(*faults)
	if err != nil {
		t.Fatal(err)
	}
	return verbstest.Harness{
		Impaired: *impaired || !inject.None(), StressOps: *stressOps, Timeout: uint8(*ackTimeout),
		Open: func(t testing.TB) (a, b verbstest.Endpoint) {
			from := soft.open(t)
			if !inject.None() {
				if err := from.Context.(verbs.Injector).Inject(inject); err != nil {
					t.Fatal(err)
				}
			}
			return order(from, ibv.open(t))
		},
	}
}

// station is a device and which of its GIDs to use.
type station struct {
	device   verbs.Device
	local    netip.Addr
	gidIndex int
}

// find finds a device, and the GID of an address on it.
func find(t *testing.T, name, address string) station {
	t.Helper()
	local, err := netip.ParseAddr(address)
	if err != nil {
		t.Fatal(err)
	}
	d, err := verbs.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	s := station{device: d, local: local}
	ctx := s.open(t).Context
	defer func() {
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
	}()
	port, err := route.QueryPort(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	choice, err := port.Choose(route.Want{Local: local})
	if err != nil {
		t.Fatal(err)
	}
	if choice.Entry.GID != verbs.GIDFromAddr(local) {
		t.Fatalf("%s has no GID of %s, only %s: %s", name, local, choice.Entry.GID, choice.Reason)
	}
	s.gidIndex = choice.Entry.Index
	t.Logf("%s: %s, GID %d, %s, active MTU %d", name, local, s.gidIndex, choice.Reason, port.Attr.ActiveMTU.Bytes())
	return s
}

func (s station) open(t testing.TB) verbstest.Endpoint {
	t.Helper()
	ctx, err := s.device.Open(verbs.OpenOptions{LocalAddr: s.local})
	if err != nil {
		t.Fatal(err)
	}
	return verbstest.Endpoint{Context: ctx, GIDIndex: s.gidIndex}
}
