package cli

import (
	"errors"
	"net/netip"

	"ringcli/cli/pingpong"
	"ringcli/cli/session"
	"ringcli/verbs"
)

// pingpongExamples are of a pingpong with its data checked, and of one whose peer
// left before it had the last ACK.
func pingpongExamples() []example {
	// took prints one as it runs.
	took := func(name string, r pingpong.PingpongResult) example {
		return example{name, func(s *session.Session) error {
			return errors.Join(pingpong.StockLine(s, pingpong.LocalLine, r.Local), pingpong.StockLine(s, pingpong.RemoteLine, r.Remote), pingpong.Print(s, r))
		}}
	}
	gid := verbs.GIDFromAddr(netip.MustParseAddr("10.77.0.254")) // the stock tool's lines are as long as they are
	checked := pingpong.PingpongResult{
		Command: "pingpong", OK: true, Role: "client", Peer: "[2001:db8::1]:18515", Device: "soft:enp65s0f0np0", GIDIndex: 3,
		Local: pingpong.Address{QPN: 0x11, PSN: 0xabcdef, GID: gid}, Remote: pingpong.Address{LID: 0x3a1e, QPN: 0xfffffe, PSN: 1, GID: gid},
		Size: 65536, Iters: 1000, MTU: 1024, Bytes: 131072000, Seconds: 0.125, MbitPerSec: 8388.608, UsecPerIter: 125,
		RTT: pingpong.PingpongRoundTrips{Min: 95.5, P50: 125, P90: 1234.5, P99: 98765.5, Max: 30000000}, Checked: true,
	}
	left := checked
	left.Command, left.Role, left.Size, left.Iters, left.Bytes = "lab", "server", 1, 1, 2
	left.RTT, left.Checked, left.Unacknowledged = pingpong.PingpongRoundTrips{}, false, true
	left.Local.GID, left.Remote.GID = [16]byte{}, [16]byte{}
	return []example{took("pingpong", checked), took("lab b", left)}
}
