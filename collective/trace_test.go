package collective

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/trace"
)

// setLevels puts levels back.
func setLevels(list []trace.SubsystemLevel) (err error) {
	for _, ch := range list {
		err = errors.Join(err, trace.Set(ch.Subsystem.String()+"="+ch.Level))
	}
	return err
}

// withTrace runs f with the levels of spec and the trace printed to out. Without
// printed events (build tag notrace) the test is skipped.
func withTrace(t *testing.T, spec string, out io.Writer, f func()) {
	t.Helper()
	before := trace.Levels()
	if err := trace.SetOutput(out, trace.Text); err != nil {
		t.Fatal(err)
	}
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
}

// TestRecorderUnderLoad: the recorder is dumped, switched off and on, and levels
// change, while operations run; what is dumped is whole.
func TestRecorderUnderLoad(t *testing.T) {
	const n, count = 3, 5000
	w := newWorld(t, n, ring.Options{}, nil)
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	k.expect(count)
	since := trace.Clock()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer trace.SetRecorder(trace.RecorderOn())
	withTrace(t, "off", io.Discard, func() {
		defer wg.Wait()
		defer close(stop)
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := trace.Set([]string{"collective=debug", "wire=debug", "ring=debug", "off"}[i%4]); err != nil && !errors.Is(err, trace.ErrNoPrints) {
					t.Error(err)
				}
				trace.SetRecorder(i%5 != 0)
				for _, e := range trace.Record().Events {
					if e.End < e.Start || e.Name == "" || e.Start >= since && e.Name == "operation" && e.Args.Text("op") != "all-reduce" {
						t.Errorf("torn: %+v", e)
						return
					}
				}
			}
		})
		for i := range 30 {
			k.check(OpAllReduce, count, CallOptions{Protocol: plan.Protocols()[i%4], Segment: 1000}, i%2 == 0)
		}
	})
}

// TestTrace: an operation tells when it starts, how it is going to run, when it
// comes to its second phase, and when it ends.
func TestTrace(t *testing.T) {
	w := newWorld(t, 2, ring.Options{}, nil)
	k := newKit(w, 1000, reduce.Float32, reduce.Sum)
	var out bytes.Buffer
	withTrace(t, "off,collective=debug", &out, func() { k.runs(1, 1000, CallOptions{Protocol: RendezvousWrite}) })
	for _, words := range []string{
		"operation starts", `call="all-reduce of 1000 float32, sum, rendezvous-write in segments of 2000 bytes, depth 4"`,
		"algorithm=ring", "first segment of the all-gather phase", "operation ends",
	} {
		if got := strings.Count(out.String(), words); got != 2 {
			t.Errorf("%q was traced %d times by two ranks:\n%s", words, got, &out)
		}
	}
}
