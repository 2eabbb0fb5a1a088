package transport_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"testing"

	"go.uber.org/goleak"

	"ringcli/verbs/transport"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(peerEnv); text != "" {
		if err := peerMain(text); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// deviceEnv is a device for the tests, in place of those that are everywhere.
const deviceEnv = "RINGTEST_TRANSPORT_DEVICE"

// onEach runs a test over each provider that is everywhere. Soft speaks from an address of its
// own, so that tests of other processes are not met.
func onEach(t *testing.T, test func(t *testing.T, o transport.Options)) {
	t.Parallel()
	if device := os.Getenv(deviceEnv); device != "" {
		test(t, transport.Options{Device: device})
		return
	}
	t.Run("soft", func(t *testing.T) {
		t.Parallel()
		test(t, transport.Options{Device: "soft:lo", Local: freshAddress(t)})
	})
	t.Run("shm", func(t *testing.T) {
		t.Parallel()
		test(t, transport.Options{Device: "shm"})
	})
}

// address is the inverse of netip.Addr.String.
func address(text string) netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{} // "invalid IP"
	}
	return a
}

// freshAddress returns a loopback address that nobody uses. It is held by a TCP port.
func freshAddress(t testing.TB) netip.Addr {
	t.Helper()
	for range 100 {
		a := netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(254)), byte(1 + rand.IntN(254)), 1})
		claim, err := net.Listen("tcp", netip.AddrPortFrom(a, 18600).String())
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		return a
	}
	t.Fatal("no free loopback address")
	return netip.Addr{}
}

// newEnd is a transport that is closed at the end of the test.
func newEnd(t testing.TB, o transport.Options) *transport.Transport {
	t.Helper()
	end, err := transport.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end.Close(); err != nil {
			t.Error(err)
		}
	})
	return end
}

// pair are two ends that are connected, one after the other.
func pair(t testing.TB, o transport.Options) (a, b *transport.Transport) {
	t.Helper()
	a, b = newEnd(t, o), newEnd(t, o)
	join(t, a, b)
	return a, b
}

func join(t testing.TB, a, b *transport.Transport) {
	t.Helper()
	var urls [2]string
	for i, end := range []*transport.Transport{b, a} {
		url, err := end.Bind()
		if err != nil {
			t.Fatal(err)
		}
		urls[i] = url
	}
	for i, end := range []*transport.Transport{a, b} {
		if err := end.Connect(t.Context(), urls[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// alloc is memory that is closed at the end of the test.
func alloc(t testing.TB, end *transport.Transport, n uint64) *transport.Memory {
	t.Helper()
	m, err := end.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// fill makes bytes that depend on where they are, and on what for.
func fill(data []byte, seed int) {
	for i := range data {
		data[i] = byte(i*7 + i>>8 + seed)
	}
}
