//go:build linux

package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringcli/verbs/ibv/racktest/rack/wire"
)

// limit is for one frame of an agent on this machine.
const limit = 20 * time.Second

// host is the other end of an agent's port, here without a machine between them.
type host struct {
	t    *testing.T
	conn net.Conn
	w    *wire.Writer
	out  map[uint32]*bytes.Buffer // standard output and error, by command
}

func newHost(t *testing.T) *host {
	ours, port := net.Pipe()
	served := make(chan error)
	go func() { served <- newAgent(port).serve() }()
	t.Cleanup(func() {
		_ = ours.Close()
		if err := <-served; !errors.Is(err, io.EOF) {
			t.Errorf("the agent ended with %v", err)
		}
		goleak.VerifyNone(t)
	})
	if err := ours.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	return &host{t, ours, wire.NewWriter(ours), map[uint32]*bytes.Buffer{}}
}

func (h *host) send(f wire.Frame) {
	h.t.Helper()
	if err := h.w.Write(f); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) start(id uint32, args ...string) {
	h.t.Helper()
	h.send(wire.JSON(wire.Start, id, wire.Command{Args: args, Env: []string{"A=b c"}, Dir: "/usr"}))
}

// until reads frames until yes.
func (h *host) until(yes func(f wire.Frame) bool) {
	h.t.Helper()
	for {
		f, err := wire.Read(h.conn)
		if err != nil {
			h.t.Fatal(err)
		}
		if f.Kind != wire.Exit {
			if h.out[f.ID] == nil {
				h.out[f.ID] = &bytes.Buffer{}
			}
			h.out[f.ID].WriteString(f.Kind.String() + ":")
			h.out[f.ID].Write(f.Data)
		}
		if yes(f) {
			return
		}
	}
}

// exit waits for a command's outcome and returns it with all it has said.
func (h *host) exit(id uint32) (wire.Outcome, string) {
	h.t.Helper()
	var o wire.Outcome
	h.until(func(f wire.Frame) bool {
		if f.ID != id || f.Kind != wire.Exit {
			return false
		}
		if err := f.Into(&o); err != nil {
			h.t.Fatal(err)
		}
		return true
	})
	if h.out[id] == nil {
		return o, ""
	}
	return o, h.out[id].String()
}

func TestAgentRuns(t *testing.T) {
	h := newHost(t)
	h.start(1, "sh", "-c", `cat; echo "$A $PWD" >&2; exit 5`)
	h.send(wire.Frame{Kind: wire.Stdin, ID: 1, Data: []byte("in")})
	h.send(wire.Frame{Kind: wire.Stdin, ID: 1})
	// The streams are two: nothing orders what comes on the one and on the other.
	const in, env = "stdout:in", "stderr:b c /usr\n"
	if o, out := h.exit(1); o != (wire.Outcome{Code: 5}) || out != in+env && out != env+in {
		t.Errorf("%+v, %q", o, out)
	}
}

func TestAgentCannotRun(t *testing.T) {
	h := newHost(t)
	h.start(1, "no-such-command")
	if o, _ := h.exit(1); o.Code != -1 || !strings.Contains(o.Error, "no-such-command") {
		t.Errorf("%+v", o)
	}
}

// A signal reaches the whole group, and only that command's.
func TestAgentSignals(t *testing.T) {
	h := newHost(t)
	for id := range uint32(2) {
		h.start(id+1, "sh", "-c", "sleep 1000 | sleep 1000 & echo ready; wait")
	}
	ready := 0
	h.until(func(f wire.Frame) bool { ready++; return ready == 2 })
	h.send(wire.Frame{Kind: wire.Signal, ID: 2, Data: []byte{byte(syscall.SIGTERM)}})
	if o, _ := h.exit(2); o.Signal != int(syscall.SIGTERM) {
		t.Errorf("%+v", o)
	}
	h.send(wire.Frame{Kind: wire.Signal, ID: 2, Data: []byte{9}}) // too late, and nobody's
	h.send(wire.Frame{Kind: wire.Signal, ID: 1, Data: []byte{byte(syscall.SIGKILL)}})
	if o, _ := h.exit(1); o.Signal != int(syscall.SIGKILL) {
		t.Errorf("%+v", o)
	}
}

// What a command leaves running in its group ends with it, and holds nothing up.
func TestAgentEndsWhatIsLeft(t *testing.T) {
	h := newHost(t)
	h.start(1, "sh", "-c", "sleep 1000 & echo $!")
	o, out := h.exit(1)
	if o != (wire.Outcome{}) {
		t.Errorf("%+v", o)
	}
	pid := strings.TrimSuffix(strings.TrimPrefix(out, "stdout:"), "\n")
	// An orphan that has been killed may stay a zombie until init looks after it.
	h.start(2, "sh", "-c", `while grep -q '^State:.[RSD]' /proc/$0/status; do sleep 0.01; done`, pid)
	if o, out := h.exit(2); pid == "" || o.Code != 0 {
		t.Errorf("process %q is still there: %+v, %q", pid, o, out)
	}
}

func TestAgentRefuses(t *testing.T) {
	for name, f := range map[string]wire.Frame{
		"a frame that is not for a guest": {Kind: wire.Exit},
		"a command without a name":        wire.JSON(wire.Start, 1, wire.Command{}),
		"no JSON":                         {Kind: wire.Start, Data: []byte("x")},
	} {
		if err := newAgent(&bytes.Buffer{}).handle(f); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
