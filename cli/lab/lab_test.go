package lab

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringcli/cli/endpoint"
	"ringcli/verbs"
	"ringcli/verbs/memory"
	_ "ringcli/verbs/soft"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options(done func(Step) error) Options {
	return Options{
		Options: endpoint.Options{Device: "soft:lo", Port: 1, QPTimeout: 14, RetryCnt: 6, RNRRetry: 7, MinRNRTimer: 12}, Bytes: 5000, Timeout: 20 * time.Second, Waiting: func(string) func() { return func() {} },
		Begin: func(Step) error { return nil }, Done: done,
	}
}

// behind runs lab A on soft:lo and lets a test do something behind its back, when a
// step is done.
func behind(t *testing.T, meddle func(*labA, Step)) error {
	t.Helper()
	live := memory.Live.Load()
	var a *labA
	o := options(func(s Step) error { meddle(a, s); return nil })
	a = &labA{newProcess(&o)}
	_, a.Local = deviceAlone(o.Device)
	err := o.walk(t.Context(), a.steps())
	if closed := a.Close(); closed != nil {
		t.Error(closed)
	}
	if left := memory.Live.Load() - live; left != 0 {
		t.Errorf("%d bytes are left behind", left)
	}
	return err
}

// Each value is what the queue pair holds at that time, asked here once more.
func TestValuesAreLive(t *testing.T) {
	compared := 0
	err := behind(t, func(a *labA, s Step) {
		if s.Values.Get("state") == "" || s.Number == 1 {
			return
		}
		for i, shown := range []Values{s.Values, s.Peer} {
			q, _, err := a.ends[i].QP.Query()
			if err != nil {
				t.Fatal(err)
			}
			for name, held := range map[string]string{
				"state": q.State.String(), "qp_num": verbs.Hex(a.ends[i].QP.Num()), "dest_qp_num": verbs.Hex(q.DestQPN), "rq_psn": verbs.Hex(q.RQPSN),
				"sq_psn": verbs.Hex(q.SQPSN), "path_mtu": q.PathMTU.String(), "dgid": q.AH.GRH.DGID.String(),
			} {
				if got := shown.Get(name); got != "" && got != held {
					t.Errorf("step %d: queue pair %d: %s is shown as %s, and it holds %s", s.Number, i, name, got, held)
				} else if got != "" {
					compared++
				}
			}
		}
	})
	if err != nil || compared < 20 {
		t.Errorf("%v; %d values were compared", err, compared)
	}
}

// What is done behind the lab's back shows: it does not tell what it meant to set.
func TestValuesAreNotMemory(t *testing.T) {
	shown := ""
	err := behind(t, func(a *labA, s Step) {
		switch s.Name {
		case "create queue pairs":
			// To INIT and back with other rights: the step itself sets its own.
			var v Values
			if err := a.ends[1].toInit(&v); err != nil {
				t.Fatal(err)
			}
			attr := verbs.QPAttr{State: verbs.StateInit, PortNum: 1, Access: verbs.AccessRemoteRead}
			if err := a.ends[1].QP.Modify(attr, verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrAccess); err != nil {
				t.Fatal(err)
			}
			var changed Values
			if err := a.ends[1].stateValues(&changed, verbs.StateInit); err != nil {
				t.Fatal(err)
			}
			shown = v.Get("qp_access_flags") + " then " + changed.Get("qp_access_flags")
		case "RTR to RTS":
			if err := a.ends[0].QP.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
				t.Fatal(err)
			}
			var v Values
			err := a.ends[0].stateValues(&v, verbs.StateRTS)
			if err == nil || !strings.Contains(err.Error(), "is in ERR, expected RTS") || v.Get("state") != "ERR" {
				t.Errorf("%v, %v", err, v)
			}
		}
	})
	if shown != "0x7 then 0x4" {
		t.Errorf("access: %s", shown)
	}
	// A queue pair in ERR flushes what is posted, and the lab fails with that.
	var failed *CompletionError
	if !errors.As(err, &failed) || failed.Status != verbs.FlushError {
		t.Errorf("a queue pair in ERR: %v", err)
	}
}

