package path

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"ringcli/cli/doctor"
	"ringcli/ring/path"
	"ringcli/verbs/route"
)

// fine is a way of which all is well.
func fine() *way {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	return &way{
		own: end{Rank: 0, Peer: 1, Device: "ibv:mlx5_0", NetDev: "eth0", NetMTU: 9000, GIDType: "RoCE v2", Addr: a, PathMTU: 4096},
		peer: end{Rank: 1, Peer: 0, Device: "ibv:mlx5_0", NetDev: "eth0", NetMTU: 9000, GIDType: "RoCE v2", Addr: b, PathMTU: 4096,
			Target: path.Target{Addr: netip.AddrPortFrom(b, 40000)}},
		hop: route.Hop{NetDev: "eth0"}, search: path.Search{Best: 9000},
		classes: []uint8{2}, marks: []path.Seen{{Came: 4, TOS: 2}},
		echoes: []path.Echoes{{Port: 49152, Sent: 30, Back: 30, RTT: 1e4}, {Port: 49153, Sent: 30, Back: 30, RTT: 1e4}},
		ports:  []path.Seen{{Came: 30, Later: -5e9}, {Came: 30, Later: -5e9 + 1000}}, // clocks of two hosts
	}
}

// What no machine here has: NICs, routers, hosts with several interfaces.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(w *way)
		check   Check // the one that is not well; "": none
		verdict doctor.Verdict
		words   string // of value, expected and fix
	}{
		"fine":             {change: func(*way) {}},
		"congested":        {change: func(w *way) { w.marks[0].TOS = 3 }},
		"a few lost":       {change: func(w *way) { w.ports[1].Came = 28 }},
		"no route":         {func(w *way) { w.hopErr = errors.New("network is unreachable") }, checkRoute, doctor.Fail, "network is unreachable"},
		"v1 over a router": {func(w *way) { w.own.GIDType, w.hop.Gateway = "RoCE v1", w.peer.Addr }, checkRoute, doctor.Fail, "no router passes RoCE v1 on"},
		"another netdev":   {func(w *way) { w.hop.NetDev = "eth1" }, checkRoute, doctor.Warn, "by eth1, in one network: expected by eth0, which has the GID"},
		"the peer's MTU": {func(w *way) { w.peer.NetMTU, w.search.Best = 1500, 1500 }, checkSize, doctor.Fail,
			"packets of up to 1500 bytes arrive, longer ones do not (eth0 has MTU 9000); the queue pair's MTU 4096 needs 4160; no router has reported a limit; eth0 of rank 1 has MTU 1500: expected 4160 or more: ip link set dev eth0 mtu 9000  # at rank 1, or 1500 at rank 0; or connect with --mtu 1024"},
		"the own MTU": {func(w *way) { w.own.NetMTU, w.search.Best = 1500, 1500 }, checkSize, doctor.Fail,
			"an interface with MTU 4160 or more: ip link set dev eth0 mtu 4160; or connect with --mtu 1024"},
		"narrow":        {func(w *way) { w.search.Best = 8950 }, checkSize, doctor.Warn, "packets of up to 8950 bytes arrive, longer ones do not (eth0 has MTU 9000)"},
		"a loss of all": {func(w *way) { w.ports[0].Came, w.ports[1].Came = 28, 27 }, checkLoss, doctor.Warn, "55 of 60 packets of the kernel arrive (8.3 % lost)"},
		"a great loss":  {func(w *way) { w.ports[0].Came, w.ports[1].Came = 24, 18 }, checkLoss, doctor.Warn, "42 of 60 packets of the kernel arrive (30.0 % lost)"},
		"a filter of RoCE": {func(w *way) { w.short = sent{512, 0} }, checkLoss, doctor.Fail,
			"no packet of the device arrives at UDP port 4791 of ibv:mlx5_0, also no short one; at UDP port 40000 packets do: expected all of them: look for a filter of UDP port 4791 from rank 0 to rank 1"},
		"a loss of the device's": {func(w *way) { w.short = sent{512, 497} }, checkLoss, doctor.Warn,
			"497 of 512 packets of the device arrive (2.9 % lost); 60 of 60 packets of the kernel arrive (0.0 % lost)"},
		"no ECN":       {func(w *way) { w.marks[0].TOS = 0 }, checkMarks, doctor.Warn, "DSCP 0 ECT(0) arrives as DSCP 0 not ECT"},
		"a class lost": {func(w *way) { w.marks[0].Came = 0 }, checkMarks, doctor.Warn, "DSCP 0 ECT(0): none came"},
		"a port lost":  {func(w *way) { w.ports[1].Came, w.echoes[1].Back = 0, 0 }, checkPorts, doctor.Fail, "source port 49153: 30 of 30 lost"},
		"a lossy port": {func(w *way) { w.ports[1].Came = 20 }, checkPorts, doctor.Warn, "source port 49153: 10 of 30 lost"},
		"a late port":  {func(w *way) { w.ports[1].Later += 5e6 }, checkPorts, doctor.Warn, "source port 49153: later by 5001 us than the fastest"},
	} {
		w := fine()
		c.change(w)
		for _, row := range w.judge() {
			text := row.Value + ": expected " + row.Expected + ": " + row.Fix
			switch {
			case row.Check != c.check && !row.OK, row.Check == c.check && (row.Verdict != c.verdict || !strings.Contains(text, c.words)):
				t.Errorf("%s: %s %s %s: expected %s %s %q", name, row.Verdict, row.Check, text, c.verdict, c.check, c.words)
			}
		}
	}
}
