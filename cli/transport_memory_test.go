package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/procfs"
	transporting "ringcli/cli/transport"
	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/oob"
	"ringcli/ring/bootstrap/seal"
	"ringcli/verbs/transport"
	"ringcli/verbs/verbstest"
)

// memoryOf is a field of a process' status, such as VmRSS, in bytes.
func memoryOf(t *testing.T, pid int, field string) (bytes int) {
	t.Helper()
	if _, err := fmt.Sscan(procfs.Field(os.DirFS("/proc"), fmt.Sprintf("%d/status", pid), field), &bytes); err != nil {
		t.Fatalf("%s of process %d: %v", field, pid, err)
	}
	return bytes << 10
}

// asker is a client of `transport serve` that asks for memory and does nothing else.
type asker struct {
	caller    oob.Caller
	address   string
	transport transport.Options
	cut       func() // ends the connection as the kernel does that of a process which is killed
}

func newAsker(t *testing.T, v *serving, device, secret string) (*asker, error) {
	address, cut := forward(t, v.host)
	a := &asker{
		oob.Caller{Protocol: transporting.Protocol, Timeout: hung, Hello: oob.Hello{Name: "asker:1", Purpose: "bench"}}, address,
		transport.Options{Device: device, Timeout: hung}, cut,
	}
	if device == "soft:lo" {
		a.transport.Local = netip.MustParseAddr("127.0.0.1")
	}
	var err error
	if secret != "" {
		a.caller.Token, err = seal.New([]byte(secret))
	}
	return a, err
}

// forward listens for connections, and passes on what one end sends to the other, until cut ends
// the latest of them.
func forward(t *testing.T, to string) (address string, cut func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var mu sync.Mutex
	var near, far net.Conn
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			mu.Lock()
			near, far = in, out
			mu.Unlock()
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					_ = way[0].(*net.TCPConn).CloseWrite()
				}()
			}
		}
	}()
	return listener.Addr().String(), func() {
		mu.Lock()
		defer mu.Unlock()
		_, _ = near.Close(), far.Close()
	}
}

// ask asks for memory, with or without waiting for it, and leaves: by a goodbye, or as a process
// does that is killed.
func (a *asker) ask(ctx context.Context, bytes uint64, wait, goodbye bool) (err error) {
	var c *oob.Conn
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if c, err = a.caller.Call(ctx, netip.Addr{}, a.address, func() func() { return func() {} }); err == nil {
			break
		}
		if code, _ := codes.Of(err); code != codes.Busy || time.Since(begun) > hung {
			return err
		}
	}
	defer c.Close()
	if !goodbye {
		defer a.cut()
	}
	t, err := transport.New(a.transport)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	own, err := t.Bind()
	if err != nil {
		return err
	}
	var server struct {
		URL string `json:"url"`
	}
	if err := errors.Join(c.Send("open", map[string]string{"url": own}), c.Receive(ctx, "opened", &server)); err != nil {
		return err
	}
	if err := errors.Join(t.Connect(ctx, server.URL), c.Send("memory", map[string]uint64{"bytes": bytes})); err != nil || !wait {
		return err
	}
	return c.Receive(ctx, "memory", nil)
}

// Clients that ask for memory and leave, in whatever way, cost a server without a token at most 64
// MiB, one with a token what they ask for, and neither keeps any of it. The next client is served.
func TestTransportServeGivesMemoryBack(t *testing.T) {
	verbstest.Long(t)
	const (
		secret = "0123456789abcdef"
		mib    = 1 << 20
		// heap is what a server takes for itself, and its Go runtime keeps for a while.
		heap = 64 * mib
	)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		device, secret, flags string
		clients               int
		bytes, most           uint64 // that is asked for, and that the server gives
	}{
		{"soft:lo", "", "", 100, 64 * mib, 64 * mib},
		{"shm", secret, " --token-file " + token, 10, 256 * mib, 4 << 30},
	} {
		v, _ := served(t, "--device "+c.device+c.flags)
		a, err := newAsker(t, v, c.device, c.secret)
		if err != nil {
			t.Fatal(err)
		}
		start := memoryOf(t, v.Process.Pid, "VmRSS")
		for i := range c.clients {
			bytes := c.bytes
			if i >= 20 {
				bytes /= 16 // to touch the pages of all takes long
			}
			switch i % 5 {
			case 0: // as far as it gets
				err = a.ask(t.Context(), bytes, false, false)
			case 1:
				err = a.ask(t.Context(), bytes, false, true)
			case 2:
				err = a.ask(t.Context(), bytes, true, false)
			case 3:
				err = a.ask(t.Context(), bytes, true, true)
			case 4:
				err = a.ask(t.Context(), c.most+1, true, true)
				if !usage.Is(err) || !strings.Contains(err.Error(), "--end") || (c.secret == "") != strings.Contains(err.Error(), "--token-file") {
					t.Errorf("%s, token %q, client %d: %v", c.device, c.secret, i, err)
				}
				err = nil
			}
			if err != nil {
				t.Fatalf("%s, token %q, client %d: %v", c.device, c.secret, i, err)
			}
		}
		bench := "transport bench -b 8K -e 8K --benchmark_filter=_Write --benchmark_min_time 2x --device " + c.device + c.flags + " " + v.host
		if code, _, stderr := whenFree(t, words(bench)...); code != exit.OK {
			t.Errorf("%s, token %q: the next client: exit code %d: %s", c.device, c.secret, code, stderr)
		}
		end := memoryOf(t, v.Process.Pid, "VmRSS")
		for begun := time.Now(); end > start+heap && time.Since(begun) < hung; time.Sleep(10 * time.Millisecond) {
			end = memoryOf(t, v.Process.Pid, "VmRSS")
		}
		peak := memoryOf(t, v.Process.Pid, "VmHWM")
		t.Logf("%s, token %q: %d clients that ask for %d MiB: the server has %d MiB at the start, %d at most, %d at the end",
			c.device, c.secret, c.clients, c.bytes/mib, start/mib, peak/mib, end/mib)
		if most := int(c.bytes) + heap; peak > start+most {
			t.Errorf("%s, token %q: %d bytes at most: expected %d above the %d of the start", c.device, c.secret, peak, most, start)
		}
		if end > start+heap {
			t.Errorf("%s, token %q: %d bytes are left: expected %d above the %d of the start", c.device, c.secret, end, heap, start)
		}
		v.stop(t)
	}
}
