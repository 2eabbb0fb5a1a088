package transport_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/transport"
)

// peerEnv makes this test binary another process: a peer, which does what the JSON in the
// variable says.
const peerEnv = "RINGTEST_TRANSPORT_PEER"

// role is what a peer is to do.
type role struct {
	Device string
	Local  string
	Echo   int // notifying writes that it answers, each with one of what has come
	Lead   int // notifying writes that it makes, each of which is answered so
	Absent bool

	Example string // it is one end of this one, and nothing else
}

// contact is what two processes tell each other over a pipe.
type contact struct {
	URL    string
	Memory transport.RemoteBuffer
}

// pipe is the way to the other process.
type pipe struct {
	in  *bufio.Reader
	out io.WriteCloser
}

func (p pipe) tell(own contact) error { return json.NewEncoder(p.out).Encode(own) }

func (p pipe) hear() (other contact, err error) {
	line, err := p.in.ReadBytes('\n')
	if err != nil {
		return other, fmt.Errorf("the peer's contact: %w", err)
	}
	return other, json.Unmarshal(line, &other)
}

func (p pipe) exchange(own contact) (other contact, err error) {
	if err := p.tell(own); err != nil {
		return other, err
	}
	return p.hear()
}

const bufferSize = 64 << 10

// peerMain is a peer. It ends with its standard input.
func peerMain(text string) error {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	ctx := context.Background()
	o := transport.Options{Device: r.Device, Local: address(r.Local), Name: "the peer"}
	parent := pipe{bufio.NewReader(os.Stdin), os.Stdout}
	if r.Example != "" {
		return examples[r.Example].from(ctx, o, parent)
	}
	end, err := transport.New(o)
	if err != nil {
		return err
	}
	own := contact{}
	if own.URL, err = end.Bind(); err != nil {
		return err
	}
	buffer, err := end.Alloc(bufferSize)
	if err != nil {
		return err
	}
	own.Memory = buffer.Remote()
	other, err := parent.exchange(own)
	if err != nil {
		return err
	}
	if !r.Absent {
		if err := end.Connect(ctx, other.URL); err != nil {
			return err
		}
	}
	for range r.Echo {
		arrived := end.WaitForWrite(ctx)
		if err := arrived.Wait(ctx); err != nil {
			return err
		}
		view, err := buffer.View(0, uint64(arrived.Len()))
		if err != nil {
			return err
		}
		if err := end.Write(ctx, view, other.Memory, true).Wait(ctx); err != nil {
			return err
		}
	}
	if r.Lead > 0 {
		if err := lead(ctx, end, buffer, other.Memory, r.Lead); err != nil {
			return err
		}
	}
	if _, err := parent.in.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("expected the end of the input: %w", err)
	}
	return end.Close()
}

// lead writes to a peer that echoes.
func lead(ctx context.Context, end *transport.Transport, buffer *transport.Memory, to transport.RemoteBuffer, rounds int) error {
	sent, err := end.Alloc(bufferSize)
	if err != nil {
		return err
	}
	for round := range rounds {
		view, err := sent.View(0, uint64(1+round*bufferSize/rounds))
		if err != nil {
			return err
		}
		fill(view.Data(), round)
		arrived := end.WaitForWrite(ctx)
		if err := transport.WaitAll(ctx, end.Write(ctx, view, to, true), arrived); err != nil {
			return err
		}
		if arrived.Len() != view.Len() || !bytes.Equal(buffer.Bytes()[:view.Len()], view.Data()) {
			return fmt.Errorf("round %d: %d bytes have come back: expected the %d that went", round, arrived.Len(), view.Len())
		}
	}
	_, _ = fmt.Fprintln(os.Stdout, rounds, "rounds")
	return sent.Close()
}

// process is a peer as its parent sees it.
type process struct {
	*exec.Cmd
	pipe
	contact
}

// launch starts a peer.
func launch(r role) (*process, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	p := &process{Cmd: exec.Command(os.Args[0], "-test.run=^$")}
	p.Env, p.Stderr = append(os.Environ(), peerEnv+"="+string(text)), os.Stderr
	if p.out, err = p.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in = bufio.NewReader(out)
	return p, p.Start()
}

