//go:build linux

package rack

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOptions(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	o := Options{Shares: []string{link}}
	if err := o.fill(); err != nil {
		t.Fatal(err)
	}
	if o.Nodes != 1 || o.CPUs != 1 || o.MTU != 1500 || o.MemoryMiB != 320 || o.Log == nil || o.Shares[0] != dir {
		t.Errorf("%+v", o)
	}
	for _, o := range []Options{{Nodes: -1}, {Nodes: MaxNodes + 1}, {Shares: []string{filepath.Join(dir, "none")}}} {
		if err := o.fill(); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func TestQEMUArgs(t *testing.T) {
	r := Rack{options: Options{MTU: 9000, CPUs: 2, MemoryMiB: 320, Shares: []string{"/with,comma"}}, dir: "/d", accelerator: "tcg"}
	args := r.qemuArgs(3, "/d/vm3.console")
	all := strings.Join(args, " ")
	for _, want := range []string{"-smp 2", "path=/,security_model=none,multidevs=remap,readonly=on", "path=/with,,comma,",
		"host_mtu=9000", "mac=52:54:00:77:00:03", "-accel tcg", "-initrd /d/initramfs"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %s", want, all)
		}
	}
	if r.accelerator = "kvm"; !slices.Contains(r.qemuArgs(1, ""), "kvm") {
		t.Error("kvm is not used")
	}
}

func TestHasVirtualization(t *testing.T) {
	for text, want := range map[string]bool{
		"model name\t: vmx of old\nflags\t\t: fpu sse2\nvmx flags\t: ept\n": false,
		"flags\t\t: fpu vmx sse2\n":                                         true,
		"flags\t\t: fpu svm\n":                                              true,
		"":                                                                  false,
	} {
		if got := hasVirtualization(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestGuestEnv(t *testing.T) {
	t.Setenv("PATH", "/home/me/bin")
	t.Setenv("HOME", "")
	if got := guestEnv(); got["PATH"] != "/home/me/bin:/usr/sbin:/sbin" || got["HOME"] != "/root" {
		t.Errorf("%v", got)
	}
}

// A directory goes when its owner has died, and not before.
func TestTempDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	abandoned, err := os.MkdirTemp("", tempPattern)
	if err != nil {
		t.Fatal(err)
	}
	dir, lock, err := tempDir()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abandoned); !os.IsNotExist(err) {
		t.Errorf("the abandoned one is still there: %v", err)
	}
	sweep()
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("ours was swept: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	sweep()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("ours was not swept: %v", err)
	}
}

func TestQMP(t *testing.T) {
	ours, theirs := net.Pipe()
	done := make(chan []string, 1)
	go func() {
		defer func() { _ = theirs.Close() }()
		var asked []string
		requests := json.NewDecoder(theirs)
		for _, answer := range []string{`{"return": {}}`, `{"event": "STOP"}` + "\n" + `{"return": {}}`, `{"error": {"class": "X", "desc": "no such device"}}`} {
			if len(asked) == 0 {
				_, _ = theirs.Write([]byte(`{"QMP": {"version": {}}}` + "\r\n"))
			}
			var request json.RawMessage
			if err := requests.Decode(&request); err != nil {
				break
			}
			asked = append(asked, string(request))
			_, _ = theirs.Write([]byte(answer + "\r\n"))
		}
		done <- asked
	}()
	q := newQMP(ours)
	if err := q.execute("set_link", map[string]any{"up": false}); err != nil {
		t.Error(err)
	}
	if err := q.execute("stop", nil); err == nil || !strings.Contains(err.Error(), "no such device") {
		t.Errorf("a refusal: %v", err)
	}
	if err := q.execute("cont", nil); err == nil {
		t.Error("an answer of nobody")
	}
	want := []string{`{"execute":"qmp_capabilities"}`, `{"execute":"set_link","arguments":{"up":false}}`, `{"execute":"stop"}`}
	if got := <-done; !slices.Equal(got, want) {
		t.Errorf("asked %v, want %v", got, want)
	}
}
