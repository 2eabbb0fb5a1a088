package interop

import (
	"flag"
	"net/netip"
	"testing"

	"ringcli/verbs"
	_ "ringcli/verbs/ibv"
	"ringcli/verbs/path"
	_ "ringcli/verbs/soft"
	"ringcli/verbs/verbstest"
)

var (
	softDevice = flag.String("soft", "", "soft device with a path to the ibv device, such as soft:v1")
	ibvDevice  = flag.String("ibv", "", "ibv device, such as ibv:rxe0; none skips the tests")
	softAddr   = flag.String("soft-address", "", "address of the soft device, IPv4 or IPv6")
	ibvAddr    = flag.String("ibv-address", "", "address of the ibv device, of the same family")
	impaired   = flag.Bool("impaired", false, "packets from the ibv device get lost or mixed up on the way")
	impairment verbs.Impairment
)

func init() {
	flag.Float64Var(&impairment.Loss, "loss", 0, "part of the soft device's packets that get lost")
	flag.Float64Var(&impairment.Duplicate, "duplicate", 0, "part of them that arrive twice")
	flag.Float64Var(&impairment.Reorder, "reorder", 0, "part of them that arrive behind the next")
	flag.Uint64Var(&impairment.Seed, "seed", 1, "seed of the impairment")
}

// TestSoftToIBV has soft for the end that most cases send from.
func TestSoftToIBV(t *testing.T) {
	verbstest.Run(t, harness(t, func(soft, ibv verbstest.Endpoint) (a, b verbstest.Endpoint) { return soft, ibv }))
}

// TestIBVToSoft is the other way round.
func TestIBVToSoft(t *testing.T) {
	verbstest.Run(t, harness(t, func(soft, ibv verbstest.Endpoint) (a, b verbstest.Endpoint) { return ibv, soft }))
}

func harness(t *testing.T, order func(soft, ibv verbstest.Endpoint) (a, b verbstest.Endpoint)) verbstest.Harness {
	if *ibvDevice == "" {
		t.Skip("no -ibv device was named: the bench of virtual machines has one")
	}
	lossy := impairment.Loss+impairment.Duplicate+impairment.Reorder > 0
	return verbstest.Harness{
		Impaired: *impaired || lossy,
		Open: func(t testing.TB) (a, b verbstest.Endpoint) {
			o := verbs.OpenOptions{}
			if lossy {
				o.Impair = &impairment
			}
			soft := open(t, *softDevice, *softAddr, o)
			ibv := open(t, *ibvDevice, *ibvAddr, verbs.OpenOptions{})
			return order(soft, ibv)
		},
	}
}

// open opens a device and finds the GID of an address.
func open(t testing.TB, name, address string, o verbs.OpenOptions) verbstest.Endpoint {
	t.Helper()
	local, err := netip.ParseAddr(address)
	if err != nil {
		t.Fatal(err)
	}
	d, err := verbs.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	o.LocalAddr = local
	ctx, err := d.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	port, err := path.QueryPort(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	choice, err := port.Choose(path.Want{Local: local})
	if err != nil {
		t.Fatal(err)
	}
	return verbstest.Endpoint{Context: ctx, GIDIndex: choice.Entry.Index}
}
