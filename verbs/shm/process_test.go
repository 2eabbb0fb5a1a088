package shm_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/shm"
)

// childEnv makes this test binary another process of the host: a peer, which does
// what the JSON in the variable says.
const childEnv = "RINGTEST_SHM_PEER"

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := peerMain(text); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// role is what a peer is to do.
type role struct {
	Arena   bool // its memory is an arena
	Bytes   uint64
	Flood   bool // it writes to the parent all the time
	Receive int  // receives that it keeps posted, each of the whole memory
	Blind   bool // it behaves as if it could not read the parent's memory
	Echo    bool // it answers each SEND of up to 64 bytes with the same
}

// contact is what two ends tell each other over a pipe.
type contact struct {
	GID  verbs.GID
	QPN  uint32
	Addr uint64
	RKey uint32
}

const everything = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// end is one end of a connection.
type end struct {
	ctx verbs.Context
	pd  verbs.PD
	cq  verbs.CQ
	qp  verbs.QP
	mem verbs.Memory
	mr  verbs.MR
	wc  []verbs.Completion
}

func newEnd(inArena bool, n uint64) (*end, error) {
	e := &end{wc: make([]verbs.Completion, 32)}
	device, err := verbs.Find("shm:0")
	if err != nil {
		return nil, err
	}
	if e.ctx, err = device.Open(verbs.OpenOptions{}); err != nil {
		return nil, err
	}
	if e.pd, err = e.ctx.AllocPD(); err != nil {
		return nil, err
	}
	if e.cq, err = e.ctx.CreateCQ(4096, nil); err != nil {
		return nil, err
	}
	if inArena {
		e.mem, err = e.ctx.(verbs.Allocator).AllocMemory(n)
	} else {
		e.mem, err = memory.Alloc(n)
	}
	if err != nil {
		return nil, err
	}
	if e.mr, err = e.pd.RegMR(e.mem.Addr(), n, everything); err != nil {
		return nil, err
	}
	e.qp, err = e.pd.CreateQP(verbs.QPInitAttr{
		SendCQ: e.cq, RecvCQ: e.cq, Type: verbs.RC,
		Cap: verbs.QPCap{MaxSendWR: 256, MaxRecvWR: 256, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64},
	})
	return e, err
}

func (e *end) close() error {
	return errors.Join(e.qp.Close(), e.mr.Close(), e.cq.Close(), e.pd.Close(), e.ctx.Close(), e.mem.Free())
}

func (e *end) contact() (contact, error) {
	g, err := e.ctx.QueryGID(1, 0)
	return contact{GID: g.GID, QPN: e.qp.Num(), Addr: e.mem.Addr(), RKey: e.mr.RKey()}, err
}

func (e *end) connect(to contact) error {
	for _, step := range []struct {
		attr verbs.QPAttr
		mask verbs.AttrMask
	}{
		{verbs.QPAttr{State: verbs.StateInit, PortNum: 1, Access: everything},
			verbs.AttrState | verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess},
		{verbs.QPAttr{
			State: verbs.StateRTR, PathMTU: verbs.MTU4096, DestQPN: to.QPN, RQPSN: 7, MaxDestRDAtomic: 16, MinRNRTimer: 1,
			AH: verbs.AHAttr{IsGlobal: true, PortNum: 1, GRH: verbs.GlobalRoute{DGID: to.GID}},
		}, verbs.AttrState | verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN | verbs.AttrMaxDestRDAtomic | verbs.AttrMinRNRTimer},
		{verbs.QPAttr{State: verbs.StateRTS, Timeout: 14, RetryCnt: 2, RNRRetry: 7, SQPSN: 7, MaxRDAtomic: 16},
			verbs.AttrState | verbs.AttrTimeout | verbs.AttrRetryCnt | verbs.AttrRNRRetry | verbs.AttrSQPSN | verbs.AttrMaxRDAtomic},
	} {
		if err := e.qp.Modify(step.attr, step.mask); err != nil {
			return err
		}
	}
	return nil
}

// poll waits a moment for completions; none came if it returns none.
func (e *end) poll(patience time.Duration) ([]verbs.Completion, error) {
	var deadline time.Time
	for i := 0; ; i++ {
		n, err := e.cq.Poll(e.wc)
		if n > 0 || err != nil {
			return e.wc[:n], err
		}
		if i%64 == 63 {
			if _, _, errno := unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0); errno != 0 {
				return nil, errno
			}
			now := time.Now()
			if deadline.IsZero() {
				deadline = now.Add(patience)
			} else if now.After(deadline) {
				return nil, nil
			}
		}
	}
}

