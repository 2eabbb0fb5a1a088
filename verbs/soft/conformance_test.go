package soft_test

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"

	"ringcli/verbs"
	"ringcli/verbs/soft"
	"ringcli/verbs/verbstest"
)

// open opens soft:lo or fails the test.
func open(t testing.TB, o verbs.OpenOptions) verbstest.Endpoint {
	t.Helper()
	device, err := verbs.Find("soft:lo")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := device.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return verbstest.Endpoint{Context: ctx, GIDIndex: gidIndex(t, ctx, o.LocalAddr)}
}

// gidIndex is the row of the GID table that stands for an address.
func gidIndex(t testing.TB, ctx verbs.Context, addr netip.Addr) int {
	t.Helper()
	port, err := ctx.QueryPort(1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range port.GIDTableSz {
		if e, err := ctx.QueryGID(1, i); err == nil && e.GID == verbs.GIDFromAddr(addr) {
			return i
		}
	}
	t.Fatalf("no GID stands for %s among %d", addr, port.GIDTableSz)
	return 0
}

// freshSubnet is a 127.x.y.0/24 that nobody uses, found by binding in it.
func freshSubnet(t testing.TB) [2]netip.Addr {
	t.Helper()
	for range 100 {
		x, y := byte(1+rand.IntN(250)), byte(rand.IntN(250))
		a, b := netip.AddrFrom4([4]byte{127, x, y, 1}), netip.AddrFrom4([4]byte{127, x, y, 2})
		c, err := net.ListenPacket("udp", netip.AddrPortFrom(a, 4791).String())
		if err != nil {
			continue
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		return [2]netip.Addr{a, b}
	}
	t.Fatal("no 127.x.y.0/24 is free for UDP port 4791")
	return [2]netip.Addr{}
}

// on makes a harness of two addresses. Every Open of one test takes the same two,
// so that contexts share an endpoint.
func on(addrs [2]netip.Addr, udpPorts [2]uint16, faults string) verbstest.Harness {
	return verbstest.Harness{
		Impaired: faults != verbs.NoFaults,
		// A key has a random tag of 8 bits, so one in 256 repeats its predecessor.
		Open: func(t testing.TB) (a, b verbstest.Endpoint) {
			a = open(t, verbs.OpenOptions{LocalAddr: addrs[0], UDPPort: udpPorts[0]})
			b = open(t, verbs.OpenOptions{LocalAddr: addrs[1], UDPPort: udpPorts[1]})
			if faults != verbs.NoFaults {
				soft.InjectForTest(t, a.Context, faults+", seed 1")
				soft.InjectForTest(t, b.Context, faults+", seed 2")
			}
			return a, b
		},
	}
}

func TestConformanceIPv4(t *testing.T) {
	verbstest.Run(t, on(freshSubnet(t), [2]uint16{}, verbs.NoFaults))
}

func TestConformanceIPv6(t *testing.T) {
	loopback := netip.IPv6Loopback()
	c, err := net.ListenPacket("udp", netip.AddrPortFrom(loopback, 0).String())
	if err != nil {
		t.Skipf("no IPv6 on this machine: %v", err)
	}
	port := uint16(c.LocalAddr().(*net.UDPAddr).Port)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	verbstest.Run(t, on([2]netip.Addr{loopback, loopback}, [2]uint16{port, otherPort(t, loopback, port)}, verbs.NoFaults))
}

// otherPort is a free UDP port that is not this one.
func otherPort(t testing.TB, addr netip.Addr, not uint16) uint16 {
	t.Helper()
	for range 100 {
		c, err := net.ListenPacket("udp", netip.AddrPortFrom(addr, 0).String())
		if err != nil {
			t.Fatal(err)
		}
		port := uint16(c.LocalAddr().(*net.UDPAddr).Port)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if port != not {
			return port
		}
	}
	t.Fatal("the system gives out one UDP port only")
	return 0
}

// watched adds up a context's counters when it is closed.
type watched struct {
	verbs.Context
	sums map[string]uint64
	once sync.Once
}

func (w *watched) Close() error {
	w.once.Do(func() {
		counters, err := w.Counters(1)
		if err != nil {
			return
		}
		for _, c := range counters {
			w.sums[c.Name] += c.Value
		}
	})
	return w.Context.Close()
}

func TestConformanceImpaired(t *testing.T) {
	for _, c := range []struct {
		faults string
		seen   []string // counters that must have moved
	}{
		{"soft: loss 2%", []string{"out_of_sequence", "local_ack_timeout_err"}},
		{"soft: duplicate 5%", []string{"duplicate_request"}},
		{"soft: reorder 5%", []string{"out_of_sequence"}},
		{"soft: corrupt 2%", []string{"icrc_error"}},
		{"soft: loss 1%, duplicate 1%, reorder 1%, corrupt 1%", []string{"out_of_sequence", "icrc_error"}},
	} {
		t.Run(c.faults, func(t *testing.T) {
			h := on(freshSubnet(t), [2]uint16{}, c.faults)
			h.StressOps = 1000
			inner, sums := h.Open, map[string]uint64{}
			h.Open = func(t testing.TB) (a, b verbstest.Endpoint) {
				a, b = inner(t)
				a.Context, b.Context = &watched{Context: a.Context, sums: sums}, &watched{Context: b.Context, sums: sums}
				return a, b
			}
			verbstest.Run(t, h)
			for _, name := range c.seen {
				if sums[name] == 0 {
					t.Errorf("%s is 0 after all: was the path impaired? %v", name, sums)
				}
			}
			t.Logf("counters: %v", sums)
		})
	}
}
