package ledger

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ringcli/cli/exit"
)

// logged opens a ledger with a log file in a folder.
func logged(t *testing.T, file string, mebibytes, rank int) *Ledger {
	t.Helper()
	l, err := Open(Files{Log: file, LogMebibytes: mebibytes}, Run{Command: "connect", Version: "v"}, rank)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// messages are those of a log file's lines.
func messages(t *testing.T, path string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var o struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &o); err != nil || o.Time == "" {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, o.Level+" "+o.Msg)
	}
	return list
}

func TestALogHasWhatHappens(t *testing.T) {
	dir := t.TempDir()
	l := logged(t, filepath.Join(dir, "%r.log"), 1, -1)
	if _, err := l.Events().Write([]byte(`{"time":"t","level":"WARN","msg":"before it is a rank"}` + "\n")); err != nil {
		t.Error(err)
	}
	l.Joined(3, 0, nil)
	l.Joined(3, 4, nil)
	l.Add(Line{OK: true, Text: "ping"})
	l.Add(Link{"links", false, 0, 1, 1})
	l.AddFailure(Failure{"ping", "no answer", "timeout", nil, nil}, false)
	for range 2 { // a later run adds its lines
		if err := l.Close(Run{ExitCode: 2}); err != nil {
			t.Fatal(err)
		}
		l = logged(t, filepath.Join(dir, "3.log"), 1, -1)
	}
	want := []string{
		"INFO started", "WARN before it is a rank", "INFO joined", "INFO joined", "INFO result", "WARN result", "ERROR failure", "INFO ended",
		"INFO started", "INFO ended", "INFO started",
	}
	if got := messages(t, filepath.Join(dir, "3.log")); !slices.Equal(got, want) {
		t.Errorf("the log says %q, want %q", got, want)
	}
	if err := l.Close(Run{}); err != nil {
		t.Error(err)
	}
	if _, err := l.Events().Write([]byte("{}\n")); err != nil || len(messages(t, filepath.Join(dir, "3.log"))) != len(want)+1 {
		t.Errorf("a line after the end: %v", err)
	}
}

// A rank that this process has started has a file of its own, which is written as lines come:
// nothing waits for the end.
func TestEachRanksLogIsWrittenAtOnce(t *testing.T) {
	dir := t.TempDir()
	parent := logged(t, filepath.Join(dir, "%r.log"), 1, -1)
	for rank := range 2 {
		var pipe bytes.Buffer
		child := Send(&pipe, true)
		child.Joined(rank, 2, nil)
		child.Add(Line{OK: true, Text: "ping"})
		if err := parent.Receive(&pipe, rank); err != nil {
			t.Error(err)
		}
	}
	want := []string{"INFO started", "INFO joined", "INFO result"}
	for rank := range 2 {
		if got := messages(t, filepath.Join(dir, NameOf("%r.log", rank))); !slices.Equal(got, want) {
			t.Errorf("before the end the log of rank %d says %q, want %q", rank, got, want)
		}
		parent.RankEnded(rank, 0, "")
	}
	if err := parent.Close(Run{}); err != nil {
		t.Error(err)
	}
	want = append(want, "INFO rank ended", "INFO ended")
	for rank := range 2 {
		if got := messages(t, filepath.Join(dir, NameOf("%r.log", rank))); !slices.Equal(got, want) {
			t.Errorf("the log of rank %d says %q, want %q", rank, got, want)
		}
	}
}

func TestALogIsPutAside(t *testing.T) {
	dir := t.TempDir()
	l := logged(t, filepath.Join(dir, "x.log"), 1, 0)
	const lines = 2
	for range lines {
		l.Add(Line{OK: true, Text: strings.Repeat("x", 700<<10)})
	}
	if err := l.Close(Run{}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "x-*.log"))
	if err != nil || len(files) != lines-1 {
		t.Fatalf("%q are aside, %v", files, err)
	}
	found := 0
	for _, each := range append(files, filepath.Join(dir, "x.log")) {
		for _, m := range messages(t, each) {
			if m == "INFO result" {
				found++
			}
		}
	}
	if found != lines {
		t.Errorf("%d of %d lines are there", found, lines)
	}
}

func TestALogThatIsNotWrittenFailsTheRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l := logged(t, filepath.Join(dir, "%r.log"), 1, -1)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.Joined(0, 1, nil)
	if err := l.Close(Run{}); exit.Code(err) != exit.Critical || !strings.Contains(err.Error(), "--log-file %r.log: ") {
		t.Errorf("the folder went away: %v", err)
	}
}

func TestAChildsEventsAreInItsParentsLog(t *testing.T) {
	var pipe bytes.Buffer
	child := Send(&pipe, true)
	if _, err := child.Events().Write([]byte(`{"time":"t","level":"WARN","msg":"a packet was lost"}` + "\n")); err != nil {
		t.Error(err)
	}
	text := pipe.String()
	path := filepath.Join(t.TempDir(), "x.log")
	parent := logged(t, path, 1, -1)
	for _, l := range []*Ledger{parent, empty(-1)} {
		if err := l.Receive(strings.NewReader(text), 1); err != nil {
			t.Error(err)
		}
	}
	parent.RankEnded(1, 0, "")
	if err := parent.Close(Run{}); err != nil {
		t.Error(err)
	}
	if got, want := messages(t, path), []string{"INFO started", "WARN a packet was lost", "INFO rank ended", "INFO ended"}; !slices.Equal(got, want) {
		t.Errorf("the log says %q, want %q", got, want)
	}
	if Send(&pipe, false).Events() != nil || empty(-1).Events() != nil || (*Ledger)(nil).Events() != nil {
		t.Error("events go nowhere where there is no log")
	}
}
