package rc_test

import (
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/rc/rctest/simnet"
)

// badWires are the rows of TestThroughput: what the wire does, and how many MB/s of
// WRITE and READ there must be at least, some two thirds of what there were. Beside
// them, what there were while a queue pair went back to the first packet that was
// missing, threw away what came early and waited for its timer (67 ms) whenever a NAK
// or what it asked for was lost:
//
//	                               WRITE      READ      went back
//	clean                         2489.6    2489.1    2489.6  2489.1
//	loss 0.1 %                    2424.8    2429.7    2106.6  2089.7
//	loss 1 %                      1518.3    1538.5      41.9    36.0
//	loss 10 %                       92.4      80.0       0.7     0.9
//	reordered 1 %                 2481.2    2480.9    1111.1   358.4
//	reordered 10 %                2454.5    2458.5      41.0    23.4
//	doubled 30 %                  2489.6    2489.1    2489.6  2489.1
//	jitter 0 to 1 ms               623.2     459.8       0.6     4.9
//	jitter 0 to 20 ms               39.0      30.1       0.2     0.5
//	jitter 0 to 20 ms, loss 1 %     17.9      16.3       0.2     0.5
//
// A peer that does not keep what comes early, such as rdma_rxe, is sent all from there; the
// test logs what two of that kind reach.
var badWires = []struct {
	name   string
	faults simnet.Faults
	least  [2]float64
}{
	{"clean", simnet.Faults{}, [2]float64{2400, 2400}},
	{"loss 0.1 %", simnet.Faults{Loss: 0.001}, [2]float64{2000, 2000}},
	{"loss 1 %", simnet.Faults{Loss: 0.01}, [2]float64{1000, 1000}},
	{"loss 10 %", simnet.Faults{Loss: 0.1}, [2]float64{60, 50}},
	{"reordered 1 %", simnet.Faults{Reorder: 0.01}, [2]float64{2000, 2000}},
	{"reordered 10 %", simnet.Faults{Reorder: 0.1}, [2]float64{1600, 1600}},
	{"doubled 30 %", simnet.Faults{Duplicate: 0.3}, [2]float64{2400, 2400}},
	{"jitter 0 to 1 ms", simnet.Faults{Jitter: time.Millisecond}, [2]float64{400, 300}},
	{"jitter 0 to 20 ms", simnet.Faults{Jitter: 20 * time.Millisecond}, [2]float64{25, 20}},
	{"jitter 0 to 20 ms, loss 1 %", simnet.Faults{Jitter: 20 * time.Millisecond, Loss: 0.01}, [2]float64{10, 10}},
}

// stream moves messages of 1 MiB, four at a time, over a link of 20 Gb/s and 10 us, and
// returns how many bytes a second of virtual time it took.
func stream(t *testing.T, f simnet.Faults, op verbs.Opcode, keep bool) (rate float64, c rc.Counters) {
	const size, depth = 1 << 20, 4
	messages := 64
	if !keep {
		messages = 8
	}
	net := simnet.New(simnet.Options{
		Seed: 1, Faults: f, Latency: 10 * time.Microsecond, Turnaround: 2 * time.Microsecond, Bandwidth: 2.5e9,
		KeepEarly: keep, TellEarly: keep,
	})
	a, b := net.NewNode(), net.NewNode()
	config := rc.Config{Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1}, SigAll: true, Window: 256}
	qa, qb := a.NewQP(config), b.NewQP(config)
	attr := verbs.QPAttr{
		PathMTU: verbs.MTU4096, Access: verbs.AccessRemoteWrite | verbs.AccessRemoteRead, MaxRDAtomic: 16, MaxDestRDAtomic: 16,
		Timeout: 14, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 12, SQPSN: 0xffff00,
	}
	if err := simnet.Connect(qa, qb, attr, attr); err != nil {
		t.Fatal(err)
	}
	local, remote := a.Memory.Register(size, verbs.AccessLocalWrite), b.Memory.Register(size, verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
	wr := verbs.WorkRequest{Opcode: op, SGL: []verbs.SGE{local.SGE(0, size)}, RemoteAddr: remote.Addr, RKey: remote.Key}
	posted, done := 0, 0
	post := func() {
		if posted < messages {
			posted++
			if err := qa.PostSend(&wr); err != nil {
				t.Error(err)
			}
		}
	}
	failed := verbs.Success
	qa.Complete = func(c rc.Completion) {
		if c.Status != verbs.Success {
			failed = c.Status
			return
		}
		done++
		post()
	}
	for range depth {
		post()
	}
	for end := net.Now() + int64(60*time.Second); done < messages && failed == verbs.Success && net.Now() < end; {
		if !net.Step() {
			break
		}
	}
	if failed != verbs.Success {
		t.Errorf("%s over %+v: %v after %d messages", op, f, failed, done)
	}
	return float64(done) * size / (float64(net.Now()) / 1e9), net.Counters
}

// TestThroughput: how fast messages are moved over a bad wire.
func TestThroughput(t *testing.T) {
	t.Logf("%-28s %10s %10s   neither keeps: %8s %8s", "MB/s", "WRITE", "READ", "WRITE", "READ")
	for _, w := range badWires {
		var rates [4]float64
		for i, keep := range []bool{true, false} {
			for j, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead} {
				rate, c := stream(t, w.faults, op, keep)
				rate /= 1e6
				rates[2*i+j] = rate
				if !keep {
					continue
				}
				if rate < w.least[j] {
					t.Errorf("%s, %s: %.1f MB/s, expected %.0f: %+v", w.name, op, rate, w.least[j], c)
				}
				if w.faults.Loss == 0 && w.faults.Jitter == 0 && w.faults.Reorder == 0 && c.RetransmittedPkts+c.NakPkts+c.ImpliedNakSeqErr != 0 {
					t.Errorf("%s, %s: nothing was lost, and yet %+v", w.name, op, c)
				}
			}
		}
		t.Logf("%-28s %10.1f %10.1f                %8.1f %8.1f", w.name, rates[0], rates[1], rates[2], rates[3])
	}
}
