package oob

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
)

// fakeConn is from an address.
type fakeConn struct {
	net.Conn
	from   string
	closed bool
}

func (f *fakeConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f.from))
}
func (f *fakeConn) Close() error { f.closed = true; return nil }

// A crowd from one address shuts nobody else out.
func TestLobby(t *testing.T) {
	var l Lobby
	neighbour := &fakeConn{from: "10.0.0.1:5"}
	few := []*fakeConn{{from: "10.0.0.2:1"}, {from: "10.0.0.2:2"}}
	l.enter(neighbour)
	for _, f := range few {
		l.enter(f)
	}
	var crowd []*fakeConn
	for i := range 10_000 {
		crowd = append(crowd, &fakeConn{from: fmt.Sprintf("10.0.0.3:%d", 1+i)})
		if !l.enter(crowd[i]) || crowd[i].closed {
			t.Fatalf("caller %d was not let in", i)
		}
		if len(l.conns) > maxPending {
			t.Fatalf("%d connections wait", len(l.conns))
		}
	}
	if neighbour.closed || few[0].closed || few[1].closed {
		t.Error("a crowd from another address shut them out")
	}
	open := 0
	for _, c := range crowd {
		if !c.closed {
			open++
		}
	}
	if open != maxPending-3 {
		t.Errorf("%d of the crowd are in, expected %d", open, maxPending-3)
	}
	l.Close()
	if !neighbour.closed || l.enter(&fakeConn{from: "10.0.0.1:6"}) {
		t.Error("open after close")
	}
}
