package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/oob"
	"ringcli/ring/bootstrap/seal"
	"ringcli/ring/bootstrap/verdict"
)

// Whatever a stranger says to a rank, as a caller or where a neighbour should answer, it
// ends, breaks nothing and is not taken for a neighbour.
func FuzzHandshake(f *testing.F) {
	nodes := freshNodes(f, 2)
	var ranks []*Control
	for _, secret := range []string{"", oneSecret} {
		cfg := configFor(f, nodes, len(ranks))
		if secret != "" {
			cfg.Token = token(f, secret)
		}
		c, err := Open(f.Context(), cfg)
		if err != nil {
			f.Fatal(err)
		}
		f.Cleanup(func() { _ = c.Close() })
		ranks = append(ranks, c)
	}
	frame := func(t oob.Type, payload any) []byte {
		b, err := oob.Encode(t, 0, 0, 1, 0, payload)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	nonce, mac := make([]byte, 32), make([]byte, 32)
	for _, seed := range [][]byte{
		frame(TypeHello, hello{Size: 2, Digest: "x", List: []string{"a:1", "b:1"}}),
		frame(TypeProbe, probe{Digest: "x", Instance: "y"}), frame(TypeProbe, nil),
		append(frame(oob.TypeKnock, oob.Secret{For: TypeHello, Nonce: nonce}), frame(oob.TypeProof, oob.Secret{MAC: mac})...),
		append(frame(oob.TypeChallenge, oob.Secret{Nonce: nonce}), frame(oob.TypeProof, oob.Secret{MAC: mac})...),
		frame(TypeWelcome, identity{Instance: "z"}), frame(TypeState, status{Same: true}),
		frame(TypeReject, rejection{Token: oob.TokenNeeded}), frame(TypeReject, rejection{Retry: true}),
		[]byte(pingpong), []byte("GET / HTTP/1.0\r\n\r\n"), nil,
	} {
		for mode := range byte(4) {
			f.Add(mode, seed)
		}
	}
	f.Fuzz(func(t *testing.T, mode byte, said []byte) {
		c := ranks[mode&1]
		near, far := net.Pipe()
		_ = far.SetDeadline(time.Now().Add(10 * time.Second))
		heard := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, far)
			close(heard)
		}()
		go func() {
			_, _ = far.Write(said)
			_ = far.Close()
		}()
		if mode&2 == 0 {
			c.greeter.greet(near)
		} else {
			asked, answer, err := c.prober.ask(c.life.ctx, near, TypeHello, 1-c.own.rank, c.own.rank, c.own.hello())
			if _, ok := asked.(*seal.Conn); ok && err == nil {
				t.Errorf("%q passed for a neighbour that has the token: %+v", said, answer)
			}
			_ = near.Close()
		}
		<-heard
		if l := c.neighbours.at(left); l != nil && c.own.cfg.Token != nil || c.Failed() {
			t.Errorf("%q is a neighbour, or has failed the ring: %v", said, c.Failure())
		}
	})
}

// quietNet is a network in which nobody calls, and nobody answers.
type quietNet struct{ closed chan struct{} }

