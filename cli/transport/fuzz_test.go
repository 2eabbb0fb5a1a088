package transport

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"testing"
	"time"

	"ringcli/ring/bootstrap/oob"
	"ringcli/verbs/memory"
	_ "ringcli/verbs/providers"
	"ringcli/verbs/transport"
)

// hung is how long nothing takes that has not come to a stand.
const hung = 20 * time.Second

// callers are a listener of connections that this process makes.
type callers chan net.Conn

func (c callers) Accept() (net.Conn, error) {
	if conn, ok := <-c; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (c callers) Close() error   { return nil }
func (c callers) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// message is what package oob sends.
type message struct {
	Version int             `json:"version"`
	Kind    string          `json:"kind"`
	Body    json.RawMessage `json:"body,omitempty"`
}

// stranger speaks as a client does.
type stranger struct {
	t *testing.T
	net.Conn
}

func (s stranger) send(kind string, body any) {
	b, err := json.Marshal(body)
	if err == nil {
		b, err = oob.Encode("transport", 0, 1, 0, 1, message{Protocol.Version, kind, b})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	_, _ = s.Write(b) // the server may have ended
}

// receive returns the next message; its kind is empty once the connection has ended.
func (s stranger) receive() (m message) {
	for {
		f, err := oob.ReadFrame(s)
		if err != nil {
			return message{}
		}
		if err := json.Unmarshal(f.Payload, &m); err != nil {
			s.t.Errorf("%q: %v", f.Payload, err)
			return message{}
		}
		if m.Kind != "alive" {
			return m
		}
	}
}

// Whatever a client without the token asks for, it gets no more than 64 MiB, the server soon has
// time for the next one, and keeps no memory.
func FuzzServe(f *testing.F) {
	loop := transport.NewLoop()
	device, err := transport.New(transport.Options{Device: "shm", Loop: loop})
	if err != nil {
		f.Fatal(err)
	}
	url, err := device.Bind()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := errors.Join(device.Close(), loop.Close()); err != nil {
			f.Error(err)
		}
	})
	remote := transport.RemoteBuffer{}.String()
	const asks, echoes, settles, stops, other = 0, 1, 2, 3, 4
	for _, seed := range [][]byte{{}, {asks}, {asks, asks}, {echoes}, {asks, echoes, stops}, {asks, settles, stops}, {settles}, {stops, stops}, {other}, {asks, echoes, echoes, settles}} {
		for _, bytes := range []uint64{0, 1, pageSize, strangersMemory + 1, 1 << 63} {
			f.Add("", seed, bytes, bytes, remote)
		}
	}
	f.Add(url+"x", []byte{asks}, uint64(1), uint64(1), remote)
	f.Add("shm://", []byte{asks, echoes}, uint64(8), uint64(1<<40), "0x10@1.2.3.4")
	f.Fuzz(func(t *testing.T, peer string, kinds []byte, bytes, part uint64, to string) {
		if peer == "" {
			peer = url
		}
		if bytes <= strangersMemory {
			bytes %= 1 << 20 // to touch more takes long
		}
		before := memory.Live.Load()
		v := &server{settings: settings{Device: "shm", Timeout: hung}}
		over := make(chan struct{})
		s := oob.Server{Protocol: Protocol, Hello: oob.Hello{Name: "server:1"}, Timeout: 2 * hung, Refused: func(net.Addr, error) {}, Handle: func(c *oob.Conn) error {
			return v.serve(c, &ServedResult{})
		}}
		conns := make(callers, 1)
		go func() {
			_ = s.Serve(context.Background(), conns) // it ends with its callers
			close(over)
		}()
		near, far := net.Pipe()
		_ = far.SetDeadline(time.Now().Add(hung))
		conns <- near
		c := stranger{t, far}
		c.send("hello", oob.Hello{Name: "client:2", Purpose: purposeBench})
		if m := c.receive(); m.Kind != "welcome" {
			t.Fatalf("it says %q", m.Kind)
		}
		close(conns)
		c.send(kindOpen, opening{URL: peer})
		alive := c.receive().Kind == kindOpened
		for _, kind := range kinds[:min(len(kinds), 8)] {
			if !alive {
				break
			}
			switch kind % 5 {
			case asks:
				c.send(kindMemory, memoryAsked{bytes})
			case echoes:
				c.send(kindEcho, map[string]any{"bytes": part, "to": to})
			case settles:
				c.send(kindSettle, memoryAsked{part})
			case stops:
				c.send(kindStop, nil)
			default:
				c.send(to, peer)
			}
			m := c.receive()
			if alive = m.Kind != "" && m.Kind != "failed" && m.Kind != "bye"; alive && kind%5 == asks && bytes > strangersMemory {
				t.Errorf("%d bytes are given: %s", bytes, m.Body)
			}
		}
		_ = far.Close()
		select {
		case <-over:
		case <-time.After(hung):
			t.Fatal("the server has not ended")
		}
		if left := memory.Live.Load() - before; left != 0 {
			t.Errorf("%d bytes of memory are left", left)
		}
	})
}
