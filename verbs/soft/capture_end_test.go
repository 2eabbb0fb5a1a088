package soft

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/rpc"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs"
)

// captureEndVariable is set in the processes that TestCapture starts: each of
// them is one end of a connection, in a network namespace of its own, and does
// what the test asks for over the socket that it finds as descriptor 3.
const captureEndVariable = "RINGTEST_CAPTURE_END"

// TestCaptureEnd is the body of those processes. It ends with the test: the
// socket is then at its end.
func TestCaptureEnd(t *testing.T) {
	if os.Getenv(captureEndVariable) == "" {
		t.Skip("TestCapture runs this in processes of its own")
	}
	server := rpc.NewServer()
	remote := &captureEnd{}
	if err := server.RegisterName("End", remote); err != nil {
		t.Fatal(err)
	}
	server.ServeConn(os.NewFile(3, "test"))
	if remote.end != nil {
		if err := remote.close(); err != nil {
			t.Error(err)
		}
	}
}

// captureEnd is an end by remote procedure call: the exported methods.
type captureEnd struct{ *end }

// CaptureOpen says what to open.
type CaptureOpen struct {
	Device string
	Addr   netip.Addr
	Bytes  uint64
}

// CaptureInfo is what the other end must know, and what the wire is like.
type CaptureInfo struct {
	QPN        uint32
	GID        verbs.GIDEntry
	Addr       uint64
	LKey, RKey uint32
	MTU        verbs.MTU
}

// CaptureModify is a change of the queue pair.
type CaptureModify struct {
	Attr verbs.QPAttr
	Mask verbs.AttrMask
}

// CaptureRange is a part of the region.
type CaptureRange struct{ At, Length uint64 }

// CaptureBytes are bytes of the region.
type CaptureBytes struct {
	At   uint64
	Data []byte
}

// Open waits for the link and makes the objects.
func (c *captureEnd) Open(o CaptureOpen, info *CaptureInfo) error {
	port, err := waitForLink(device{strings.TrimPrefix(o.Device, "soft:")}, o.Addr)
	if err != nil {
		return err
	}
	e, err := openEnd(o.Device, verbs.OpenOptions{LocalAddr: o.Addr}, o.Bytes)
	if err != nil {
		return err
	}
	c.end = e
	gid, err := c.gid()
	*info = CaptureInfo{c.qp.Num(), gid, c.mem.Addr(), c.mr.LKey(), c.mr.RKey(), port.ActiveMTU}
	return err
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

// Modify changes the queue pair.
func (c *captureEnd) Modify(m CaptureModify, _ *struct{}) error { return c.qp.Modify(m.Attr, m.Mask) }

// PostSend posts one request.
func (c *captureEnd) PostSend(wr verbs.WorkRequest, _ *struct{}) error {
	_, err := c.qp.PostSend([]verbs.WorkRequest{wr})
	return err
}

// PostRecv posts one receive request.
func (c *captureEnd) PostRecv(wr verbs.WorkRequest, _ *struct{}) error {
	_, err := c.qp.PostRecv([]verbs.WorkRequest{wr})
	return err
}

// Await waits for one completion, successful or not.
func (c *captureEnd) Await(_ struct{}, wc *verbs.Completion) error {
	got, err := c.await(1)
	*wc = got
	if got.Status != verbs.Success {
		return nil
	}
	return err
}

// Set writes the region.
func (c *captureEnd) Set(b CaptureBytes, _ *struct{}) error {
	copy(c.mem.Bytes()[b.At:], b.Data)
	return nil
}

// Get reads the region.
func (c *captureEnd) Get(r CaptureRange, data *[]byte) error {
	*data = c.mem.Bytes()[r.At : r.At+r.Length]
	return nil
}

// Counters returns the port's counters by name.
func (c *captureEnd) Counters(_ struct{}, counters *map[string]uint64) error {
	list, err := c.ctx.Counters(1)
	*counters = make(map[string]uint64)
	for _, n := range list {
		(*counters)[n.Name] = n.Value
	}
	return err
}

// remoteEnd is a process that is an end, as the test sees it.
type remoteEnd struct {
	CaptureInfo
	addr   netip.Addr
	pid    int
	client *rpc.Client
}

// startEnd starts the process in a fresh network namespace, which has no name
// and so vanishes with the process, however the test ends.
func startEnd(ctx context.Context, t *testing.T, addr string) *remoteEnd {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "test"), os.NewFile(uintptr(fds[1]), "end")
	client := rpc.NewClient(ours)
	var log strings.Builder
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^TestCaptureEnd$", "-test.timeout="+captureLimit.String())
	cmd.Env = append(os.Environ(), captureEndVariable+"=1")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	err = cmd.Start()
	_ = theirs.Close()
	if err != nil {
		_ = client.Close()
		t.Skipf("needs to be root with CAP_SYS_ADMIN for a network namespace: %v", err)
	}
	t.Cleanup(func() {
		_ = client.Close() // the process ends by itself then
		if err := cmd.Wait(); err != nil {
			t.Errorf("the end at %s: %v\n%s", addr, err, log.String())
		}
	})
	return &remoteEnd{addr: netip.MustParseAddr(addr), pid: cmd.Process.Pid, client: client}
}

