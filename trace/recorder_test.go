package trace

import (
	"bytes"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// The kinds of the layers above, as they register them.
var (
	testOperation = NewKind(Collective, OperationName, "$op", "seq", "bytes", "$protocol")
	testStep      = NewKind(Collective, StepName, "seq", "phase", "step", "bytes")
	testSend      = NewKind(Collective, SegmentSendName, "seq", "position", "bytes", "peer")
	testReceive   = NewKind(Collective, SegmentReceiveName, "seq", "position", "bytes", "peer")
	testReduce    = NewKind(Collective, SegmentReduceName, "seq", "position", "bytes")
	testBringUp   = NewKind(Ring, BringUpName, "$step")
	testPacket    = NewKind(Wire, "packet sent", "$opcode", "qpn", "psn", "bytes")
)

// emptied starts a test with nothing recorded, and leaves nothing.
func emptied(t testing.TB) {
	empty := func() {
		for s := range buffers {
			b := &buffers[s]
			b.mu.Lock()
			b.next = 0
			b.mu.Unlock()
		}
		logs.mu.Lock()
		logs.next = 0
		logs.mu.Unlock()
		identity.Lock()
		identity.size, identity.run, identity.samples = 0, "", nil
		identity.Unlock()
		SetRank(noRank)
		SetRecorder(true)
	}
	empty()
	t.Cleanup(empty)
}

func TestRecorderKeepsSpansAndInstants(t *testing.T) {
	emptied(t)
	SetRank(2)
	SetRing(4, "r1")
	AddClockSample(3, 1000, -5, 40)
	start := Now()
	op := Intern("all-reduce")
	testPacket.Instant(Intern("SEND_ONLY"), 17, 5, 256)
	testOperation.Span(start, op, 7, 4096, Intern("eager"))
	testReduce.SpanAt(start, start+10, 7, 1, 64, 0)

	r := Record()
	if r.Rank != 2 || r.Size != 4 || r.Run != "r1" || r.Lost != (Lost{}) || r.PID == 0 {
		t.Errorf("got %+v", r)
	}
	if want := []ClockSample{{3, 1000, -5, 40}}; !reflect.DeepEqual(r.Clock, want) {
		t.Errorf("clock samples %v, want %v", r.Clock, want)
	}
	if len(r.Events) != 3 {
		t.Fatalf("%d events, want 3: %+v", len(r.Events), r.Events)
	}
	byName := map[string]Event{}
	for _, e := range r.Events {
		byName[e.Name] = e
	}
	operation := byName[OperationName]
	if operation.Type != SpanEvent || operation.Subsystem != "collective" || operation.Start != int64(start) || operation.End < operation.Start {
		t.Errorf("operation is %+v", operation)
	}
	want := Args{{Name: "op", Text: "all-reduce", IsText: true}, {Name: "seq", Value: 7}, {Name: "bytes", Value: 4096}, {Name: "protocol", Text: "eager", IsText: true}}
	if !reflect.DeepEqual(operation.Args, want) {
		t.Errorf("arguments %+v, want %+v", operation.Args, want)
	}
	if got := operation.Args.Text("protocol"); got != "eager" || operation.Args.Value("seq") != 7 || operation.Args.Value("none") != 0 {
		t.Errorf("protocol is %q, seq %d", got, operation.Args.Value("seq"))
	}
	if e := byName[SegmentReduceName]; e.End-e.Start != 10 || len(e.Args) != 3 {
		t.Errorf("reduce is %+v", e)
	}
	if e := byName["packet sent"]; e.Type != InstantEvent || e.Start < int64(start) || e.Args.Text("opcode") != "SEND_ONLY" {
		t.Errorf("packet is %+v", e)
	}
}

func TestRecorderOff(t *testing.T) {
	emptied(t)
	before := Now()
	SetRecorder(false)
	if RecorderOn() || Now() != 0 {
		t.Errorf("switched off, it is on %t and the time is %d", RecorderOn(), Now())
	}
	testStep.Span(Now(), 1, 0, 0, 64)
	testStep.SpanAt(before, 0, 1, 0, 0, 64)
	testStep.Instant(1, 0, 0, 64)
	if r := Record(); len(r.Events) != 0 {
		t.Errorf("recorded while off: %+v", r.Events)
	}
	SetRecorder(true)
	if now := Clock(); now < int64(before) || int64(Now()) < now {
		t.Error("the clock went back")
	}
}

// TestOldestAreOverwritten fills one buffer twice over: the newest stay, the
// dump counts the others, and other subsystems keep theirs.
func TestOldestAreOverwritten(t *testing.T) {
	emptied(t)
	testBringUp.Span(Now(), Intern("open"), 0, 0, 0)
	const written = 2*collectiveRecords + 100
	for i := range uint64(written) {
		testStep.SpanAt(Stamp(i+1), Stamp(i+2), i, 0, 0, 0)
	}
	r := Record()
	if r.Lost.Records != written-collectiveRecords {
		t.Errorf("%d lost, want %d", r.Lost.Records, written-collectiveRecords)
	}
	if len(r.Events) != collectiveRecords+1 {
		t.Fatalf("%d events, want %d", len(r.Events), collectiveRecords+1)
	}
	for i, e := range r.Events[:collectiveRecords] {
		if want := uint64(written - collectiveRecords + i); e.Args.Value("seq") != want {
			t.Fatalf("event %d is number %d, want %d", i, e.Args.Value("seq"), want)
		}
	}
	if last := r.Events[collectiveRecords]; last.Name != BringUpName || last.Args.Text("step") != "open" {
		t.Errorf("the bring-up is lost: %+v", last)
	}
}

func TestPrintedEventsAreRecorded(t *testing.T) {
	if !prints {
		t.Skip("built without printed events")
	}
	emptied(t)
	capture(t, Text)
	if err := Set("ring=info"); err != nil {
		t.Fatal(err)
	}
	Debug(Ring, "not printed")
	Warn(Ring, "neighbour is\x1b slow", slog.Int("neighbour", 3), slog.Group("heard", slog.Duration("ago", time.Second)))
	Info(Ring, strings.Repeat("ä", 200))
	r := Record()
	if len(r.Events) != 2 {
		t.Fatalf("%d events, want 2: %+v", len(r.Events), r.Events)
	}
	if e := r.Events[0]; e.Type != LogEvent || e.Subsystem != "ring" || e.Level != "warn" || e.Name != `"neighbour is\x1b slow" neighbour=3 heard.ago=1s` {
		t.Errorf("got %+v", e)
	}
	if e := r.Events[1]; len(e.Name) != 247 || !strings.HasSuffix(e.Name, "ä...") {
		t.Errorf("a long text has %d bytes: %q", len(e.Name), e.Name)
	}
	for i := range LogTexts + 3 {
		Info(Ring, fmt.Sprint(i))
	}
	if r := Record(); r.Lost.Logs != 5 || len(r.Events) != LogTexts {
		t.Errorf("%d lost of %d, want 5", r.Lost.Logs, len(r.Events))
	}
}

// TestConcurrentWritersAndDump lets goroutines record while others dump: each
// record is whole, and each writer's are in order.
func TestConcurrentWritersAndDump(t *testing.T) {
	emptied(t)
	const writers, each = 4, 20_000
	var running sync.WaitGroup
	for w := range uint64(writers) {
		running.Go(func() {
			for i := range uint64(each) {
				testSend.SpanAt(Stamp(i+1), Stamp(i+1+w), w, i, w+i, w*i)
				testPacket.Instant(0, w, i, w*i)
			}
		})
	}
	check := func() Recording {
		r := Record()
		next := map[uint64]uint64{}
		for _, e := range r.Events {
			if e.Name != SegmentSendName {
				continue
			}
			w, i := e.Args.Value("seq"), e.Args.Value("position")
			if e.Args.Value("bytes") != w+i || e.Args.Value("peer") != w*i || e.Start != int64(i+1) || e.End != int64(i+1+w) {
				t.Errorf("torn: %+v", e)
			}
			if i < next[w] {
				t.Errorf("writer %d: %d after %d", w, i, next[w])
			}
			next[w] = i
		}
		return r
	}
	for range 5 {
		check()
	}
	running.Wait()
	r := check()
	if want := uint64(2*writers*each) - collectiveRecords - wireRecords; r.Lost.Records != want {
		t.Errorf("%d lost, want %d", r.Lost.Records, want)
	}
	if err := WriteRecordings(&bytes.Buffer{}, []Recording{r}); err != nil {
		t.Error(err)
	}
}

func TestRecordingCostsNoAllocation(t *testing.T) {
	emptied(t)
	op := Intern("all-reduce")
	if n := testing.AllocsPerRun(1000, func() {
		start := Now()
		testOperation.Span(start, op, 1, 2, 3)
		testStep.SpanAt(start, start+1, 1, 2, 3, 4)
		testPacket.Instant(1, 2, 3, 4)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(1000, func() { Intern("all-reduce") }); n != 0 {
		t.Errorf("%v allocations for a known text, want 0", n)
	}
}

func TestNewKindRefuses(t *testing.T) {
	for name, register := range map[string]func(){
		"no name":         func() { NewKind(Ring, "") },
		"five arguments":  func() { NewKind(Ring, "x", "a", "b", "c", "d", "e") },
		"no subsystem":    func() { NewKind(subsystems, "x") },
		"other arguments": func() { NewKind(Collective, StepName, "seq") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			register()
		})
	}
	if again := NewKind(Collective, StepName, "seq", "phase", "step", "bytes"); again != testStep {
		t.Errorf("registered again it is %d, was %d", again, testStep)
	}
}

func TestInternIsBounded(t *testing.T) {
	texts.Lock()
	list, index := texts.list, texts.index
	texts.list, texts.index = []string{"", tooManyTexts}, map[string]uint64{"": 0, tooManyTexts: 1}
	texts.Unlock()
	t.Cleanup(func() {
		texts.Lock()
		defer texts.Unlock()
		texts.list, texts.index = list, index
	})
	if got := interned(Intern(strings.Repeat("x", 300))); len(got) != maxTextBytes {
		t.Errorf("a long text has %d bytes", len(got))
	}
	for i := range maxTexts {
		Intern(fmt.Sprint(i))
	}
	if len(texts.list) != maxTexts {
		t.Errorf("%d texts", len(texts.list))
	}
	if got := interned(Intern("one more")); got != tooManyTexts {
		t.Errorf("got %q", got)
	}
	if got := interned(Intern("17")); got != "17" {
		t.Errorf("got %q", got)
	}
	if got := interned(1 << 40); !strings.Contains(got, "no interned text") {
		t.Errorf("got %q", got)
	}
}

func TestClockSamplesAreThinned(t *testing.T) {
	emptied(t)
	const added = 5000
	for i := range int64(added) {
		AddClockSample(1, i, 0, 10+i%2) // every second one is worse
	}
	samples := Record().Clock
	if len(samples) > maxClockSamples {
		t.Errorf("%d samples kept, want at most %d", len(samples), maxClockSamples)
	}
	if samples[0].At > added/10 || samples[len(samples)-1].At != added-1 {
		t.Errorf("kept from %d to %d: want the whole run", samples[0].At, samples[len(samples)-1].At)
	}
	for i, s := range samples[:len(samples)/4] {
		if s.RTT != 10 {
			t.Fatalf("sample %d kept instead of a better one", i)
		}
	}
}

func BenchmarkRecorder(b *testing.B) {
	b.Run("now", func(b *testing.B) {
		for b.Loop() {
			Now()
		}
	})
	b.Run("span", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			testStep.Span(Now(), 1, 2, 3, 4)
		}
	})
	b.Run("spanAt", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			testStep.SpanAt(1, 2, 1, 2, 3, 4)
		}
	})
	b.Run("off", func(b *testing.B) {
		emptied(b)
		SetRecorder(false)
		b.ReportAllocs()
		for b.Loop() {
			testStep.Span(Now(), 1, 2, 3, 4)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				testStep.Span(Now(), 1, 2, 3, 4)
			}
		})
	})
}
