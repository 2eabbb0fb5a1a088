package talk

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/configs/codes"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/lobby"
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
func FuzzTalk(f *testing.F) {
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
			if err := send(to, kind, body, hung); err != nil {
				f.Fatal(err)
			}
			add(to.said)
		}
	}
	nonce := make([]byte, 32)
	say(kindHello, Hello{"far:1", "test"})
	say(kindWelcome, Hello{"far:1", "test"})
	say(kindAlive, nil)
	say("count", Hello{"x", "y"})
	say(kindBye, nil)
	say(kindFailed, failure{"it has failed", codes.Permission, true})
	say(kindFailed, 5)
	say(kindFailed, nil)
	say(kindBusy, "another")
	say(kindBusy, nil)
	say(kindKnock, nonce)
	for _, kinds := range [][2]string{{kindKnock, kindProof}, {kindChallenge, kindProof}} {
		var both recorder
		for _, kind := range kinds {
			if err := send(&both, kind, map[string]any{"bytes": nonce}, hung); err != nil {
				f.Fatal(err)
			}
		}
		add(both.said)
	}
	for _, payload := range []any{nil, 5, message{Version: Version + 1, Kind: kindHello}} {
		b, err := bootstrap.Encode(frameType, 0, client, server, client, payload)
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
				conn, err = unlock(far, own)
			default:
				var m message
				if m, err = receive(far, bootstrap.ReadGreeting); err == nil {
					conn, _, err = admit(far, own, m)
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
				_, read, err := c.Next()
				if err != nil {
					_ = err.Error()
					return err
				}
				var into Hello
				_ = read(&into)
			}
		}
		if mode&dials == 0 {
			s := Server{Name: "server:1", Token: own, Timeout: hung, Handle: talk, Refused: func(_ net.Addr, err error) { _ = err.Error() }}
			var waiting lobby.Lobby
			waiting.Enter(near)
			s.meet(context.Background(), &waiting, near)
		} else {
			d := Dialler{Address: "server:1", Token: own, Timeout: hung, Hello: Hello{"client:2", "test"}}
			if conn, who, err := d.introduce(near); err == nil {
				c := start(context.Background(), conn, who, hung)
				_ = talk(c)
				c.Close()
			} else {
				_ = err.Error()
				_ = near.Close()
			}
		}
		peer.Wait()
	})
}
