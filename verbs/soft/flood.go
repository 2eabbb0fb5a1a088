package soft

import (
	"log/slog"
	"net/netip"
	"time"

	"ringcli/trace"
	"ringcli/verbs/soft/udp"
)

const (
	// floodRate is how many packets a second may be nobody's before the kernel drops what
	// comes from elsewhere: more than mistakes make, and a percent of what the socket takes.
	floodRate = 20_000
	// floodSpan is how long they are counted at a time.
	floodSpan = int64(time.Second)
)

// flood notices that many packets come that are none of a peer's. They would fill the
// socket's buffer, and what peers send would be lost. Until then they come through, to
// be counted for whoever looks for a fault. The endpoint's lock guards it.
type flood struct {
	since    int64
	packets  int
	filtered bool // the socket takes what comes from peers only
	many     bool // so, but that there are more peers than the kernel is told
}

// dropped counts a packet that no queue pair has taken.
func (e *endpoint) dropped(now int64) {
	f := &e.flood
	if now-f.since > floodSpan {
		f.since, f.packets = now, 0
	}
	if f.packets++; f.packets > floodRate && !f.filtered {
		f.filtered = true
		trace.Warn(trace.Wire, "a flood of packets that are no peer's: the kernel drops from now on what comes from elsewhere",
			slog.String("local", e.local.String()), slog.Int("packets", f.packets), slog.Duration("within", time.Duration(now-f.since)))
		e.admitPeers()
	}
}

// admitPeers tells the socket whose packets it takes, if it does not take all. Without
// queue pairs it takes all again: the flood may be over.
func (e *endpoint) admitPeers() {
	if !e.flood.filtered {
		return
	}
	var peers []netip.AddrPort
	known := make(map[netip.AddrPort]bool)
	for _, q := range e.qps {
		from := q.peer
		if !from.IsValid() {
			continue
		}
		if !q.lowIPIDs {
			from = netip.AddrPortFrom(from.Addr(), 0)
		}
		if !known[from] && len(peers) <= udp.MaxAdmitted {
			known[from] = true
			peers = append(peers, from)
		}
	}
	admit := func() error { return e.conn.Admit(peers) }
	switch f, many := &e.flood, len(peers) > udp.MaxAdmitted; {
	case len(e.qps) == 0:
		*f, admit = flood{}, e.conn.AdmitAll
	case !many:
		f.many = false
	case !f.many:
		f.many = true
		trace.Warn(trace.Wire, "strangers' packets are not kept out: there are more peers than the kernel is told of", slog.Int("most", udp.MaxAdmitted))
	}
	if err := admit(); err != nil {
		trace.Warn(trace.Wire, "strangers' packets are not kept out", slog.String("error", err.Error()))
	}
}