// start starts a peer, which waits to be told.
func start(t testing.TB, r role) *process {
	t.Helper()
	p, err := launch(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	if p.contact, err = p.hear(); err != nil {
		t.Fatal(err)
	}
	return p
}

// apart runs an example: this process is written to by another one.
func apart(example string, o transport.Options) error {
	p, err := launch(role{Device: o.Device, Local: o.Local.String(), Example: example})
	if err != nil {
		return err
	}
	err = examples[example].to(context.Background(), o, p.pipe)
	if err != nil {
		_ = p.Process.Kill()
	}
	return errors.Join(err, p.Wait())
}

// end has the peer close, and waits for it.
func (p *process) end(t testing.TB) {
	t.Helper()
	_ = p.out.Close()
	if err := p.Wait(); err != nil {
		t.Errorf("the peer: %v", err)
	}
}

// The examples, each of two processes, on each provider.
func TestExamples(t *testing.T) {
	onEach(t, func(t *testing.T, o transport.Options) {
		if err := errors.Join(apart("ping-pong", o), apart("batch", o)); err != nil {
			t.Error(err)
		}
	})
}

// beside starts a process, and returns it with an end that is connected to its, and that end's
// memory, of which the process knows.
func beside(t testing.TB, o transport.Options, r role) (*process, *transport.Transport, *transport.Memory) {
	t.Helper()
	r.Device, r.Local = o.Device, o.Local.String()
	p := start(t, r)
	own := newEnd(t, o)
	buffer := alloc(t, own, bufferSize)
	url, err := own.Bind()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.tell(contact{url, buffer.Remote()}); err != nil {
		t.Fatal(err)
	}
	if err := own.Connect(t.Context(), p.URL); err != nil {
		t.Fatal(err)
	}
	return p, own, buffer
}

// The ends are two processes: what one writes comes back from the other, on each provider.
func TestTwoProcesses(t *testing.T) {
	onEach(t, func(t *testing.T, o transport.Options) {
		const rounds = 100
		p, own, buffer := beside(t, o, role{Echo: rounds})
		if err := lead(t.Context(), own, buffer, p.Memory, rounds); err != nil {
			t.Fatal(err)
		}
		p.end(t)
		// It has said goodbye.
		err := own.WaitForWrite(t.Context()).Wait(t.Context())
		if !errors.Is(err, transport.ErrPeerClosed) || !errors.Is(err, transport.ErrRemote) || !strings.Contains(err.Error(), "the peer (") {
			t.Errorf("after the peer's goodbye: %v: expected %v of the peer", err, transport.ErrPeerClosed)
		}
	})
}

// A peer that is killed resolves all futures with its name: of writes, of reads, and of those who
// only wait for it. What has arrived before is still told.
func TestDeadPeer(t *testing.T) {
	onEach(t, func(t *testing.T, o transport.Options) {
		o.Heartbeat = 100 * time.Millisecond
		p, own, buffer := beside(t, o, role{Echo: 2})
		for range 2 {
			if err := own.Write(t.Context(), buffer.All(), p.Memory, true).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := own.WaitForWrite(t.Context()).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		waiter := own.WaitForWrite(t.Context()) // the second echo
		if err := waiter.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		waiting := []*transport.Future{own.WaitForWrite(t.Context()), own.WaitForWrite(t.Context())}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_, _ = p.Process.Wait()
		for _, f := range waiting { // nothing but heartbeats tell
			lost(t, f.Wait(t.Context()))
		}
		lost(t, own.Write(t.Context(), buffer.All(), p.Memory, false).Wait(t.Context()))
		lost(t, own.Read(t.Context(), buffer.All(), p.Memory).Wait(t.Context()))
		lost(t, own.Err())
		if own.Connected() {
			t.Error("it is still connected")
		}
	})
}

// The same with writes under way.
func TestDeadPeerAmidWrites(t *testing.T) {
	onEach(t, func(t *testing.T, o transport.Options) {
		p, own, buffer := beside(t, o, role{})
		if err := own.Write(t.Context(), buffer.All(), p.Memory, false).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_, _ = p.Process.Wait()
		var futures []*transport.Future
		for range 500 {
			futures = append(futures, own.Write(t.Context(), buffer.All(), p.Memory, true))
		}
		for _, f := range futures {
			lost(t, f.Wait(t.Context()))
		}
		if err := buffer.Close(); err != nil { // nothing holds it
			t.Error(err)
		}
	})
}

// A peer that stands still is given up after Options.Timeout, by those who write and those who wait.
func TestStoppedPeer(t *testing.T) {
	onEach(t, func(t *testing.T, o transport.Options) {
		o.Timeout, o.Heartbeat = 5*time.Second, 100*time.Millisecond // in which the peer connects, on a busy machine
		p, own, buffer := beside(t, o, role{})
		if err := own.Write(t.Context(), buffer.All(), p.Memory, false).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		waiter := own.WaitForWrite(t.Context())
		lost(t, waiter.Wait(t.Context())) // a heartbeat is not answered
		lost(t, own.Write(t.Context(), buffer.All(), p.Memory, false).Wait(t.Context()))
	})
}

func lost(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, transport.ErrPeerLost) || !errors.Is(err, transport.ErrRemote) || !strings.Contains(fmt.Sprint(err), "the peer (") {
		t.Errorf("%v: expected %v of the peer", err, transport.ErrPeerLost)
	}
}

// A peer that never connects resolves what was meant for it, with its name.
func TestAbsentPeer(t *testing.T) {
	onEach(t, func(t *testing.T, o transport.Options) {
		o.Timeout = 1500 * time.Millisecond
		p, own, buffer := beside(t, o, role{Absent: true})
		for _, f := range []*transport.Future{own.Write(t.Context(), buffer.All(), p.Memory, true), own.WaitForWrite(t.Context())} {
			err := f.Wait(t.Context())
			if !errors.Is(err, transport.ErrPeerAbsent) || !errors.Is(err, transport.ErrRemote) || !strings.Contains(err.Error(), "the peer (") {
				t.Errorf("%v: expected %v of the peer", err, transport.ErrPeerAbsent)
			}
		}
		p.end(t)
	})
}
