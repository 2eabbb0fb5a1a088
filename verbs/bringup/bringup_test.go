package bringup_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"ringcli/verbs"
	"ringcli/verbs/bringup"
	"ringcli/verbs/route"
	_ "ringcli/verbs/soft"
)

// The manual's order, to two queue pairs that are ready to send.
func TestBringUp(t *testing.T) {
	lo, err := verbs.Find("soft:lo")
	if err != nil {
		t.Fatal(err)
	}
	local := netip.MustParseAddr("127.0.97.1")
	var d bringup.Device
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	ok(d.Open(lo, verbs.OpenOptions{LocalAddr: local}, 1, route.Want{Local: local}))
	ok(d.AllocPD())
	ok(d.CreateCQ(8))
	var qps [2]verbs.QP
	for i := range qps {
		var created verbs.QPCap
		qps[i], created, err = d.CreateQP(verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 1 << 20}, true)
		ok(err)
		defer func() { ok(qps[i].Close()) }()
		if created.MaxInlineData != d.Attr.MaxInline {
			t.Errorf("%d bytes inline, want the device's most, %d", created.MaxInlineData, d.Attr.MaxInline)
		}
	}
	entry, err := d.GIDEntry()
	ok(err)
	for i, qp := range qps {
		ah, err := d.Port.AddressVector(d.GID.Entry.Index, route.Remote{GID: entry.GID, UDPPort: entry.UDPPort, UDPSocket: true}, route.Service{})
		ok(err)
		a := verbs.QPAttr{PortNum: 1, AH: ah, PathMTU: verbs.MTU1024, DestQPN: qps[1-i].Num(), MinRNRTimer: 12, Timeout: 14, RetryCnt: 6, RNRRetry: 7}
		for _, a.State = range []verbs.QPState{verbs.StateInit, verbs.StateRTR, verbs.StateRTS} {
			ok(verbs.Advance(qp, a))
		}
		a.State = verbs.StateRTR
		if err := verbs.Advance(qp, a); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("RTR from RTS: %v", err)
		}
	}
}

func TestOpenFails(t *testing.T) {
	lo, err := verbs.Find("soft:lo")
	if err != nil {
		t.Fatal(err)
	}
	index := 200
	for want, c := range map[string]struct {
		local string
		port  int
		want  route.Want
	}{
		"with address 192.0.2.1": {"192.0.2.1", 1, route.Want{}},
		"port 2":                 {"127.0.97.2", 2, route.Want{}},
		"gid-index 200":          {"127.0.97.2", 1, route.Want{Index: &index}},
	} {
		var d bringup.Device
		err := d.Open(lo, verbs.OpenOptions{LocalAddr: netip.MustParseAddr(c.local)}, c.port, c.want)
		if !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want ErrInvalid with %q", err, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
