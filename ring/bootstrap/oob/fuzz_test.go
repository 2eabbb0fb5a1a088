package oob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/configs/codes"
	"ringcli/ring/bootstrap/seal"
)

// recorder keeps what is sent.
type recorder struct {
	net.Conn
	said []byte
}

func (r *recorder) SetWriteDeadline(time.Time) error { return nil }
func (r *recorder) Write(b []byte) (int, error) {
	r.said = append(r.said, b...)
	return len(b), nil
}

// Whatever a stranger says to a server, or where a client expects one, it ends, breaks nothing
// and passes for no end that has the token; nor does what an end says that has it break
// anything.
func FuzzConn(f *testing.F) {
	secret, err := seal.New([]byte(strings.Repeat("s", 16)))
	if err != nil {
		f.Fatal(err)
	}
	const tokens, dials, honest = 1, 2, 4 // the end has a token; it is the client; its peer shows the token
	var all recorder
	add := func(said []byte) {
		for mode := range byte(8) {
			f.Add(mode, said)
		}
	}
	say := func(kind string, body any) {
		var one recorder
		for _, to := range []*recorder{&one, &all} { // alone, and after all others
			if err := protocol.send(to, kind, body, hung); err != nil {
				f.Fatal(err)
			}
			add(to.said)
		}
	}
	nonce := make([]byte, 32)
	say(kindHello, Hello{Name: "far:1", Purpose: "test"})
	say(kindWelcome, Hello{Name: "far:1", Purpose: "test"})
	say(kindAlive, nil)
	say("count", Hello{Name: "x", Purpose: "y"})
	say(kindBye, nil)
	say(kindFailed, failure{"it has failed", codes.Permission, true})
	say(kindFailed, failure{"busy", codes.Busy, true})
	say(kindFailed, 5)
	say(kindFailed, nil)
	call := Call{protocol.Type, client, server, client}
	for _, kinds := range [][2]Type{{TypeKnock, TypeProof}, {TypeChallenge, TypeProof}} {
		var both recorder
		for _, kind := range kinds {
			if err := call.Write(&both, kind, Secret{For: protocol.Type, Nonce: nonce, MAC: nonce}); err != nil {
				f.Fatal(err)
			}
			add(both.said)
		}
	}
	for _, payload := range []any{nil, 5, message{Version: protocol.Version + 1, Kind: kindHello}} {
		b, err := Encode(protocol.Type, 0, client, server, client, payload)
		if err != nil {
			f.Fatal(err)
		}
		add(b)
	}
	add([]byte("GET / HTTP/1.0\r\n\r\n"))
	add(nil)
	f.Fuzz(func(t *testing.T, mode byte, said []byte) {
		var own *seal.Token
		if mode&tokens != 0 {
			own = secret
		}
		near, far := net.Pipe()
		_ = far.SetDeadline(time.Now().Add(hung))
		var peer sync.WaitGroup
		peer.Go(func() {
			conn := far
			var err error
			switch {
			case mode&honest == 0:
			case mode&dials == 0:
				conn, err = Unlock(far, own, call, func(_ Type, f *Frame) error { return errors.New(string(f.Payload)) })
			default:
				var first *Frame
				if first, err = ReadGreeting(far); err == nil {
					conn, _, err = Admit(far, own, first)
				}
			}
			if err != nil {
				t.Errorf("the token is not taken: %v", err)
				_ = far.Close()
				return
			}
			peer.Go(func() { _, _ = io.Copy(io.Discard, conn) })
			_, _ = conn.Write(said)
			_ = far.Close()
		})
		talk := func(c *Conn) error {
			if own != nil && mode&honest == 0 {
				t.Errorf("%q passed for an end that has the token: %+v", said, c.Peer)
			}
			for {
				_, read, err := c.Next(c.Context())
				if err != nil {
					_ = err.Error()
					return err
				}
				var into Hello
				_ = read(&into)
			}
		}
		if mode&dials == 0 {
			s := Server{Protocol: protocol, Hello: Hello{Name: "server:1"}, Token: own, Timeout: hung}
			if c, _, err := s.accept(context.Background(), nil, near); c != nil {
				_ = talk(c)
				c.Close()
			} else {
				_ = fmt.Sprint(err)
				_ = near.Close()
			}
		} else {
			d := Caller{Protocol: protocol, Token: own, Timeout: hung, Hello: Hello{Name: "client:2", Purpose: "test"}}
			if c, err := d.Join(context.Background(), context.Background(), near, "server:1"); err == nil {
				_ = talk(c)
				c.Close()
			} else {
				_ = err.Error()
			}
		}
		peer.Wait()
	})
}
