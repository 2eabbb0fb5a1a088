package simnet_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/rc/rctest/simnet"
)

var attr = verbs.QPAttr{
	PathMTU: verbs.MTU1024, Access: verbs.AccessRemoteWrite, MaxRDAtomic: 1, MaxDestRDAtomic: 1, Timeout: 10, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 1,
}

var config = rc.Config{Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1}, Window: 64}

// ring connects n nodes, each to the next, and returns the queue pairs that send.
func ring(t *testing.T, net *simnet.Net, n int) (right []*simnet.QP) {
	t.Helper()
	nodes := make([]*simnet.Node, n)
	for i := range nodes {
		nodes[i] = net.NewNode()
	}
	for i := range nodes {
		a, b := nodes[i].NewQP(config), nodes[(i+1)%n].NewQP(config)
		if err := simnet.Connect(a, b, attr, attr); err != nil {
			t.Fatal(err)
		}
		right = append(right, a)
	}
	return right
}

// write sends size bytes from each of the queue pairs to its right neighbour and
// returns how many arrived, and when the last was acknowledged.
func write(t *testing.T, net *simnet.Net, qps []*simnet.QP, size int) (done int, last int64) {
	t.Helper()
	for i, q := range qps {
		from := q.Node.Memory.Register(size, 0)
		to := qps[(i+1)%len(qps)].Node.Memory.Register(size, verbs.AccessRemoteWrite)
		for j := range from.Bytes {
			from.Bytes[j] = byte(i + j*7)
		}
		q.Complete = func(c rc.Completion) {
			if c.Status == verbs.Success && bytes.Equal(from.Bytes, to.Bytes) {
				done++
				last = net.Now()
			}
		}
		err := q.PostSend(&verbs.WorkRequest{
			Opcode: verbs.OpWrite, Flags: verbs.FlagSignaled, SGL: []verbs.SGE{from.SGE(0, size)}, RemoteAddr: to.Addr, RKey: to.Key,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !net.Run(time.Minute) {
		t.Fatal("still running after a virtual minute")
	}
	return done, last
}

// A thousand ranks send to their neighbours at once.
func TestThousandRanks(t *testing.T) {
	const ranks = 1000
	net := simnet.New(simnet.Options{Seed: 1, Faults: simnet.Faults{Loss: 0.01}})
	if done, _ := write(t, net, ring(t, net, ranks), 8000); done != ranks {
		t.Errorf("%d of %d ranks have sent", done, ranks)
	}
}

// One seed gives one run, another one another.
func TestRepeatable(t *testing.T) {
	run := func(seed uint64) string {
		var trace bytes.Buffer
		net := simnet.New(simnet.Options{
			Seed: seed, Faults: simnet.Faults{Loss: 0.1, Duplicate: 0.1, Reorder: 0.1, Corrupt: 0.1},
			Trace: func(e simnet.Event) { fmt.Fprintf(&trace, "%d %v %x %s\n", e.At, e.Src.Addr, e.Packet, e.Fate) },
		})
		write(t, net, ring(t, net, 3), 20000)
		return trace.String()
	}
	one := run(1)
	if one != run(1) {
		t.Error("two runs of one seed differ")
	}
	if one == run(2) {
		t.Error("two seeds give the same run")
	}
}

// All faults happen, and what is damaged is found.
func TestFaults(t *testing.T) {
	net := simnet.New(simnet.Options{Seed: 3, Faults: simnet.Faults{Loss: 0.05, Duplicate: 0.05, Reorder: 0.05, Corrupt: 0.1}})
	if done, _ := write(t, net, ring(t, net, 20), 100000); done != 20 {
		t.Errorf("%d of 20 ranks have sent", done)
	}
	s := net.Stats
	if s.Lost == 0 || s.Duplicated == 0 || s.Delayed == 0 || s.Corrupted == 0 {
		t.Errorf("a fault never happened: %+v", s)
	}
	// Flips of the byte that the ICRC leaves out alone do no harm.
	if s.Undetected != 0 || s.Detected > s.Corrupted || s.Detected < s.Corrupted*9/10 {
		t.Errorf("of %d damaged packets %d were dropped, and %d were taken", s.Corrupted, s.Detected, s.Undetected)
	}
}

// A link of 1 GB/s takes the time that the bytes need: 1 MiB in packets of 1024
// bytes, whose headers add a little.
func TestBandwidth(t *testing.T) {
	const size = 1 << 20
	net := simnet.New(simnet.Options{Bandwidth: 1e9})
	qps := ring(t, net, 2)
	start := net.Now()
	done, last := write(t, net, qps, size)
	if done != 2 {
		t.Fatalf("%d of 2 have sent", done)
	}
	took := last - start
	for _, q := range qps {
		if !q.RC().Idle() {
			t.Error("not idle in the end")
		}
	}
	if took < size || took > size*11/10 {
		t.Errorf("1 MiB took %v at 1 GB/s, want 1.05 to 1.15 ms", time.Duration(took))
	}
}

func TestMemory(t *testing.T) {
	var m simnet.Memory
	a := m.Register(100, verbs.AccessLocalWrite)
	b := m.Register(5000, verbs.AccessRemoteRead)
	for _, c := range []struct {
		name string
		got  bool
		want bool
	}{
		{"whole", m.Local(a.Key, a.Addr, 100, true), true},
		{"end", m.Local(a.Key, a.Addr+99, 1, true), true},
		{"beyond", m.Local(a.Key, a.Addr+99, 2, false), false},
		{"before", m.Local(a.Key, a.Addr-1, 1, false), false},
		{"no right to write", m.Local(b.Key, b.Addr, 1, true), false},
		{"reading needs no right", m.Local(b.Key, b.Addr, 1, false), true},
		{"remote right", m.Remote(b.Key, b.Addr, 5000, verbs.AccessRemoteRead), true},
		{"other remote right", m.Remote(b.Key, b.Addr, 1, verbs.AccessRemoteWrite), false},
		{"another's key", m.Remote(a.Key, b.Addr, 1, 0), false},
		{"wraps around", m.Remote(b.Key, b.Addr+1, ^uint64(0), verbs.AccessRemoteRead), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
		}
	}
	if m.Find(b.Addr+4999, 1) != b || m.Find(a.Addr+100, 1) != nil || m.Find(1, 1) != nil {
		t.Error("Find finds the wrong region")
	}
	m.Deregister(a)
	if m.Local(a.Key, a.Addr, 1, false) || m.Find(a.Addr, 1) != nil {
		t.Error("a region is there after Deregister")
	}
	defer func() {
		if recover() == nil {
			t.Error("access to memory that is not registered passed")
		}
	}()
	m.Bytes(a.Addr, 1)
}