func (q quietNet) Accept() (net.Conn, error) { <-q.closed; return nil, net.ErrClosed }
func (q quietNet) Close() error              { close(q.closed); return nil }
func (q quietNet) Addr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// Whatever a neighbour says once it is one, it ends its connection or fails the ring with a
// verdict; nothing breaks, what waits is bounded, and the Control ends at once.
func FuzzNeighbour(f *testing.F) {
	nodes := []hosts.Node{{Host: "127.0.0.1", Port: 1}, {Host: "127.0.0.1", Port: 2}, {Host: "127.0.0.1", Port: 3}}
	for side := range 2 {
		var stream []byte
		add := func(t oob.Type, payload any) {
			b, err := oob.Encode(t, 7, 2*side, 1, side, payload)
			if err != nil {
				f.Fatal(err)
			}
			stream = append(stream, b...)
			for mode := range byte(4) { // alone, and after all others
				f.Add(mode&2|byte(side), b)
				f.Add(mode&2|byte(side), bytes.Clone(stream))
			}
		}
		add(TypeInfo, information{Members: make([]identity, 3), Value: json.RawMessage(`{"a":1}`)})
		add(TypeHeartbeat, nil)
		add(TypeHeartbeat, attempts{})
		add(TypeParts, parts{Op: 1, Kind: "gather", Origins: []int{2 * side}, Data: []string{"eA=="}})
		add(TypeParts, parts{Op: maxAhead, Kind: "gather", Origins: []int{2}, Data: []string{""}})
		add(TypeAsk, question{ID: 1, Kind: "echo", Within: time.Second, Payload: json.RawMessage(`"x"`)})
		add(TypeAsk, question{ID: 1, Kind: "echo", Within: -1})
		add(TypeAsk, question{ID: 2, Clock: &reading{T1: 1}})
		add(TypeAnswer, reply{ID: 1, Payload: json.RawMessage(`5`)})
		add(TypeAnswer, reply{ID: 1, Clock: &reading{T2: -1 << 63}})
		add(TypeCancel, reply{ID: 2})
		add(TypeSighting, verdict.Sighting{By: 2, About: 1, Seq: 1 << 63, Silent: time.Hour, Due: true})
		add(TypeSighting, verdict.Sighting{By: 0, About: 2, Seq: 3, Ended: "x", Fault: &Verdict{Rank: -9}, Call: verdict.CallRefused})
		add(TypeGoodbye, nil)
		add(TypeReject, rejection{Verdict: Verdict{Kind: KindMismatch, Rank: 1 << 40}})
		add(TypeVerdict, Verdict{Kind: "?", Rank: -1 << 40, Edge: Direction{From: -5, To: 99, Both: true}, Text: "x"})
		add(TypeParts, parts{Op: 1 << 63, Kind: "gather", Origins: []int{0}, Data: []string{""}})
		add("?", nil)
	}
	f.Fuzz(func(t *testing.T, mode byte, said []byte) {
		addrs := []netip.AddrPort{addrOf(nodes[0]), addrOf(nodes[1]), addrOf(nodes[2])}
		quiet := quietNet{make(chan struct{})}
		c, err := Open(t.Context(), Config{
			List: nodes, Rank: 1, Addrs: addrs, Bind: addrs[1], Answer: answerEcho(1),
			Listen: func(context.Context, string, string) (net.Listener, error) { return quiet, nil },
			Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, errors.New("nobody is there")
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		near, far := net.Pipe()
		other, beyond := net.Pipe()
		var running sync.WaitGroup
		for _, end := range []net.Conn{far, beyond} {
			_ = end.SetDeadline(time.Now().Add(time.Minute))
			running.Go(func() { _, _ = io.Copy(io.Discard, end) })
		}
		side := int(mode & 1)
		c.neighbours.mu.Lock()
		c.neighbours.add(side, near, identity{Instance: "x", Host: "far", PID: 5})
		if mode&2 != 0 { // the ring is up
			c.neighbours.add(1-side, other, identity{Instance: "y", Host: "beyond", PID: 6})
			for _, l := range c.neighbours.all() {
				l.use()
			}
			c.outcome.seal()
			c.epochs.ring.Store(7)
		}
		c.neighbours.mu.Unlock()
		l := c.neighbours.at(side)
		_, _ = far.Write(said)
		_ = far.Close()
		select {
		case <-l.over:
		case <-time.After(20 * time.Millisecond): // it waits for this rank to catch up
		}
		c.gathers.mu.Lock()
		ops := len(c.gathers.ops)
		c.gathers.mu.Unlock()
		c.asks.mu.Lock()
		serving := len(c.asks.serving)
		c.asks.mu.Unlock()
		if v := c.Failure(); v != nil {
			_ = v.Error()
		}
		if ops > maxAhead || serving > maxServing {
			t.Errorf("%d operations and %d questions wait", ops, serving)
		}
		_ = beyond.Close()
		_ = other.Close()
		begun := time.Now()
		_ = c.Close()
		running.Wait()
		if took := time.Since(begun); took > 30*time.Second { // and not only when the other end gives up
			t.Errorf("it ended after %s", took)
		}
	})
}

// FuzzFrame feeds the payloads of frames to whoever decodes them.
func FuzzFrame(f *testing.F) {
	for _, seed := range []string{`{"instance":"a","size":2,"digest":"x","list":["a:1"]}`, `{"op":1,"kind":"gather","origin":0,"data":"AAAA"}`, `{"kind":"lost","rank":-9}`,
		`{"id":3,"kind":"end","within_ns":-1,"payload":{"a":[1]}}`, `{"id":3,"clock":{"t1_ns":1,"t2_ns":-9223372036854775808}}`, `[]`, `{`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		frame := &oob.Frame{Payload: payload}
		if h, err := oob.Decode[hello](frame); err == nil {
			_ = h.String()
		}
		if v, err := oob.Decode[rejection](frame); err == nil {
			_ = v.Error()
		}
		_, _ = oob.Decode[status](frame)
		if r, err := oob.Decode[reply](frame); err == nil && r.Clock != nil {
			_, _, _ = r.Clock.offset()
		}
		if q, err := oob.Decode[question](frame); err == nil && len(q.Payload) > len(payload) {
			t.Fatalf("%d bytes from %d", len(q.Payload), len(payload))
		}
		if p, err := oob.Decode[parts](frame); err == nil && len(strings.Join(p.Data, "")) > len(payload) {
			t.Fatalf("%d parts of %d bytes from %d", len(p.Data), len(strings.Join(p.Data, "")), len(payload))
		}
	})
}
