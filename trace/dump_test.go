package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ringcli/trace/tracetest"
)

// recorded fills the recorder with one of everything, overlapping as segments
// in flight do.
func recorded(t testing.TB) {
	emptied(t)
	SetRank(2)
	SetRing(4, "r1")
	AddClockSample(3, Clock(), -5_000_000, 40_000)
	testBringUp.Span(Now(), Intern("open"), 0, 0, 0)
	zero := Stamp(Clock())
	for i := range Stamp(8) {
		testSend.SpanAt(zero+i*1001, zero+i*1001+5003, 1, uint64(i), 65536, 3)
		testReceive.SpanAt(zero+i*1000, zero+i*1000+1, 1, uint64(i), 65536, 1)
		testPacket.Instant(Intern("SEND_ONLY"), 17, 1<<24-1, ^uint64(0))
	}
	testOperation.Span(zero, Intern("all-reduce"), 1, 4096, Intern("a \"protocol\" <&> \x1b ä"))
	recordLog(Ring, 4, "neighbour is \x1b slow", nil)
}

// TestDumpsAreReadBack is that a file loses nothing.
func TestDumpsAreReadBack(t *testing.T) {
	recorded(t)
	want := Record()
	want.Reason = "a test"
	want.Lost = Lost{7, 8}
	var b bytes.Buffer
	if err := WriteRecordings(&b, []Recording{want}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := list[0]
	if got.Source != path || !got.Written.Equal(want.Written) {
		t.Errorf("read from %q, written %v", got.Source, got.Written)
	}
	got.Source, got.Written = "", want.Written
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDumpIsAChromeTrace(t *testing.T) {
	recorded(t)
	var b bytes.Buffer
	if err := dump(&b); err != nil {
		t.Fatal(err)
	}
	if err := tracetest.CheckChrome(bytes.NewReader(b.Bytes())); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`"rank 2 (`, `"name":"segments out"`, `"name":"segments out 5"`, `"name":"segments in"`, `"name":"operation"`, `"name":"bring-up"`, `"name":"wire"`, `"name":"log"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in the file", want)
		}
	}
	if strings.Contains(b.String(), `"name":"segments in 2"`) || strings.Contains(b.String(), `"name":"segments out 6"`) {
		t.Error("spans that do not overlap have rows of their own")
	}
}

func TestEmptyDump(t *testing.T) {
	emptied(t)
	var b bytes.Buffer
	if err := dump(&b); err != nil {
		t.Fatal(err)
	}
	if err := tracetest.CheckChrome(bytes.NewReader(b.Bytes())); err != nil {
		t.Error(err)
	}
	if list, err := Read(&b); err != nil || len(list) != 1 || list[0].Rank != -1 || len(list[0].Events) != 0 {
		t.Errorf("read back %+v, %v", list, err)
	}
}

// full is a writer that takes n bytes.
type full struct{ n int }

var errFull = errors.New("disk full")

func (f *full) Write(b []byte) (int, error) {
	if f.n -= len(b); f.n < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestDumpReportsAFullDisk(t *testing.T) {
	recorded(t)
	for range 200 {
		testStep.Span(Now(), 1, 2, 3, 4)
	}
	for _, n := range []int{0, 5000} {
		if err := dump(&full{n}); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	recorded(t)
	var chrome bytes.Buffer
	if err := dump(&chrome); err != nil {
		t.Fatal(err)
	}
	changed := func(from, to string) string { return strings.Replace(chrome.String(), from, to, 1) }
	for name, test := range map[string]struct{ text, want string }{
		"empty":          {"", "want Chrome JSON: EOF"},
		"no JSON":        {"hello", "want Chrome JSON: invalid character"},
		"an array":       {"[]", "want Chrome JSON: json: cannot unmarshal array"},
		"something else": {`{"a":1}`, "a Chrome trace of another program"},
		"other Chrome":   {`{"traceEvents":[]}`, "a Chrome trace of another program"},
		"empty header":   {`{"traceEvents":[],"otherData":{"recordings":[{"format":"ringcli-trace","version":1}]}}`, "a header without a rank"},
		"bad sample":     {changed(`"rtt":`, `"rtt":-`), "a round trip that is not negative"},
		"cut Chrome":     {chrome.String()[:chrome.Len()-50], "unexpected EOF"},
		"other version":  {changed(`"version":1`, `"version":9`), "this program reads version 1"},
		"other format":   {changed(`ringcli-trace`, `x`), `format "x": want "ringcli-trace"`},
		"bad argument":   {changed(`"args":{"op":"all-reduce"`, `"args":{"a":1.5`), `argument "a" is 1.5: want a whole number`},
		"bad arguments":  {changed(`"args":{"op":"all-reduce"`, `"args":{"a":[]`), `want a number or a text`},
		"missing event":  {changed(`"ph":"i"`, `"ph":"M"`), "26 events of rank 2: its header says 27"},
		"other pid":      {changed(`"pid":2,"tid":0,"args":{"op"`, `"pid":3,"tid":0,"args":{"op"`), "has pid 3, which is no rank"},
		"no duration":    {changed(`"dur":`, `"x":`), "a span without a duration"},
		"bad time":       {changed(`"ts":`, `"ts":-`), "want microseconds with at most three decimals"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(strings.NewReader(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
	if _, err := ReadFile("testdata/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := ReadFile("testdata/story.json"); !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), "testdata/story.json: ") {
		t.Errorf("another file: %v", err)
	}
}

// failuresIn sends dumps of failures to a new directory.
func failuresIn(t *testing.T) string {
	dir := t.TempDir()
	t.Setenv(DirVar, dir)
	forget := func() {
		failures.Lock()
		defer failures.Unlock()
		failures.last = ""
	}
	forget()
	t.Cleanup(forget)
	return dir
}

func TestDumpOnFailure(t *testing.T) {
	recorded(t)
	dir := failuresIn(t)
	path, err := DumpOnFailure("rank 3 is lost")
	if err != nil {
		t.Fatal(err)
	}
	pattern := fmt.Sprintf(`^ringcli-rank2-%d-\d{8}T\d{6}\.\d{9}Z\.trace\.json$`, os.Getpid())
	if filepath.Dir(path) != dir || !regexp.MustCompile(pattern).MatchString(filepath.Base(path)) {
		t.Errorf("path %s, want %s in %s", path, pattern, dir)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	list, err := ReadFile(path)
	if err != nil || list[0].Reason != "rank 3 is lost" || len(list[0].Events) != 27 {
		t.Errorf("read back %v, %v", list, err)
	}
	again, err := DumpOnFailure("what follows from it")
	if err != nil || again != path {
		t.Errorf("the same failure again: %s, %v", again, err)
	}
	failures.Lock()
	failures.at = failures.at.Add(-sameFailure)
	failures.Unlock()
	if next, err := DumpOnFailure("another one"); err != nil || next == path {
		t.Errorf("another failure: %s, %v", next, err)
	}
}

// What a directory keeps of failures is bounded, whichever processes they are of.
func TestFailureFilesAreBounded(t *testing.T) {
	emptied(t)
	dir := failuresIn(t)
	earlier := func(i, size int) string {
		path := filepath.Join(dir, fmt.Sprintf("ringcli-rank%d-1-20000101T0000%02d.000000000Z.trace.json", i%7, i))
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, int64(size))); err != nil {
			t.Fatal(err)
		}
		return path
	}
	others := filepath.Join(dir, "ringcli-merged.trace.json")
	link := filepath.Join(dir, "ringcli-rank9-1-19990101T000000.000000000Z.trace.json")
	if err := errors.Join(os.WriteFile(others, nil, 0o600), os.Symlink(others, link)); err != nil {
		t.Fatal(err)
	}
	want := []string{link}
	for i := range 60 {
		if path := earlier(i, 0); i > 2 {
			want = append(want, path)
		}
	}
	for i := range 7 { // 60 and 7, which are 3 more than there may be
		failures.Lock()
		failures.last = ""
		failures.Unlock()
		path, err := DumpOnFailure(fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, path)
	}
	check := func(what string) {
		t.Helper()
		got, err := filepath.Glob(filepath.Join(dir, "ringcli-*rank*.json"))
		slices.Sort(want)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: left are %v, %v; want %v", what, got, err, want)
		}
	}
	check("in number")
	// One that is too large, and so all that are older.
	earlier(59, maxFailureBytes)
	want = slices.DeleteFunc(want, func(path string) bool { return strings.Contains(path, "-1-20000101T") })
	makeRoom(dir)
	check("in bytes")
	if _, err := os.Stat(others); err != nil {
		t.Errorf("what is none of them: %v", err)
	}
}

func TestDumpOnFailureWithoutADirectory(t *testing.T) {
	emptied(t)
	dir := failuresIn(t)
	t.Setenv(DirVar, filepath.Join(dir, "none"))
	path, err := DumpOnFailure("x")
	if path != "" || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "RINGCLI_TRACE_DIR chooses another directory") {
		t.Errorf("got %q, %v", path, err)
	}
	t.Setenv(DirVar, dir)
	if _, err := DumpOnFailure("x"); err != nil {
		t.Errorf("after a failure to write: %v", err)
	}
}

func BenchmarkDump(b *testing.B) {
	emptied(b)
	for i := range uint64(collectiveRecords) {
		at := Stamp(i) * 1000
		testSend.SpanAt(at+1, at+3001, i/100, i%100, 65536, 1)
	}
	for b.Loop() {
		if err := dump(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
