package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ringcli/cli/exit"
)

func TestReportsForMachines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	junit, metrics := filepath.Join(dir, "ring.xml"), filepath.Join(dir, "ring.prom")
	code, _, stderr := finish(t, "local", "-n", "2", "--junit", junit, "--metrics", metrics, "-c", "ping; all-reduce --size 4K --iters 5 --check; expect wrong == 1")
	if code != exit.Critical {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	for path, wanted := range map[string][]string{
		junit: {
			`<testsuite name="ringcli ping" tests="2" failures="0"`, `<testcase name="rank 0" classname="ringcli.rank"`, `<testcase name="rank 1" classname="ringcli.rank"`,
			`<testcase name="expect wrong == 1" classname="ringcli.command"`, `type="expectation"`,
		},
		metrics: {
			"# TYPE ringcli_operation_seconds gauge\n", `ringcli_operation_wrong_elements{ring="ring",command="local",operation="all-reduce",bytes="4096"`,
			`ringcli_checks{ring="ring",command="local",result="failed"} 1`, `ringcli_run_exit_code{ring="ring",command="local"} 2`, `ringcli_failure{ring="ring",command="local",code="expectation"} 1`,
		},
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wanted {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %s:\n%s", filepath.Base(path), want, text)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("there are %v, %v", left, err)
	}
}

// A log has what all ranks found and traced, and that of a later run after it.
func TestTheLogFileHasAllRanks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ring.log")
	for run := 1; run <= 2; run++ {
		code, _, stderr := finish(t, "local", "-n", "2", "--log-file", path, "--trace", "ring=debug", "-c", "all-reduce --size 4K --iters 5 --check; expect wrong == 1")
		if code != exit.Critical {
			t.Errorf("exit code %d: %s", code, stderr)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found, events := map[string]int{}, map[any]bool{}
		for _, o := range objects(t, string(text)) {
			found[o["msg"].(string)]++
			if o["subsystem"] != nil {
				events[o["rank"]] = true
			}
		}
		if found["started"] != run || found["ended"] != run || found["rank ended"] != 2*run || found["failure"] < run || found["result"] < 2*run {
			t.Errorf("run %d has left %v", run, found)
		}
		if !events[0.0] || !events[1.0] {
			t.Errorf("run %d: events of ranks %v", run, events)
		}
	}
}

// What connect names is in the list of bad hosts, and a list can be read again.
func TestHostListsOfConnect(t *testing.T) {
	t.Parallel()
	list, dir := freshList(t, 2), t.TempDir()
	good, bad := filepath.Join(dir, "good"), filepath.Join(dir, "bad")
	code, _, stderr := finish(t, "connect", "--index", "0", "--list", strings.Join(list, ","), "--timeout", "1s", "--good-hosts", good, "--bad-hosts", bad)
	if code != exit.Critical {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	for path, at := range map[string]int{good: 0, bad: 1} {
		host, _, _ := strings.Cut(list[at], ":")
		if text, err := os.ReadFile(path); err != nil || string(text) != host+"\n" {
			t.Errorf("%s has %q, %v: expected %s", filepath.Base(path), text, err, host)
		}
	}
	code, _, stderr = finish(t, "connect", "--index", "0", "--list", "@"+good, "--good-hosts", filepath.Join(dir, "again"), "-c", "barrier")
	if text, err := os.ReadFile(filepath.Join(dir, "again")); code != exit.OK || err != nil || len(text) == 0 {
		t.Errorf("a ring of the good hosts: exit code %d, %q, %v, %s", code, text, err, stderr)
	}
}

func TestAReportThatCannotBeWrittenFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, stdout, stderr := finish(t, "local", "-n", "2", "--metrics", filepath.Join(dir, "none", "x.prom"))
	if code != exit.Usage || stdout != "" || !strings.Contains(stderr, "a folder that can be written") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}

	// The folder goes away after it was found good: that is when the script is read.
	gone, fifo := filepath.Join(dir, "gone"), filepath.Join(dir, "script")
	if err := os.Mkdir(gone, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, "shell", "--junit", filepath.Join(gone, "x.xml"), "-f", fifo)
	script, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(gone); err != nil {
		t.Error(err)
	}
	if _, err := script.WriteString("version\n"); err != nil {
		t.Error(err)
	}
	if err := script.Close(); err != nil {
		t.Error(err)
	}
	if code := p.end(t, hung); code != exit.Critical || !strings.Contains(p.stderr.String(), "--junit x.xml") {
		t.Errorf("exit code %d, %s", code, &p.stderr)
	}
}
