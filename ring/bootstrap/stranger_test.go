package bootstrap

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// A verdict on a large ring names many ranks: probes, and callers that are refused with it,
// can still read it.
func TestALongVerdictFitsAGreeting(t *testing.T) {
	t.Parallel()
	nodes := freshNodes(t, 2)
	one := openRank(t, configFor(t, nodes, 1))
	one.Fail(&Verdict{Kind: KindTimeout, Rank: -1, By: 1, Text: "timed out: " + strings.Repeat("rank 7 (node7): no answer; ", 4000)})
	zero := openRank(t, configFor(t, nodes, 0))
	if p := zero.ProbeRank(t.Context(), 1); !p.Up || !strings.HasPrefix(p.State, "up, failed: timed out") {
		t.Errorf("a probe hears %+v", p)
	}
	var v *Verdict
	if err := exchange(within(t), zero); !errors.As(err, &v) || v.By != 1 || !strings.HasPrefix(v.Text, "timed out: rank 7") {
		t.Errorf("a caller hears %v", err)
	}
}

// Callers of one host that do the same are counted as one kind, whatever their ports.
func TestStrangersAreCountedByKind(t *testing.T) {
	t.Parallel()
	c := openRank(t, configFor(t, freshNodes(t, 1), 0))
	const callers = 5
	for port := range callers {
		conn := &fakeConn{from: fmt.Sprintf("10.0.0.3:%d", 1+port)}
		c.greeter.stranger(conn, fmt.Sprintf("rank 0 at %s has another list", conn.RemoteAddr()))
	}
	c.foreign.mu.Lock()
	defer c.foreign.mu.Unlock()
	if kinds := c.foreign.kinds; len(kinds) != 1 || kinds[0].count != callers-1 || kinds[0].what != "rank 0 at 10.0.0.3 has another list" {
		t.Errorf("they are counted as %+v", kinds)
	}
}

// fakeConn is from an address.
type fakeConn struct {
	net.Conn
	from string
}

func (f *fakeConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f.from))
}