// A byte that changes on its way is found.
func TestCheck(t *testing.T) {
	b := make([]byte, 3000)
	fill(b, 1, verbs.OpWrite)
	if err := check(b, 1, verbs.OpWrite); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []struct {
		end int
		op  verbs.Opcode
	}{{0, verbs.OpWrite}, {1, verbs.OpSend}, {1, verbs.OpRead}} {
		if check(b, wrong.end, wrong.op) == nil {
			t.Errorf("end %d's %s passes for end 1's WRITE", wrong.end, wrong.op)
		}
	}
	b[2999]++
	if err := check(b, 1, verbs.OpWrite); err == nil || !strings.Contains(err.Error(), "byte 2999 of 3000") {
		t.Errorf("a wrong byte: %v", err)
	}
	if check(make([]byte, 1), 0, verbs.OpSend) == nil {
		t.Error("memory that nobody has written passes")
	}
}

func TestAgree(t *testing.T) {
	good := ConnInfo{Bytes: 64, Length: 4 * 64, LinkLayer: verbs.LinkEthernet, Device: "ibv:rxe0"}
	soft := good
	soft.UDPSocket, soft.Device, soft.UDPPort = true, "soft:eth0", 4791
	elsewhere := soft
	elsewhere.UDPPort = 40000
	size, small, link := good, good, good
	size.Bytes, small.Length, link.LinkLayer = 65, 255, verbs.LinkInfiniBand
	for _, c := range []struct {
		own, peer ConnInfo
		want      string // "": they agree
	}{
		{good, good, ""}, {good, soft, ""}, {soft, good, ""}, {elsewhere, elsewhere, ""}, {elsewhere, soft, ""},
		{good, elsewhere, "UDP port 40000"}, {elsewhere, good, "UDP port 40000"},
		{good, size, "--size"}, {good, small, "255 bytes: expected 256"}, {good, link, "InfiniBand"},
	} {
		err := c.own.agree(c.peer)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, %+v: %v, expected %q", c.own, c.peer, err, c.want)
		}
	}
}

// A wait in vain ends at its deadline, and says what had come.
func TestDeadline(t *testing.T) {
	var err error
	_ = behind(t, func(a *labA, s Step) {
		if s.Name != "post RECV" {
			return
		}
		patient := a.o.Timeout
		a.o.Timeout = 50 * time.Millisecond
		_, err = a.waitAll(t.Context(), a.ends[0].wrID(verbs.WCRecv))
		a.o.Timeout = patient
	})
	if !errors.Is(err, verbs.ErrTimeout) || !strings.Contains(err.Error(), "after 50ms; the completion of RECV has not come") {
		t.Errorf("%v", err)
	}
}

func TestInterruption(t *testing.T) {
	live := memory.Live.Load()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	err := A(ctx, options(func(s Step) error {
		if s.Number == 9 {
			cancel(cause)
		}
		return nil
	}))
	if !errors.Is(err, cause) || memory.Live.Load() != live {
		t.Errorf("%v, %d bytes are left behind", err, memory.Live.Load()-live)
	}
}

// Explanations fit a terminal behind "# ".
func TestExplanationsFit(t *testing.T) {
	var texts []string
	for _, s := range append((&labA{newProcess(&Options{})}).steps(), (&labC{process: newProcess(&Options{})}).steps()...) {
		if s.Explain == "" || s.Call == "" || s.Name == "" {
			t.Errorf("%q lacks a word", s.Name)
		}
		texts = append(texts, s.Explain)
	}
	texts = slices.AppendSeq(texts, maps.Values(explanations()))
	for _, status := range []verbs.Status{
		verbs.RemoteAccessError, verbs.RemoteInvalidRequest, verbs.RetryExceeded, verbs.RNRRetryExceeded,
		verbs.FlushError, verbs.LocalProtectionError, verbs.LocalLengthError,
	} {
		if meaning(status) == "" {
			t.Errorf("%s lacks a meaning", status)
		}
	}
	for _, text := range texts {
		for line := range strings.SplitSeq(text, "\n") {
			if len(line) > 78 {
				t.Errorf("%d columns: %s", len(line), line)
			}
		}
	}
}
