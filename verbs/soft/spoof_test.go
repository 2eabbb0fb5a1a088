package soft

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/soft/wire"
)

// forged makes an Acknowledge that is right in all that it can be.
func forged(from, to netip.AddrPort, qpn, psn uint32, s wire.Syndrome) []byte {
	const head = wire.BTHLen + wire.AETHLen
	b := make([]byte, head+wire.ICRCLen)
	wire.BTH(b).Encode(&wire.BTHFields{Opcode: wire.Acknowledge, PKey: wire.DefaultPKey, DestQPN: qpn, PSN: psn})
	wire.AETH(b[wire.BTHLen:]).Encode(s, 1)
	flow := wire.NewFlow(from, to)
	wire.PutICRC(b[head:], flow.Start(0, len(b), b[:head]))
	return b
}

// besides is a socket of another port at the peer's address, that, and where the victim is.
func besides(t *testing.T, peer, victim *end) (conn *net.UDPConn, from, to netip.AddrPort) {
	t.Helper()
	own, _ := peer.gid()
	other, _ := victim.gid()
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(own.GID.Addr().Unmap(), 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, conn.LocalAddr().(*net.UDPAddr).AddrPort(), netip.AddrPortFrom(other.GID.Addr().Unmap(), other.UDPPort)
}

// Another user of the peer's host can have its address, but not its port: what it sends is
// not taken, even where it knows the queue pair's number and every PSN.
func TestForgedFromThePeersAddress(t *testing.T) {
	a, b := pair(t, 1<<16)
	conn, from, to := besides(t, b, a)
	a.waitsForEver(t) // or its retries may run out first, on a busy machine

	// b does not answer: requests stand open that a NAK may end.
	if err := b.qp.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if _, err := a.qp.PostSend(request(verbs.OpWrite, a, b, 1<<16)); err != nil {
		t.Fatal(err)
	}
	for psn := uint32(0xffffe0); psn != 0x20; psn = wire.PSNAdd(psn, 1) {
		if _, err := conn.WriteToUDPAddrPort(forged(from, to, a.qp.Num(), psn, wire.NakRemoteAccess), to); err != nil {
			t.Fatal(err)
		}
	}
	counted := func() uint64 {
		counters, err := a.ctx.Counters(1)
		if err != nil {
			t.Fatal(err)
		}
		return counters[slices.IndexFunc(counters, func(c verbs.Counter) bool { return c.Name == "wrong_peer" })].Value
	}
	for deadline := time.Now().Add(10 * time.Second); counted() < 0x40; {
		if n, _ := a.cq.Poll(a.wc[:]); n > 0 {
			t.Fatalf("completed with %s after %d forged packets", a.wc[0].Status, counted())
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d forged packets came, expected 64", counted())
		}
	}
}

// The peer itself is heard while its address sends what is none of its own, and the
// kernel keeps that out.
func TestFloodFromThePeersAddress(t *testing.T) {
	a, b := pair(t, 1<<20)
	conn, from, to := besides(t, a, b)
	over, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-over:
				done <- n
				return
			default:
			}
			_, err := conn.WriteToUDPAddrPort(forged(from, to, b.qp.Num(), uint32(n), wire.NakRemoteOp), to)
			if n++; errors.Is(err, net.ErrClosed) {
				return
			}
		}
	}()
	write := func(a, b *end, seed uint64) {
		t.Helper()
		fill(a.mem.Bytes(), seed)
		if _, err := a.qp.PostSend(request(verbs.OpWrite, a, b, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if c := a.wait(t, 1); c.Status != verbs.Success {
			t.Fatalf("write %d: %s", seed, c.Status)
		}
		if !bytes.Equal(a.mem.Bytes(), b.mem.Bytes()) {
			t.Fatalf("write %d: bytes differ", seed)
		}
	}
	ep := b.ctx.(*Context).ep.Load()
	filtered := func() bool {
		ep.mu.Lock()
		defer ep.mu.Unlock()
		return ep.flood.filtered
	}
	deadline := time.Now().Add(20 * time.Second)
	for i := uint64(0); !filtered() && time.Now().Before(deadline); i++ {
		write(a, b, i)
	}
	if !filtered() {
		t.Skip("this machine makes no flood")
	}
	write(a, b, 1<<32)
	// Who connects from now on is heard, too.
	c := newEnd(t, verbs.OpenOptions{LocalAddr: freshAddr()}, 1<<20)
	d := newEnd(t, verbs.OpenOptions{LocalAddr: to.Addr()}, 1<<20)
	if err := connect(c, d); err != nil {
		t.Fatal(err)
	}
	write(c, d, 1<<33)
	write(d, c, 1<<34)
	close(over)
	t.Logf("%d packets were forged meanwhile", <-done)
}
