package soft

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/objects"
	"ringcli/verbs/soft/wire"
)

// setLevels puts levels back.
func setLevels(list []trace.SubsystemLevel) (err error) {
	for _, l := range list {
		err = errors.Join(err, trace.Set(l.Subsystem.String()+"="+l.Level))
	}
	return err
}

// printed is what traces print.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// traced runs f with the levels of spec and returns the lines that were printed
// meanwhile. Without printed events (build tag notrace) the test is skipped.
func traced(t *testing.T, spec string, f func()) []map[string]any {
	t.Helper()
	var out printed
	before := trace.Levels()
	if err := trace.SetOutput(&out, trace.JSON); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if err := errors.Join(setLevels(before), trace.SetOutput(os.Stderr, trace.Auto)); err != nil {
				t.Error(err)
			}
		}()
		err := trace.Set(spec)
		if errors.Is(err, trace.ErrNoPrints) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		f()
	}()
	var lines []map[string]any
	out.mu.Lock() // who has begun a line may end it still
	defer out.mu.Unlock()
	d := json.NewDecoder(&out.text)
	for d.UseNumber(); ; {
		var line map[string]any
		err := d.Decode(&line)
		if err == io.EOF {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
}

// packets counts the packets of a name that were recorded since then by what
// they are.
func packets(since int64, name string) (n int, by map[string]int) {
	by = map[string]int{}
	for _, e := range trace.Record().Events {
		if e.Name == name && e.Start >= since {
			n++
			by[fmt.Sprintf("%s to %#x, PSN %d, %d bytes", e.Args.Text("opcode"), e.Args.Value("qpn"), e.Args.Value("psn"), e.Args.Value("bytes"))]++
		}
	}
	return n, by
}

func counter(t *testing.T, e *end, name string) uint64 {
	t.Helper()
	list, err := e.ctx.Counters(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("no counter %s", name)
	return 0
}

// TestPacketsAreTraced: every packet is recorded and printed once at each end,
// those within a train and acknowledgements too, alike at both ends.
func TestPacketsAreTraced(t *testing.T) {
	const n = 100_003
	a, b := pair(t, n)
	since := trace.Clock()
	lines := traced(t, "off,wire=debug", func() {
		for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead} {
			if _, err := a.qp.PostSend(request(op, a, b, n)); err != nil {
				t.Fatal(err)
			}
			a.wait(t, 1)
		}
		// An ACK that nobody waits for may still be on its way.
		for deadline := time.Now().Add(10 * time.Second); counter(t, b, "port_xmit_packets") != counter(t, a, "port_rcv_packets") ||
			counter(t, a, "port_xmit_packets") != counter(t, b, "port_rcv_packets"); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("packets are on their way for 10 s")
			}
		}
	})
	sent, sentBy := packets(since, "packet sent")
	received, receivedBy := packets(since, "packet received")
	if want := counter(t, a, "port_xmit_packets") + counter(t, b, "port_xmit_packets"); uint64(sent) != want || sent != received {
		t.Errorf("%d packets recorded as sent and %d as received, the ports sent %d", sent, received, want)
	}
	if !maps.Equal(sentBy, receivedBy) {
		t.Errorf("sent %v\nreceived %v", sentBy, receivedBy)
	}
	flags := map[string]wire.OpFlags{}
	for i := range 256 {
		flags[wire.Opcode(i).String()] = wire.Opcode(i).Flags()
	}
	printed := map[string]int{}
	for _, l := range lines {
		op := l["op"].(string)
		if ack := flags[op]&wire.HasAETH != 0; ack != (l["syndrome"] == "ACK") {
			t.Errorf("%s is printed as %v, want the syndrome of an answer, ACK", op, l)
		}
		if op == wire.ReadRequest.String() && (l["length"] == nil || l["rkey"] != fmt.Sprintf("%#x", b.mr.RKey())) {
			t.Errorf("a READ request is printed as %v, want its length and rkey %#x", l, b.mr.RKey())
		}
		if l["ack_req"] == true {
			printed["ack_req"]++
		}
		printed[l["msg"].(string)]++
	}
	if printed["packet sent"] != sent || printed["packet received"] != received || printed["ack_req"] == 0 {
		t.Errorf("printed %v, want %d packets sent and %d received, and some ask for an acknowledgement", printed, sent, received)
	}
}

