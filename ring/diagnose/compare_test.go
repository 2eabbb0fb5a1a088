package diagnose

import (
	"fmt"
	"strings"
	"testing"

	"ringcli/verbs"
)

func TestPSNDiff(t *testing.T) {
	for _, c := range []struct {
		a, b uint32
		want int
	}{{5, 5, 0}, {6, 5, 1}, {5, 6, -1}, {0, 1<<24 - 1, 1}, {1<<24 - 1, 0, -1}, {1<<23 - 1, 0, 1<<23 - 1}, {3, 1<<24 - 2, 5}} {
		if got := psnDiff(c.a, c.b); got != c.want {
			t.Errorf("%d - %d: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// pairOfEnds is a healthy edge in RTS.
func pairOfEnds() (own, peer End) {
	gid := func(s string) (g verbs.GID) {
		_ = g.UnmarshalText([]byte(s))
		return g
	}
	end := func(rank int, g verbs.GID, qpn uint32) End {
		return End{
			Rank: rank, Node: fmt.Sprint("node", rank), Peer: 1 - rank, Device: "soft:lo", Provider: "soft", Capabilities: verbs.Capabilities{Software: true, UDPSocket: true}, NetDev: "lo", LinkLayer: Is(verbs.LinkEthernet),
			PortState: Is(verbs.PortActive), GID: g, GIDType: Is(verbs.GIDTypeRoCEv2), ActiveMTU: 4096, MTU: 4096, UDPPort: 4791, QPN: qpn, QPState: Is(verbs.StateRTS), PathMTU: 1024,
			Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic, PKey: 0xffff, QPTimeout: 14, RetryCnt: 6, RNRRetry: 7, MaxRDAtomic: 16, MaxDestRDAtomic: 16, ReceivesPosted: 128,
			FirstPSN: 100 * uint32(rank), SQPSN: 100*uint32(rank) + 7, RQPSN: 100*uint32(1-rank) + 7,
			SQPSNFirst: new(100 * uint32(rank)), RQPSNFirst: new(100 * uint32(1-rank)),
		}
	}
	own, peer = end(0, gid("::ffff:10.0.0.1"), 17), end(1, gid("::ffff:10.0.0.2"), 18)
	own.DestQPN, own.DGID, own.DestUDPPort = peer.QPN, peer.GID, 4791
	peer.DestQPN, peer.DGID = own.QPN, own.GID // 0 stands for 4791
	return own, peer
}

// onInfiniBand has an end address its peer by LID alone.
func onInfiniBand(e *End, lid, dlid uint16) {
	e.LinkLayer, e.GIDType, e.LID, e.DLID, e.DGID, e.UDPPort, e.DestUDPPort = Is(verbs.LinkInfiniBand), Is(verbs.GIDTypeIB), lid, dlid, verbs.GID{}, 0, 0
}

// Each attribute that can disagree is named, with both values and the rank to
// mend, and looks the same from the other end.
func TestCompareEachAttribute(t *testing.T) {
	if own, peer := pairOfEnds(); len(Compare(&own, &peer)) > 0 {
		t.Fatalf("a healthy edge: %+v", Compare(&own, &peer))
	}
	fabric, other := pairOfEnds()
	onInfiniBand(&fabric, 7, 8)
	onInfiniBand(&other, 8, 7)
	if found := Compare(&fabric, &other); len(found) > 0 {
		t.Fatalf("a healthy edge on InfiniBand: %+v", found)
	}
	six := verbs.GID{15: 1}
	symmetric := map[string]bool{"gid_type": true, "gid": true, "link_layer": true, "pkey": true, "sl": true, "traffic_class": true} // no end is to blame
	for name, c := range map[string]struct {
		change    func(own, peer *End)
		attribute string
		mirror    string // what the other end calls it, if not the same
		rank      int
		severity  Severity
		own, peer string
		text      []string
	}{
		"path_mtu":       {func(o, p *End) { o.MTU, p.PathMTU = 1024, 512 }, "path_mtu", "", 1, Fault, "1024", "512", []string{"up to 512 bytes", "REM_INV_REQ (9)"}},
		"path_mtu, own":  {func(o, p *End) { o.MTU, o.PathMTU = 1024, 4096 }, "path_mtu", "", 0, Fault, "4096", "1024", []string{"up to 1024"}},
		"above the link": {func(o, p *End) { p.ActiveMTU, p.MTU, o.PathMTU, p.PathMTU = 1024, 1024, 4096, 4096 }, "path_mtu", "", 0, Fault, "4096", "", []string{"link of rank 1", "RETRY_EXC"}},
		"dest_qpn":       {func(o, p *End) { o.DestQPN = 99 }, "dest_qpn", "qpn", 0, Fault, "0x000063", "0x000012", []string{"go astray"}},
		"dgid":           {func(o, p *End) { p.DGID = p.GID }, "gid", "dgid", 1, Fault, "::ffff:10.0.0.1", "::ffff:10.0.0.2", []string{"RETRY_EXC"}},
		"udp port":       {func(o, p *End) { p.UDPPort = 5000 }, "dest_udp_port", "udp_port", 0, Fault, "4791", "5000", nil},
		"udp port, ibv":  {func(o, p *End) { o.Capabilities, o.DestUDPPort, p.UDPPort = verbs.Capabilities{}, 0, 5000 }, "dest_udp_port", "udp_port", 0, Fault, "4791", "5000", []string{"one soft rank per address"}},
		"lid":            {func(o, p *End) { onInfiniBand(o, 7, 8); onInfiniBand(p, 9, 7) }, "dlid", "lid", 0, Fault, "8", "9", []string{"subnet manager"}},
		"gid type":       {func(o, p *End) { p.GIDType = Is(verbs.GIDTypeRoCEv1) }, "gid_type", "", 0, Fault, "RoCE v2", "RoCE v1", nil},
		"family":         {func(o, p *End) { p.GID, o.DGID = six, six }, "gid", "", 0, Fault, "IPv4", "IPv6", nil},
		"link layer":     {func(o, p *End) { p.LinkLayer = Is(verbs.LinkInfiniBand) }, "link_layer", "", 0, Fault, "Ethernet", "InfiniBand", nil},
		"pkey":           {func(o, p *End) { p.PKey = 0x8001 }, "pkey", "", 0, Fault, "0xffff", "0x8001", []string{"dropped silently"}},
		"limited":        {func(o, p *End) { o.PKey, p.PKey = 0x7fff, 0x7fff }, "pkey", "", 0, Fault, "0x7fff", "0x7fff", []string{"limited"}},
		"sl":             {func(o, p *End) { o.SL = 3 }, "sl", "", 0, Warning, "3", "0", nil},
		"traffic class":  {func(o, p *End) { p.TrafficClass = 106 }, "traffic_class", "", 0, Warning, "0", "106", nil},
		"ahead":          {func(o, p *End) { o.SQPSNFirst, o.SQPSN = new(uint32(5)), 6 }, "sq_psn", "rq_psn", 0, Fault, "sq_psn 0x000006 (began with 0x000005)", "rq_psn 0x000007 (began with 0x000000)", []string{"ahead by 5", "RETRY_EXC"}},
		"ahead, at peer": {func(o, p *End) { p.RQPSNFirst, p.RQPSN = new(uint32(1<<24-3)), 1<<24-3 }, "sq_psn", "rq_psn", 1, Fault, "sq_psn 0x000007 (began with 0x000000)", "rq_psn 0xfffffd", []string{"ahead by 3"}},
		"behind":         {func(o, p *End) { o.RQPSNFirst, o.RQPSN = new(uint32(120)), 120 }, "rq_psn", "sq_psn", 0, Fault, "rq_psn 0x000078", "sq_psn 0x00006b (began with 0x000064)", []string{"behind by 20", "duplicates", "sees success"}},
		"behind, caught": {func(o, p *End) { o.RQPSNFirst = new(uint32(103)) }, "rq_psn", "sq_psn", 0, Warning, "(began with 0x000067)", "(began with 0x000064)", []string{"in step by now"}},
		"began anew":     {func(o, p *End) { p.RQPSN = 0 }, "sq_psn", "rq_psn", 0, Fault, "sq_psn 0x000007", "rq_psn 0x000000", []string{"began anew"}},
		"under way":      {func(o, p *End) { p.RQPSN, o.SendsPosted = 4, 3 }, "sq_psn", "rq_psn", 0, Note, "sq_psn 0x000007", "rq_psn 0x000004", []string{"3 packets ahead", "under way"}},
		"no write":       {func(o, p *End) { p.Access = verbs.AccessLocalWrite }, "access", "", 1, Fault, "REMOTE_WRITE", "LOCAL_WRITE", []string{"no REMOTE_WRITE", "REM_INV_REQ (9)"}},
		"no read":        {func(o, p *End) { o.Access &^= verbs.AccessRemoteRead }, "access", "", 0, Warning, "LOCAL_WRITE, REMOTE_WRITE, REMOTE_ATOMIC", "REMOTE_READ", []string{"no REMOTE_READ"}},
		"no atomic":      {func(o, p *End) { o.Access &^= verbs.AccessRemoteAtomic }, "access", "", 0, Note, "", "", nil},
		"no receive":     {func(o, p *End) { p.ReceivesPosted = 0 }, "sends_posted", "receives_posted", 1, Warning, "sends_posted 0", "receives_posted 0", []string{"wait for ever"}},
		"waits in vain":  {func(o, p *End) { p.ReceivesPosted, o.SendsPosted, o.RNRRetry = 0, 2, 3 }, "sends_posted", "receives_posted", 1, Fault, "sends_posted 2, rnr_retry 3", "receives_posted 0", []string{"RNR_RETRY_EXC (13) after 3"}},
		"max_dest 0":     {func(o, p *End) { p.MaxDestRDAtomic = 0 }, "max_rd_atomic", "max_dest_rd_atomic", 1, Warning, "max_rd_atomic 16", "max_dest_rd_atomic 0", []string{"REM_INV_REQ"}},
		"max_rd 0":       {func(o, p *End) { o.MaxRDAtomic = 0 }, "max_rd_atomic", "max_dest_rd_atomic", 0, Warning, "max_rd_atomic 0", "16", []string{"LOC_QP_OP (2)"}},
		"timeout":        {func(o, p *End) { o.QPTimeout = 0 }, "qp_timeout", "", 0, Warning, "0", "", []string{"never noticed"}},
		"retry 0":        {func(o, p *End) { p.RetryCnt = 0 }, "retry_cnt", "", 1, Warning, "", "0", nil},
		"retry 7":        {func(o, p *End) { p.RetryCnt = 7 }, "retry_cnt", "", 1, Note, "", "7", []string{"rdma_rxe"}},
		"in INIT":        {func(o, p *End) { p.QPState, p.PathMTU, p.SQPSNFirst, p.RQPSNFirst = Is(verbs.StateInit), 0, nil, nil }, "qp_state", "", 1, Warning, "RTS", "INIT", []string{"dropped silently", "rtr"}},
		"in ERR, killed": {func(o, p *End) { p.QPState, p.Killed = Is(verbs.StateErr), true }, "qp_state", "", 1, Fault, "RTS", "ERR", []string{"by Modify"}},
		"in ERR, failed": {func(o, p *End) {
			p.QPState, p.Failure, p.FirstError = Is(verbs.StateErr), &Failure{Status: 12}, "SEND: it broke"
		}, "qp_state", "", 1, Fault, "RTS", "ERR", []string{"SEND: it broke"}},
		"in SQD":    {func(o, p *End) { o.QPState = Is(verbs.StateSQD) }, "qp_state", "", 0, Warning, "SQD", "RTS", nil},
		"port down": {func(o, p *End) { p.PortState = Is(verbs.PortDown) }, "port_state", "", 1, Fault, "ACTIVE", "DOWN", []string{"sminfo", "ip link"}},
	} {
		own, peer := pairOfEnds()
		c.change(&own, &peer)
		check := func(found []Finding, attribute, ownValue, peerValue string) {
			t.Helper()
			if len(found) == 0 {
				t.Errorf("%s: nothing found", name)
				return
			}
			f := found[0]
			if f.Severity != c.severity || f.Attribute != attribute || f.Rank != c.rank && !symmetric[attribute] ||
				!strings.Contains(f.Own, ownValue) || !strings.Contains(f.Peer, peerValue) {
				t.Errorf("%s: got %+v, want %s of %s at rank %d, %q and %q", name, f, c.severity, attribute, c.rank, ownValue, peerValue)
			}
			for _, want := range c.text {
				if !strings.Contains(f.String(), want) {
					t.Errorf("%s: %s: expected %q", name, f, want)
				}
			}
			if strings.Contains(f.String(), "\n") {
				t.Errorf("%s: more than one line: %q", name, f)
			}
		}
		mirror := c.mirror
		if mirror == "" {
			mirror = c.attribute
		}
		check(Compare(&own, &peer), c.attribute, c.own, c.peer)
		if name != "above the link" { // both ends have it
			check(Compare(&peer, &own), mirror, c.peer, c.own)
		}
	}
}

// What silence means is told by the counters of whatever device counts.
func TestSilence(t *testing.T) {
	soft, rxe := "port_rcv_packets", "rcvd_pkts"
	for name, c := range map[string]struct {
		from, to           string // the counter of received packets, "" for none
		fromGrew, toGrew   uint64
		attribute          string
		ownValue, peerText string
		text               string
	}{
		"soft to rxe, nothing arrives": {soft, rxe, 5, 0, "port_rcv_packets", "+5", "+0", "TCP ok, RDMA silent"},
		"rxe to soft, nothing arrives": {rxe, soft, 5, 0, "port_rcv_packets", "+5", "+0", "TCP ok, RDMA silent"},
		"rxe to rxe, nothing returns":  {rxe, rxe, 0, 9, "port_rcv_packets", "+0", "+9", "no answer comes back"},
		"the sender does not count":    {"", soft, 0, 9, "port_rcv_packets", "not counted", "+9", "did not answer"},
		"nobody counts":                {"", "", 0, 0, "port_rcv_packets", "not counted", "not counted", "did not answer"},
	} {
		own, peer := pairOfEnds()
		own.Counters, own.CountersRTR = map[string]uint64{c.from: 100 + c.fromGrew}, map[string]uint64{c.from: 100}
		peer.Counters, peer.CountersRTR = map[string]uint64{c.to: 100 + c.toGrew}, map[string]uint64{c.to: 100}
		f := symptom{direction: direction{&own, &peer, true}, status: verbs.RetryExceeded}.silence()
		if f.Attribute != c.attribute || !strings.HasSuffix(f.Own, c.ownValue) || !strings.HasSuffix(f.Peer, c.peerText) || !strings.Contains(f.Text, c.text) {
			t.Errorf("%s: %+v: expected %+v", name, f, c)
		}
	}
}

// Ends on devices that do not reach each other are told apart by a comparison.
func TestCompareDevices(t *testing.T) {
	found := Compare(&End{Rank: 0, Device: "shm:0", Capabilities: verbs.Capabilities{HostLocal: true}}, &End{Rank: 1, Device: "soft:lo"})
	if len(found) == 0 || found[0].Attribute != "device" || found[0].Severity != Fault || !strings.Contains(found[0].Text, "soft:lo") {
		t.Errorf("%+v: expected the devices first", found)
	}
}
