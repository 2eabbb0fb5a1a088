package soft

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringcli/verbs/soft/wire"
	"ringcli/verbs/soft/wire/wiretest/pcap"
)

// captureLink is the name of the veth interface at both ends.
const captureLink = "roce0"

// needForCapture skips the test where it cannot run.
func needForCapture(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for network namespaces and for capturing")
	}
	for _, tool := range []string{"ip", "nsenter", "dumpcap", "tshark", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: %v", tool, err)
		}
	}
}

// command runs a program to its end and returns what it wrote to its output.
func command(ctx context.Context, t *testing.T, argv ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(argv, " "), err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String()
}

// inNetwork prefixes a command so that it runs in an end's network namespace.
func (r *captureEnd) inNetwork(argv ...string) []string {
	return append([]string{"nsenter", fmt.Sprintf("--net=/proc/%d/task/%d/ns/net", os.Getpid(), r.thread), "--"}, argv...)
}

// join lays a veth pair between two ends. What is sent leaves as single frames
// before the capture sees it: gso_max_segs 1 makes the kernel cut trains into
// datagrams in software, as a driver without tx-udp-segmentation has it done.
func join(ctx context.Context, t *testing.T, a, b *captureEnd, mtu int) {
	t.Helper()
	command(ctx, t, "ip", "link", "add", captureLink, "netns", fmt.Sprint(a.thread), "type", "veth",
		"peer", "name", captureLink, "netns", fmt.Sprint(b.thread))
	for _, end := range []*captureEnd{a, b} {
		command(ctx, t, end.inNetwork("ip", "link", "set", "dev", captureLink, "mtu", fmt.Sprint(mtu), "gso_max_segs", "1", "up")...)
		command(ctx, t, end.inNetwork("ip", "link", "set", "dev", "lo", "up")...)
	}
	for _, end := range []*captureEnd{a, b} {
		if end.addr.Is6() {
			command(ctx, t, end.inNetwork("ip", "address", "add", end.addr.String()+"/64", "dev", captureLink, "nodad")...)
		} else {
			command(ctx, t, end.inNetwork("ip", "address", "add", end.addr.String()+"/24", "dev", captureLink)...)
		}
	}
}

// capture is a running dumpcap.
type capture struct {
	file string
	stop func() error
	log  *captureLog
}

// captureLog is what dumpcap says; ready is closed once it says that it has
// opened its file, which it does when the filter is in place.
type captureLog struct {
	text  []byte
	ready chan struct{}
}

// Write implements io.Writer.
func (l *captureLog) Write(b []byte) (int, error) {
	before := bytes.Contains(l.text, []byte("File: "))
	l.text = append(l.text, b...)
	if !before && bytes.Contains(l.text, []byte("File: ")) {
		close(l.ready)
	}
	return len(b), nil
}

// startCapture captures RoCEv2 at one end and returns once it does.
func startCapture(ctx context.Context, t *testing.T, r *captureEnd) *capture {
	t.Helper()
	c := &capture{file: filepath.Join(t.TempDir(), "capture.pcap"), log: &captureLog{ready: make(chan struct{})}}
	argv := r.inNetwork("dumpcap", "-P", "-i", captureLink, "-f", fmt.Sprintf("udp dst port %d", wire.UDPPort),
		"-B", "32", "-a", fmt.Sprintf("duration:%.0f", captureLimit.Seconds()), "-w", c.file)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = c.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stopped := false
	c.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		_ = cmd.Process.Signal(os.Interrupt)
		return <-ended
	}
	t.Cleanup(func() { _ = c.stop() })
	select {
	case <-c.log.ready:
	case err := <-ended:
		stopped = true
		t.Fatalf("dumpcap: %v\n%s", err, c.log.text)
	case <-time.After(10 * time.Second):
		_ = c.stop()
		t.Fatalf("dumpcap has not started after 10 s\n%s", c.log.text)
	}
	return c
}

// finish waits until the file has n packets, ends the capture and returns the
// packets that it has then.
func (c *capture) finish(t *testing.T, n int) []pcap.Record {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); len(c.records(t)) < n && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	if err := c.stop(); err != nil {
		t.Fatalf("dumpcap: %v\n%s", err, c.log.text)
	}
	return c.records(t)
}

// records are the whole records that the file has so far.
func (c *capture) records(t *testing.T) (all []pcap.Record) {
	t.Helper()
	b, err := os.ReadFile(c.file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := pcap.NewReader(bytes.NewReader(b))
	for err == nil {
		var record pcap.Record
		if record, err = r.Next(); err == nil {
			all = append(all, record)
		}
	}
	return all
}