// TestRetransmissionsAreTraced: what is sent again is recorded again, and what
// the wire loses is recorded as sent.
func TestRetransmissionsAreTraced(t *testing.T) {
	const n = 200_000
	a := newEnd(t, verbs.OpenOptions{LocalAddr: freshAddr()}, n)
	InjectForTest(t, a.ctx, "soft: loss 5%, seed 5")
	b := newEnd(t, verbs.OpenOptions{LocalAddr: freshAddr()}, n)
	if err := connect(a, b); err != nil {
		t.Fatal(err)
	}
	since := trace.Clock()
	traced(t, "off,wire=debug", func() {
		for range 4 {
			if _, err := a.qp.PostSend(request(verbs.OpWrite, a, b, n)); err != nil {
				t.Fatal(err)
			}
			a.wait(t, 1)
		}
	})
	_, by := packets(since, "packet sent")
	again := 0
	for packet, times := range by {
		if strings.Contains(packet, "WRITE") {
			again += times - 1
		}
	}
	if want := counter(t, a, "retransmitted_requests"); uint64(again) != want || again == 0 {
		t.Errorf("%d packets recorded again, the counter has %d retransmissions; want as many and some", again, want)
	}
}

// TestNoPacketsUntraced: while the wire is not traced, no packet is recorded.
func TestNoPacketsUntraced(t *testing.T) {
	a, b := pair(t, 5000)
	since := trace.Clock()
	if _, err := a.qp.PostSend(request(verbs.OpWrite, a, b, 5000)); err != nil {
		t.Fatal(err)
	}
	a.wait(t, 1)
	if n, by := packets(since, "packet sent"); n != 0 {
		t.Errorf("recorded %v", by)
	}
}

// TestVerbsAreTraced: changes of a queue pair with their attributes, failed
// completions with the state that they left, and an overrun.
func TestVerbsAreTraced(t *testing.T) {
	var a, b *end
	since := trace.Clock()
	lines := traced(t, "off,verbs=debug", func() {
		a, b = pair(t, 64)
		wr := request(verbs.OpWrite, a, b, 64)
		wr[0].RKey ^= 0xff
		if _, err := a.qp.PostSend(wr); err != nil {
			t.Fatal(err)
		}
		if _, err := a.await(1); err == nil {
			t.Fatal("a WRITE with a wrong rkey succeeded")
		}
		small, err := a.ctx.CreateCQ(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			small.(*objects.CQ).Push(verbs.Completion{QPN: a.qp.Num()}, false)
		}
		if err := small.Close(); err != nil {
			t.Fatal(err)
		}
	})
	own := verbs.Hex(a.qp.Num())
	count := func(want map[string]any) (n int) {
		for _, l := range lines {
			match := true
			for k, v := range want {
				match = match && fmt.Sprint(l[k]) == fmt.Sprint(v)
			}
			if match {
				n++
			}
		}
		return n
	}
	for _, want := range []map[string]any{
		{"msg": "queue pair created", "qpn": own, "max_send_wr": 128},
		{"msg": "queue pair modified", "qpn": own, "from": "RESET", "to": "INIT", "port_num": 1, "qp_access_flags": everything},
		{"msg": "queue pair modified", "qpn": own, "from": "INIT", "to": "RTR", "path_mtu": 4096, "dest_qp_num": verbs.Hex(b.qp.Num()), "rq_psn": "0xfffff0"},
		{"msg": "queue pair modified", "qpn": own, "from": "RTR", "to": "RTS", "timeout": 14, "retry_cnt": 6, "sq_psn": "0xfffff0"},
		{"msg": "completion failed", "qpn": own, "state": "ERR", "status": verbs.RemoteAccessError},
		{"msg": "completion queue overrun", "qpn": own, "capacity": 1},
	} {
		if count(want) != 1 {
			t.Errorf("%d lines of %v, want 1 in\n%v", count(want), want, lines)
		}
	}
	failed, states := 0, []string{}
	for _, e := range trace.Record().Events {
		if e.Start < since || e.Args.Value("qpn") != uint64(a.qp.Num()) {
			continue
		}
		switch e.Name {
		case "completion failed":
			failed++
		case "queue pair state":
			states = append(states, e.Args.Text("state"))
		}
	}
	if failed != 1 || fmt.Sprint(states) != "[INIT RTR RTS]" {
		t.Errorf("recorded %d failed completions and the states %v, want 1 and [INIT RTR RTS]", failed, states)
	}
}

// TestLevelsChangeUnderLoad: the trace of the wire is switched, and the recorder
// is dumped, while packets flow.
func TestLevelsChangeUnderLoad(t *testing.T) {
	const n = 50_000
	a, b := pair(t, n)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	traced(t, "off", func() {
		defer wg.Wait()
		defer close(stop)
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				if err := trace.Set([]string{"wire=debug", "verbs=debug", "off"}[i%3]); err != nil && !errors.Is(err, trace.ErrNoPrints) {
					t.Error(err)
				}
				if err := trace.WriteRecordings(io.Discard, []trace.Recording{trace.Record()}); err != nil {
					t.Error(err)
				}
			}
		})
		for range 50 {
			if _, err := a.qp.PostSend(request(verbs.OpWrite, a, b, n)); err != nil {
				t.Error(err)
				break
			}
			if _, err := a.await(1); err != nil {
				t.Error(err)
				break
			}
		}
	})
}
