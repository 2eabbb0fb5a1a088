package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var sixDigits = regexp.MustCompile(`^\{"time":"[0-9T:-]{19}\.\d{6}(Z|[+-]\d\d:\d\d)"`)

// Each rank of this machine has a log file of its own that grows as lines come, and keeps them
// when all processes are killed.
func TestEachRanksLogFileGrows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := launch(t, "local", "-n", "3", "--log-file", filepath.Join(dir, "M-%r.log"), "--trace", "ring=debug", "-c", "all-reduce --size 4K --iters 2; sleep 1h")
	within := time.Now().Add(hung)
	for _, name := range []string{"M-0.log", "M-1.log", "M-2.log"} {
		for {
			text, _ := os.ReadFile(filepath.Join(dir, name)) // or it is not there yet
			if strings.Contains(string(text), `"kind":"Measurement"`) {
				break
			}
			if time.Now().After(within) {
				t.Fatalf("%s has no measurement:\n%s\n%s", name, text, p.stderr.String())
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // it was killed
	for rank, name := range []string{"M-0.log", "M-1.log", "M-2.log"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]int{}
		for i, o := range objects(t, string(text)) {
			found[o["msg"].(string)]++
			if line := strings.Split(string(text), "\n")[i]; !sixDigits.MatchString(line) {
				t.Errorf("%s: the time has not six digits: %s", name, line)
			}
			if at, is := o["rank"].(float64); is && int(at) != rank {
				t.Errorf("%s has a line of rank %v: %v", name, at, o)
			}
		}
		if found["started"] != 1 || found["joined"] < 1 || found["result"] < 1 {
			t.Errorf("%s has %v", name, found)
		}
	}
}
