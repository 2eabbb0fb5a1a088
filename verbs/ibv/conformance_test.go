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

// rdmaDevice is the device to test on: RINGCLI_IBV_DEVICE, else the first that is
// rdma_rxe's, which everybody can make and break.
func rdmaDevice(t testing.TB) verbs.Device {
	t.Helper()
	if name := os.Getenv("RINGCLI_IBV_DEVICE"); name != "" {
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
	t.Skip("no rdma_rxe device; RINGCLI_IBV_DEVICE names another")
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

// rxe is what Linux 6.1's rdma_rxe does otherwise than the suite has it, that is,
// than the InfiniBand Architecture Specification 1.4, volume 1.
const rxe = 0 |
	// A queue pair that comes back from SQD does not send what was queued there
	// until something else is posted. 10.3.1.5: requests posted in SQD are processed
	// after the transition to RTS.
	verbstest.NoSQD |
	// rxe_qp_from_attr rounds up to a power of two, and reports that. 11.2.5.3: Query
	// gives the attributes as they are, so this is within the specification's word.
	verbstest.RoundsDepths |
	// A receive posted in ERR stays in the shared queue: nothing wakes the kernel.
	// 10.3.1.7: requests posted in Error are completed in error.
	verbstest.LateReceivesStay |
	// duplicate_request acknowledges ack_psn - 1, and ack_psn is 0 before the first
	// request. 9.7.5: a duplicate SEND or WRITE is acknowledged like any other.
	verbstest.DuplicatesUnacked |
	// The length of a SEND is looked at only when it is copied, and failing that is a
	// malformed WQE. 9.7.4.1.6, 9.9.3.1: NAK-invalid request, local length error.
	verbstest.ShortReceiveOpError |
	// Nor is a SEND's packet compared with the responder's own path MTU. 9.7.4.1.6:
	// a first or middle packet that is not of PMTU length is an invalid request.
	verbstest.SendMTUUnchecked |
	// An lkey that names no region is -EINVAL, for which the status is Local QP
	// Operation Error. 11.6.2: a protection domain or lkey at fault is Local Protection Error.
	verbstest.LocalFaultQPOp |
	// Seen: random traffic stalls for good if there are both fences and RNR NAKs, and
	// never without either. 10.8.3.3: a fence waits for prior READs and atomics only.
	verbstest.FenceStalls

func TestConformance(t *testing.T) {
	before := memory.Live()
	defer func() {
		if got := memory.Live(); got != before && !t.Skipped() {
			t.Errorf("%d bytes are mapped after all is closed, %d before", got, before)
		}
	}()
	verbstest.Run(t, verbstest.Harness{
		Open: func(t testing.TB) (a, b verbstest.Endpoint) {
			return openRDMA(t, verbs.OpenOptions{}), openRDMA(t, verbs.OpenOptions{})
		},
		Quirks: rxe, StressOps: 500, Deadline: 10 * time.Second,
	})
}
