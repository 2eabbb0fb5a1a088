//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/collective"
)

// onHosts starts this program on hosts, with a folder for its temporary files.
func onHosts(t *testing.T, args ...string) (c *exec.Cmd, temp string, out, log *bytes.Buffer) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for network namespaces")
	}
	for _, tool := range []string{"ip", "tc", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: %v", tool, err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	temp, out, log = t.TempDir(), new(bytes.Buffer), new(bytes.Buffer)
	c = exec.CommandContext(t.Context(), self, append([]string{"--hosts=2", "--operations", "all-reduce", "--sizes", "8,64K", "--rounds", "1", "--retakes", "0", "--window", "1ms"}, args...)...)
	c.Env = append(os.Environ(), "TMPDIR="+temp)
	c.Stdout, c.Stderr = out, log
	return c, temp, out, log
}

// nothingLeft looks for processes and files of a run that had such a folder, and for its hosts.
func nothingLeft(t *testing.T, temp string) {
	t.Helper()
	if entries, err := os.ReadDir(temp); err != nil || len(entries) > 0 {
		t.Errorf("left in %s: %v, %v", temp, entries, err)
	}
	if _, err := os.Stat("/run/netns/" + hostName(0)); err == nil {
		t.Error("a host is left")
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(temp)) {
			t.Errorf("a process is left: %s", text)
		}
	}
}

// Two ranks on two hosts: each link carries the whole vector once, and headers. Open MPI runs
// there, too, where it is installed.
func TestHosts(t *testing.T) {
	names := "ringcli-ring,ringcli-auto"
	if len(missing(t.Context(), []program{programOf(t, openMPI)})) == 0 && startsHere(t, openMPI) == nil {
		names += ",openmpi-hosts"
	}
	file := filepath.Join(t.TempDir(), "figures.json")
	c, temp, out, log := onHosts(t, "--ranks", "2", "--rate", "200mbit", "--contenders", names, "--json", file)
	err := c.Run()
	if strings.Contains(log.String(), "make namespaces: operation not permitted") {
		t.Skip("network namespaces are not allowed here")
	}
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, log)
	}
	nothingLeft(t, temp)
	if !strings.Contains(out.String(), "2 hosts, which are network namespaces, each with a link of 200mbit") || !strings.Contains(out.String(), "bytes over the busiest link") {
		t.Errorf("no hosts in\n%s", out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cells := 0
	for line := range bytes.Lines(data) {
		var got struct {
			Kind      string  `json:"kind"`
			Contender string  `json:"contender"`
			Bytes     uint64  `json:"bytes"`
			Median    float64 `json:"median_us"`
			Links     []Link  `json:"links_bytes"`
			Least     float64 `json:"least_link_bytes"`
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatal(err)
		}
		if got.Kind != "cell" {
			continue
		}
		cells++
		if len(got.Links) != 2 || got.Least != float64(got.Bytes) {
			t.Fatalf("%s", line)
		}
		if got.Bytes < 64<<10 {
			continue
		}
		for _, l := range got.Links {
			// What is lost is sent again; a busy machine may do so now and then.
			if l.Out < got.Least || l.In < got.Least || busiest(got.Links) > 2*got.Least {
				t.Errorf("%s: links carried %v bytes: expected some more than %g", got.Contender, got.Links, got.Least)
			}
		}
		if least := got.Least * 8 / 200; got.Median < 0.9*least { // bits by megabits a second; a burst passes at once
			t.Errorf("%s took %g us: expected no less than %g, which the link takes", got.Contender, got.Median, least)
		}
	}
	if want := 2 * len(strings.Split(names, ",")); cells != want {
		t.Errorf("%d cells: expected %d\n%s", cells, want, data)
	}
}

// Ctrl-C takes everything down.
func TestHostsInterrupted(t *testing.T) {
	c, temp, out, log := onHosts(t, "--ranks", "4", "--contenders", "ringcli-ring", "--rounds", "1000")
	c.Stderr = nil
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	one := make([]byte, 4096)
	for signalled := false; err == nil; {
		var n int
		n, err = said.Read(one)
		log.Write(one[:n])
		if !signalled && strings.Contains(log.String(), "every contender is right") {
			signalled = true
			time.Sleep(10 * time.Millisecond) // into a round, or not: it is over either way
			if err := c.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = c.Wait()
	if strings.Contains(log.String(), "make namespaces: operation not permitted") {
		t.Skip("network namespaces are not allowed here")
	}
	if code := c.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("it ended with %d: expected %d\n%s%s", code, exitInterrupted, out, log)
	}
	nothingLeft(t, temp)
}

func TestLinks(t *testing.T) {
	const text = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
 port1:    5878      44    0    0    0     0          0         0     6189      52    0    0    0     0       0          0
    lo:       1       0    0    0    0     0          0         0        1       0    0    0    0     0       0          0
 port0:    5109      40    0    0    0     0          0         0     6958      56    0    0    0     0       0          0
`
	before, err := parseLinks(text, 2)
	if err != nil || !slices.Equal(before, []Link{{5109, 6958}, {5878, 6189}}) {
		t.Errorf("%v, %v", before, err)
	}
	if got, err := parseLinks(text, 3); err == nil || !strings.Contains(err.Error(), "2 ports: expected 3") {
		t.Errorf("%v, %v", got, err)
	}
	if got := between(before, []Link{{5209, 6958}, {5878, 6589}}, 4); !slices.Equal(got, []Link{{25, 0}, {0, 100}}) || busiest(got) != 100 {
		t.Errorf("%v", got)
	}
	for op, want := range map[collective.Operation]float64{
		collective.OpAllReduce: 1536, collective.OpReduceScatter: 768, collective.OpAllGather: 768, collective.OpBroadcast: 1024, collective.OpReduce: 1024,
	} {
		if got := (cell{op, 8, 1024}).leastOver(4); got != want {
			t.Errorf("%s: %g bytes, want %g", op, got, want)
		}
	}
	s := site{ranks: 6, hosts: 2, self: "/bin/x"}
	if got, want := s.hostList(1), "10.77.0.1:10128,10.77.0.1:10129,10.77.0.1:10130,10.77.0.2:10131,10.77.0.2:10132,10.77.0.2:10133"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := s.inHost(1, "a", "b"); strings.Join(got, " ") != "/bin/x host host1 a b" {
		t.Errorf("%q", got)
	}
}
