package oob

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/seal"
)

// The handshake of two ends that have a token, before anything else is said:
//
//	dialler                             listener
//	   │ ── knock (nonce, what for) ────▶ │
//	   │ ◀─ challenge (nonce) ─────────── │
//	   │ ── proof ──────────────────────▶ │  or a refusal: wrong token
//	   │ ◀─ proof ─────────────────────── │
//	   │ ◀═ sealed from here on ════════▶ │
//
// The proofs are HMAC-SHA256 under the token over role, purpose, ranks, edge,
// version and both nonces; the keys of the two directions come from the same by HKDF. The
// dialler proves first, so that a stranger gets nothing to try guesses on; who answers in
// the place of a rank does.
const (
	TypeKnock     Type = "knock"
	TypeChallenge Type = "challenge"
	TypeProof     Type = "proof"
)

// Secret is the payload of these frames: what a knock is for, a nonce of 32 bytes, or a proof.
type Secret struct {
	For   Type   `json:"for,omitempty"`
	Nonce []byte `json:"nonce,omitempty"`
	MAC   []byte `json:"mac,omitempty"`
}

// TokenTrouble is why a handshake came to nothing, as the refused end is told.
type TokenTrouble string

// The troubles, as the dialler has them.
const (
	TokenNeeded TokenTrouble = "needed" // the listener has one, the dialler gave none
	TokenNone   TokenTrouble = "none"   // the other way round
	TokenWrong  TokenTrouble = "wrong"
)

func (t TokenTrouble) Error() string { return "token: " + string(t) }

// Told says it in words, of the listener and the dialler, and what to do.
func (t TokenTrouble) Told(listener, dialler, fix string) error {
	format := map[TokenTrouble]string{TokenNeeded: "%s has a token and %s none: %s", TokenNone: "%s has no token and %s one: %s"}[t]
	if format == "" {
		format = "%s has another token than %s: %s"
	}
	return &TokenError{codes.Token, fmt.Sprintf(format, listener, dialler, fix)}
}

// TokenError is that the two ends of a connection have not the same token, or that whoever has
// not shown one refuses this end. It is an error of usage.
type TokenError struct {
	Code codes.Code
	Text string
}

func (e *TokenError) Error() string           { return e.Text }
func (e *TokenError) FailureCode() codes.Code { return e.Code }

// Is makes it an usage.Err.
func (e *TokenError) Is(target error) bool { return target == usage.Err }

// Call says whose connection it is and what for, as its frames do.
type Call struct {
	For                    Type // of the first frame after the handshake
	Sender, Receiver, Edge int
}

func (c *Call) handshake() *seal.Handshake {
	return &seal.Handshake{Version: Version, Purpose: string(c.For), Sender: c.Sender, Receiver: c.Receiver, Edge: c.Edge}
}

// Write sends a frame of the call, of epoch 0.
func (c *Call) Write(conn net.Conn, t Type, payload any) error {
	b, err := Encode(t, 0, c.Sender, c.Receiver, c.Edge, payload)
	if err == nil {
		_, err = conn.Write(b)
	}
	return err
}

// Unlock has the listener at the other end of a connection prove that it has the token, once this
// end has. It returns the connection on which the conversation goes on: conn without a token.
// refused makes an error of a frame that comes in the place of an answer to the one that was asked.
func Unlock(conn net.Conn, t *seal.Token, c Call, refused func(asked Type, f *Frame) error) (net.Conn, error) {
	if t == nil {
		return conn, nil
	}
	s := c.handshake()
	_, _ = rand.Read(s.Dialler[:]) // never fails
	ask := func(asked Type, said Secret, expected Type) (answer Secret, err error) {
		if err := c.Write(conn, asked, said); err != nil {
			return answer, err
		}
		f, err := ReadGreeting(conn)
		switch {
		case err != nil:
			return answer, err
		case f.Type != expected || f.Version != Version:
			return answer, refused(asked, f)
		}
		return Decode[Secret](f)
	}
	answer, err := ask(TypeKnock, Secret{For: c.For, Nonce: s.Dialler[:]}, TypeChallenge)
	if err == nil && copy(s.Listener[:], answer.Nonce) < len(s.Listener) {
		err = errors.New("sent a challenge without 32 bytes of nonce")
	}
	if err == nil {
		answer, err = ask(TypeProof, Secret{MAC: t.Proof(s, seal.Dialler)}, TypeProof)
	}
	switch {
	case err != nil:
		return nil, err
	case subtle.ConstantTimeCompare(answer.MAC, t.Proof(s, seal.Listener)) != 1:
		return nil, TokenWrong
	}
	return t.Seal(conn, s, seal.Dialler, seal.Listener)
}

// Admit has a caller, whose first frame f is, prove that it has the token, where this end has
// one. It returns the connection on which the conversation goes on, with the first frame of what
// the caller came for. A TokenTrouble is for the caller to be told of.
func Admit(conn net.Conn, t *seal.Token, f *Frame) (net.Conn, *Frame, error) {
	switch knocked := f.Type == TypeKnock; {
	case t == nil && !knocked:
		return conn, f, nil
	case t == nil:
		return nil, nil, TokenNone
	case !knocked:
		return nil, nil, TokenNeeded
	}
	k, err := Decode[Secret](f)
	back := Call{Sender: f.Receiver, Receiver: f.Sender, Edge: f.Edge}
	s := (&Call{k.For, f.Sender, f.Receiver, f.Edge}).handshake()
	if err != nil || copy(s.Dialler[:], k.Nonce) < len(s.Dialler) {
		return nil, nil, errors.New("a knock without 32 bytes of nonce")
	}
	_, _ = rand.Read(s.Listener[:]) // never fails
	if err := back.Write(conn, TypeChallenge, Secret{Nonce: s.Listener[:]}); err != nil {
		return nil, nil, err
	}
	p, err := ReadGreeting(conn)
	if err != nil {
		return nil, nil, fmt.Errorf("knocked, and then: %w", err)
	}
	if shown, err := Decode[Secret](p); err != nil || p.Type != TypeProof || subtle.ConstantTimeCompare(shown.MAC, t.Proof(s, seal.Dialler)) != 1 {
		return nil, nil, TokenWrong
	}
	if err := back.Write(conn, TypeProof, Secret{MAC: t.Proof(s, seal.Listener)}); err != nil {
		return nil, nil, err
	}
	sealed, err := t.Seal(conn, s, seal.Listener, seal.Dialler)
	if err != nil {
		return nil, nil, err
	}
	first, err := ReadGreeting(sealed)
	if err == nil && (first.Type != k.For || first.Sender != s.Sender || first.Receiver != s.Receiver || first.Edge != s.Edge) {
		err = fmt.Errorf("knocked for a %s from rank %d to rank %d, and then sent a %s from rank %d to rank %d",
			s.Purpose, s.Sender, s.Receiver, first.Type, first.Sender, first.Receiver)
	}
	return sealed, first, err
}
