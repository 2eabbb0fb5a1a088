//go:build !nodl

package ibv_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"ringcli/verbs"
	_ "ringcli/verbs/ibv"
	"ringcli/verbs/memory"
	"ringcli/verbs/verbstest"
)

// rdmaDevice is the device to test on: RINGTEST_IBV_DEVICE, else the first that is
// rdma_rxe's, which everybody can make and break.
func rdmaDevice(t testing.TB) verbs.Device {
	t.Helper()
	if name := os.Getenv("RINGTEST_IBV_DEVICE"); name != "" {
		d, err := verbs.Find("ibv:" + strings.TrimPrefix(name, "ibv:"))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, p := range verbs.Providers() {
		devices, err := p.Devices()
		if p.Name() == "ibv" && err != nil {
			t.Skip(err)
		}
		for _, d := range devices {
			name, ok := strings.CutPrefix(d.Name(), "ibv:")
			if _, err := os.Stat("/sys/class/infiniband/" + name + "/parent"); ok && err == nil {
				return d // only a software device has a parent: its network interface
			}
		}
	}
	t.Skip("no rdma_rxe device; RINGTEST_IBV_DEVICE names another")
	return nil
}

// openRDMA opens the device with its first RoCE v2 GID of IPv4, or its first GID.
func openRDMA(t testing.TB, o verbs.OpenOptions) verbstest.Endpoint {
	t.Helper()
	ctx, err := rdmaDevice(t).Open(o)
	if err != nil {
		t.Fatal(err)
	}
	e := verbstest.Endpoint{Context: ctx, Port: 1}
	port, err := ctx.QueryPort(1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range port.GIDTableSz {
		if g, err := ctx.QueryGID(1, i); err == nil && g.Type == verbs.GIDTypeRoCEv2 && g.GID.Addr().Is4() {
			e.GIDIndex = i
			break
		}
	}
	return e
}

func TestConformance(t *testing.T) {
	before := memory.Live.Load()
	defer func() {
		if got := memory.Live.Load(); got != before && !t.Skipped() {
			t.Errorf("%d bytes are mapped after all is closed, %d before", got, before)
		}
	}()
	verbstest.Run(t, verbstest.Harness{
		Open: func(t testing.TB) (a, b verbstest.Endpoint) {
			return openRDMA(t, verbs.OpenOptions{}), openRDMA(t, verbs.OpenOptions{})
		},
		Quirks: verbstest.RXE, StressOps: 500, Deadline: 10 * time.Second,
	})
}
