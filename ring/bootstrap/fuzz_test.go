package bootstrap

import (
	"io"
	"net"
	"testing"
	"time"
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
	frame := func(t Type, payload any) []byte {
		b, err := Encode(t, 0, 0, 1, 0, payload)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	nonce, mac := make([]byte, 32), make([]byte, 32)
	for _, seed := range [][]byte{
		frame(TypeHello, hello{Size: 2, Digest: "x", List: []string{"a:1", "b:1"}}),
		frame(TypeProbe, probe{Digest: "x", Instance: "y"}), frame(TypeProbe, nil),
		append(frame(TypeKnock, knock{TypeHello, nonce}), frame(TypeProof, proof{mac})...),
		append(frame(TypeChallenge, challenge{nonce}), frame(TypeProof, proof{mac})...),
		frame(TypeWelcome, identity{Instance: "z"}), frame(TypeState, status{Same: true}),
		frame(TypeReject, rejection{Token: tokenNeeded}), frame(TypeReject, rejection{Retry: true}),
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
			c.greet(near)
		} else {
			asked, answer, err := c.ask(c.life, near, TypeHello, 1-c.rank, c.rank, c.hello())
			if _, ok := asked.(*sealed); ok && err == nil {
				t.Errorf("%q passed for a neighbour that has the token: %+v", said, answer)
			}
			_ = near.Close()
		}
		<-heard
		c.mu.Lock()
		defer c.mu.Unlock()
		if l := c.connections[left]; l != nil && c.cfg.Token != nil || c.failure != nil {
			t.Errorf("%q is a neighbour, or has failed the ring: %v", said, c.failure)
		}
	})
}