func (e *end) sge(off uint64, n uint32) []verbs.SGE {
	return []verbs.SGE{{Addr: e.mem.Addr() + off, Length: n, LKey: e.mr.LKey()}}
}

// peerMain is the life of a peer: it says who it is, is told who the parent is, says that
// it is connected, and works until its standard input ends.
func peerMain(text string) error {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	if r.Blind {
		shm.ForbidReading()
	}
	e, err := newEnd(r.Arena, r.Bytes)
	if err != nil {
		return err
	}
	me, err := e.contact()
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(me); err != nil {
		return err
	}
	in := json.NewDecoder(os.Stdin)
	var parent contact
	if err := in.Decode(&parent); err != nil {
		return err
	}
	if err := e.connect(parent); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(me); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	if err := e.work(r, parent, ended); err != nil {
		return err
	}
	return e.close()
}

func (e *end) work(r role, parent contact, ended <-chan struct{}) error {
	recv := []verbs.WorkRequest{{SGL: e.sge(0, uint32(r.Bytes))}}
	for range r.Receive {
		if _, err := e.qp.PostRecv(recv); err != nil {
			return err
		}
	}
	echo := []verbs.WorkRequest{{Opcode: verbs.OpSend, SGL: e.sge(0, 8)}}
	flood := []verbs.WorkRequest{
		{Opcode: verbs.OpWrite, Flags: verbs.FlagSignaled, SGL: e.sge(0, 100<<10), RKey: parent.RKey, RemoteAddr: parent.Addr},
		{Opcode: verbs.OpRead, Flags: verbs.FlagSignaled, SGL: e.sge(0, 100<<10), RKey: parent.RKey, RemoteAddr: parent.Addr},
		{Opcode: verbs.OpWrite, Flags: verbs.FlagSignaled, SGL: e.sge(0, 8), RKey: parent.RKey, RemoteAddr: parent.Addr},
	}
	under, echoes := 0, 0
	for {
		select {
		case <-ended:
			return nil
		default:
		}
		for r.Flood && under < 30 {
			if _, err := e.qp.PostSend(flood); err != nil {
				return err
			}
			under += len(flood)
		}
		wcs, err := e.poll(10 * time.Millisecond)
		if err != nil {
			return err
		}
		for _, wc := range wcs {
			switch {
			case wc.Status != verbs.Success:
				return nil // the parent has gone on
			case wc.Opcode < verbs.WCRecv:
				under--
				continue
			}
			if _, err := e.qp.PostRecv(recv); err != nil {
				return err
			}
			if r.Echo {
				echo[0].SGL[0].Length = wc.ByteLen
				echo[0].Flags = 0
				if echoes++; echoes%64 == 0 {
					echo[0].Flags = verbs.FlagSignaled
				}
				if _, err := e.qp.PostSend(echo); err != nil {
					return err
				}
			}
		}
	}
}

// peer is another process that is connected to this one.
type peer struct {
	contact
	cmd   *exec.Cmd
	stdin io.WriteCloser
	err   bytes.Buffer
}

// startPeer starts a process and connects an end with it.
func startPeer(t testing.TB, e *end, r role) *peer {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{cmd: exec.Command("/proc/self/exe", "-test.run=^$")}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	p.cmd.Stderr = &p.err
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := json.NewDecoder(out)
	if err := said.Decode(&p.contact); err != nil {
		_ = p.end()
		t.Fatalf("the peer says nothing: %v; %s", err, p.err.String())
	}
	me, err := e.contact()
	if err == nil {
		err = e.connect(p.contact)
	}
	if err == nil {
		err = json.NewEncoder(p.stdin).Encode(me)
	}
	if err == nil { // or the retries run out before it is connected, on a busy machine
		err = said.Decode(&p.contact)
	}
	if err != nil {
		_ = p.end()
		t.Fatalf("%v; %s", err, p.err.String())
	}
	return p
}

// end has the peer end by itself and returns how.
func (p *peer) end() error {
	_ = p.stdin.Close()
	kill := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("the peer: %w: %s", err, p.err.String())
	}
	return nil
}