// call has the process do something.
func (r *remoteEnd) call(t *testing.T, method string, args, reply any) {
	t.Helper()
	call := r.client.Go("End."+method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		if call.Error != nil {
			t.Fatalf("%s at %s: %v", method, r.addr, call.Error)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("%s at %s: no answer in 20 s", method, r.addr)
	}
}

func (r *remoteEnd) counters(t *testing.T) (c map[string]uint64) {
	t.Helper()
	r.call(t, "Counters", struct{}{}, &c)
	return c
}

func (r *remoteEnd) await(t *testing.T) (c verbs.Completion) {
	t.Helper()
	r.call(t, "Await", struct{}{}, &c)
	return c
}

func (r *remoteEnd) get(t *testing.T, at, length uint64) (b []byte) {
	t.Helper()
	r.call(t, "Get", CaptureRange{at, length}, &b)
	return b
}

func (r *remoteEnd) set(t *testing.T, at uint64, b []byte) {
	t.Helper()
	r.call(t, "Set", CaptureBytes{at, b}, nil)
}

// ready takes the queue pair to RTR.
func (r *remoteEnd) ready(t *testing.T, peer *remoteEnd, peerPSN uint32) {
	t.Helper()
	r.call(t, "Modify", CaptureModify{verbs.QPAttr{State: verbs.StateInit, PortNum: 1, Access: everything}, initMask}, nil)
	r.call(t, "Modify", CaptureModify{verbs.QPAttr{
		State: verbs.StateRTR, PathMTU: r.MTU, DestQPN: peer.QPN, RQPSN: peerPSN, MaxDestRDAtomic: 1, MinRNRTimer: 18, // 5.12 ms
		AH: verbs.AHAttr{
			IsGlobal: true, PortNum: 1, GRH: verbs.GlobalRoute{DGID: peer.GID.GID, SGIDIndex: r.GID.Index, HopLimit: 64},
			UDP: verbs.UDPPeer{Port: peer.GID.UDPPort, LowIPIDs: true},
		},
	}, rtrMask}, nil)
}

// run takes the queue pair from RTR to RTS. The timeout, 4 s, repeats nothing
// while the machine is merely busy.
func (r *remoteEnd) run(t *testing.T, psn uint32) {
	t.Helper()
	r.call(t, "Modify", CaptureModify{verbs.QPAttr{
		State: verbs.StateRTS, Timeout: 20, RetryCnt: 6, RNRRetry: 7, SQPSN: psn, MaxRDAtomic: 1,
	}, rtsMask}, nil)
}
