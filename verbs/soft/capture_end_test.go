package soft

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs"
)

// captureEnd is an end in a network namespace of its own.
type captureEnd struct {
	*end
	addr   netip.Addr
	GID    verbs.GIDEntry
	MTU    verbs.MTU
	thread int         // that is in the namespace
	calls  chan func() // what it runs
}

// startEnd makes a thread in a fresh network namespace, which has no name and so vanishes with
// the thread and the end's socket.
func startEnd(t *testing.T, addr string) *captureEnd {
	t.Helper()
	e := &captureEnd{addr: netip.MustParseAddr(addr), calls: make(chan func())}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		e.thread = unix.Gettid()
		started <- unix.Unshare(unix.CLONE_NEWNET)
		for call := range e.calls {
			call()
		}
	}()
	if err := <-started; err != nil {
		close(e.calls)
		t.Skipf("needs to be root with CAP_SYS_ADMIN for a network namespace: %v", err)
	}
	t.Cleanup(func() {
		if e.end != nil {
			e.within(t, e.close)
		}
		close(e.calls)
	})
	return e
}

// within runs what opens a socket or asks the kernel for an interface.
func (e *captureEnd) within(t *testing.T, call func() error) {
	t.Helper()
	done := make(chan error, 1)
	e.calls <- func() { done <- call() }
	if err := <-done; err != nil {
		t.Fatalf("%s: %v", e.addr, err)
	}
}

// open waits for the link and makes the objects.
func (e *captureEnd) open(t *testing.T) {
	t.Helper()
	e.within(t, func() error {
		port, err := waitForLink(device{captureLink}, e.addr)
		if err != nil {
			return err
		}
		e.MTU = port.ActiveMTU
		if e.end, err = openEnd("soft:"+captureLink, verbs.OpenOptions{LocalAddr: e.addr}, captureRegion); err != nil {
			return err
		}
		e.GID, err = e.gid()
		return err
	})
}

// waitForLink waits for the kernel to see the link's other end, and with that to
// let its IPv6 address be used.
func waitForLink(d device, addr netip.Addr) (port verbs.PortAttr, err error) {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if port, err = d.port(); err != nil || port.State != verbs.PortActive {
			continue
		}
		var probe net.PacketConn
		if probe, err = net.ListenPacket("udp", netip.AddrPortFrom(addr, 0).String()); err == nil {
			return port, probe.Close()
		}
	}
	if err != nil {
		return port, fmt.Errorf("%s is not ready after 5 s: %w", d.Name(), err)
	}
	return port, fmt.Errorf("%s is %s after 5 s", d.Name(), port.State)
}

func (e *captureEnd) counters(t *testing.T) map[string]uint64 {
	t.Helper()
	list, err := e.ctx.Counters(1)
	if err != nil {
		t.Fatal(err)
	}
	counters := make(map[string]uint64)
	for _, n := range list {
		counters[n.Name] = n.Value
	}
	return counters
}

// completion waits for one completion, successful or not.
func (e *captureEnd) completion(t *testing.T) verbs.Completion {
	t.Helper()
	got, err := e.await(1)
	if err != nil && got.Status == verbs.Success {
		t.Fatalf("%s: %v", e.addr, err)
	}
	return got
}

// ready takes the queue pair to RTR.
func (e *captureEnd) ready(t *testing.T, peer *captureEnd, peerPSN uint32) {
	t.Helper()
	e.modify(t, verbs.QPAttr{State: verbs.StateInit, PortNum: 1, Access: everything}, initMask)
	e.modify(t, verbs.QPAttr{
		State: verbs.StateRTR, PathMTU: e.MTU, DestQPN: peer.qp.Num(), RQPSN: peerPSN, MaxDestRDAtomic: 1, MinRNRTimer: 18, // 5.12 ms
		AH: verbs.AHAttr{
			IsGlobal: true, PortNum: 1, GRH: verbs.GlobalRoute{DGID: peer.GID.GID, SGIDIndex: e.GID.Index, HopLimit: 64},
			UDP: verbs.UDPPeer{Port: peer.GID.UDPPort, LowIPIDs: true},
		},
	}, rtrMask)
}

// run takes the queue pair from RTR to RTS. The timeout, 4 s, repeats nothing
// while the machine is merely busy.
func (e *captureEnd) run(t *testing.T, psn uint32) {
	t.Helper()
	e.modify(t, verbs.QPAttr{State: verbs.StateRTS, Timeout: 20, RetryCnt: 6, RNRRetry: 7, SQPSN: psn, MaxRDAtomic: 1}, rtsMask)
}

func (e *captureEnd) modify(t *testing.T, a verbs.QPAttr, mask verbs.AttrMask) {
	t.Helper()
	e.within(t, func() error { return e.qp.Modify(a, mask) })
}
