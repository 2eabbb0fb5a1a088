package talk

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/seal"
)

// The messages of the handshake.
const (
	kindKnock     = "knock"
	kindChallenge = "challenge"
	kindProof     = "proof"
)

// secret is what these messages say: a nonce of 32 bytes, or a proof.
type secret struct {
	Bytes []byte `json:"bytes"`
}

const sameToken = "give both ends the same --token-file or RINGCLI_TOKEN"

func handshake() *seal.Handshake {
	return &seal.Handshake{Version: Version, Purpose: string(frameType), Sender: client, Receiver: server, Edge: client}
}

// unlock has the server prove that it has the token, once the client has. Without a token it
// does nothing.
func unlock(conn net.Conn, t *seal.Token) (net.Conn, error) {
	if t == nil {
		return conn, nil
	}
	s := handshake()
	_, _ = rand.Read(s.Dialler[:]) // never fails
	asked, err := exchange(conn, kindKnock, s.Dialler[:], kindChallenge)
	if err != nil {
		return nil, err
	}
	if copy(s.Listener[:], asked) < len(s.Listener) {
		return nil, errors.New("its challenge is shorter than 32 bytes")
	}
	shown, err := exchange(conn, kindProof, t.Proof(s, seal.Dialler), kindProof)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(shown, t.Proof(s, seal.Listener)) != 1 {
		return nil, usage.Codedf(codes.Token, "the server has another token than this end: %s", sameToken)
	}
	return t.Seal(conn, s, seal.Dialler, seal.Listener)
}

// exchange sends one of these messages and returns what the answer says.
func exchange(conn net.Conn, kind string, b []byte, expected string) ([]byte, error) {
	if err := send(conn, kind, secret{b}, grace); err != nil {
		return nil, err
	}
	m, err := receive(conn, bootstrap.ReadGreeting)
	if err != nil {
		return nil, err
	}
	return told(conn, m, expected)
}

// told is what one of these messages says.
func told(conn net.Conn, m message, expected string) ([]byte, error) {
	if m.Kind == kindFailed {
		return nil, failedAt(conn.RemoteAddr().String(), m)
	}
	if m.Kind != expected {
		return nil, fmt.Errorf("it sends %q, expected %q", m.Kind, expected)
	}
	var s secret
	err := json.Unmarshal(m.Body, &s)
	return s.Bytes, err
}

// admit has a caller, whose first message this is, prove that it has the token, where this
// end has one, and returns the connection with the message that it came for. The error is
// what the caller is told.
func admit(conn net.Conn, t *seal.Token, m message) (net.Conn, message, error) {
	switch knocks := m.Kind == kindKnock; {
	case t == nil && !knocks:
		return conn, m, nil
	case t == nil:
		return conn, m, usage.Codedf(codes.Token, "the server has no token and the client one: %s", sameToken)
	case !knocks:
		return conn, m, usage.Codedf(codes.Token, "the server has a token and the client none: %s", sameToken)
	}
	s := handshake()
	nonce, err := told(conn, m, kindKnock)
	if err != nil || copy(s.Dialler[:], nonce) < len(s.Dialler) {
		return conn, m, errors.New("the client's knock is without 32 bytes")
	}
	_, _ = rand.Read(s.Listener[:]) // never fails
	shown, err := exchange(conn, kindChallenge, s.Listener[:], kindProof)
	if err != nil {
		return conn, m, err
	}
	if subtle.ConstantTimeCompare(shown, t.Proof(s, seal.Dialler)) != 1 {
		return conn, m, usage.Codedf(codes.Token, "the server has another token than the client: %s", sameToken)
	}
	if err := send(conn, kindProof, secret{t.Proof(s, seal.Listener)}, grace); err != nil {
		return conn, m, err
	}
	sealed, err := t.Seal(conn, s, seal.Listener, seal.Dialler)
	if err != nil {
		return conn, m, err
	}
	m, err = receive(sealed, bootstrap.ReadGreeting)
	return sealed, m, err
}

// unsealed is the connection below.
func unsealed(conn net.Conn) net.Conn {
	if s, ok := conn.(*seal.Conn); ok {
		return s.Conn
	}
	return conn
}
