package bootstrap

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
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
//	   │ ── proof ──────────────────────▶ │  or reject: wrong token
//	   │ ◀─ proof ─────────────────────── │
//	   │ ◀═ sealed from here on ════════▶ │
//
// The proofs are HMAC-SHA256 under the token over role, purpose, ranks, edge,
// version and both nonces; the keys of the two directions come from the same by HKDF. The
// dialler proves first, so that a stranger gets nothing to try guesses on; who answers in
// the place of a rank does. The list's digest comes in the sealed hello, and the epoch in
// every sealed frame.
const (
	TypeKnock     Type = "knock"
	TypeChallenge Type = "challenge"
	TypeProof     Type = "proof"
)

// knock, challenge and proof are the payloads of these frames.
type (
	knock struct {
		For   Type   `json:"for"`
		Nonce []byte `json:"nonce"`
	}
	challenge struct {
		Nonce []byte `json:"nonce"`
	}
	proof struct {
		MAC []byte `json:"mac"`
	}
)

// tokenTrouble is why a handshake came to nothing, as the refused end is told.
type tokenTrouble string

const (
	tokenNeeded tokenTrouble = "needed" // the listener has one, the dialler gave none
	tokenNone   tokenTrouble = "none"   // the other way round
	tokenWrong  tokenTrouble = "wrong"
)

// tokenError is that the two ends of a connection have not the same token, or none.
type tokenError struct {
	code codes.Code
	text string
}

func (e *tokenError) Error() string           { return e.text }
func (e *tokenError) FailureCode() codes.Code { return e.code }

func (e *tokenError) Is(target error) bool { return target == usage.Err }

const sameToken = "give all ranks the same --token-file or RINGCLI_TOKEN"

// troubleAt says at a dialler what keeps it from a peer.
func (c *Control) troubleAt(peer int, why tokenTrouble) error {
	switch there, here := c.name(peer), c.name(c.rank); why {
	case tokenNeeded:
		return &tokenError{codes.Token, fmt.Sprintf("%s has a token and %s, this rank, none: %s", there, here, sameToken)}
	case tokenNone:
		return &tokenError{codes.Token, fmt.Sprintf("%s has no token and %s, this rank, one: %s", there, here, sameToken)}
	default:
		return &tokenError{codes.Token, fmt.Sprintf("%s has another token than %s, this rank: %s", there, here, sameToken)}
	}
}

// unlock has the listener at the other end of a connection prove that it has the token,
// once this rank has. Without a token it does nothing.
func (c *Control) unlock(conn net.Conn, purpose Type, peer, edge int) (net.Conn, error) {
	t := c.cfg.Token
	if t == nil {
		return conn, nil
	}
	s := &seal.Handshake{Version: Version, Purpose: string(purpose), Sender: c.rank, Receiver: peer, Edge: edge}
	_, _ = rand.Read(s.Dialler[:]) // never fails
	exchange := func(t Type, payload any, expected Type) (*Frame, error) {
		b, err := c.encode(t, peer, edge, payload)
		if err != nil {
			return nil, err
		}
		if _, err = conn.Write(b); err != nil {
			return nil, err
		}
		f, err := ReadGreeting(conn)
		switch {
		case err != nil:
			return nil, err
		case f.Type == TypeReject:
			r, err := decode[rejection](f)
			switch {
			case err != nil:
				return nil, err
			case r.Token != "":
				return nil, c.troubleAt(peer, r.Token)
			}
			return nil, &tokenError{r.FailureCode(), r.Text} // of another version
		case f.Version != Version:
			return nil, versionError(f.Version)
		case f.Type != expected:
			return nil, fmt.Errorf("answered a %s with a %q frame", t, f.Type)
		}
		return f, nil
	}
	f, err := exchange(TypeKnock, knock{For: purpose, Nonce: s.Dialler[:]}, TypeChallenge)
	if err != nil {
		return nil, err
	}
	asked, err := decode[challenge](f)
	if err != nil || copy(s.Listener[:], asked.Nonce) < len(s.Listener) {
		return nil, errors.New("sent a challenge without 32 bytes of nonce")
	}
	if f, err = exchange(TypeProof, proof{t.Proof(s, seal.Dialler)}, TypeProof); err != nil {
		return nil, err
	}
	if shown, err := decode[proof](f); err != nil || subtle.ConstantTimeCompare(shown.MAC, t.Proof(s, seal.Listener)) != 1 {
		return nil, c.troubleAt(peer, tokenWrong)
	}
	return t.Seal(conn, s, seal.Dialler, seal.Listener)
}

// admit has a caller prove that it has the token, where this rank has one, and returns
// the connection with the first frame of what it came for. The error is for the trace: the
// caller has been told what it may know.
func (c *Control) admit(conn net.Conn, f *Frame) (net.Conn, *Frame, error) {
	t := c.cfg.Token
	refuse := func(why tokenTrouble, text string) (net.Conn, *Frame, error) {
		c.reject(conn, f, rejection{Verdict: Verdict{Kind: KindMismatch, Code: codes.Token, Rank: -1, By: c.rank, Text: string("token: " + why)}, Token: why})
		return nil, nil, errors.New(text)
	}
	switch knocked := f.Type == TypeKnock; {
	case t == nil && !knocked:
		return conn, f, nil
	case t == nil:
		return refuse(tokenNone, fmt.Sprintf("who calls as rank %d has a token and %s none: %s", f.Sender, c.name(c.rank), sameToken))
	case !knocked:
		return refuse(tokenNeeded, fmt.Sprintf("who calls as rank %d gave no token and %s has one: %s", f.Sender, c.name(c.rank), sameToken))
	}
	k, err := decode[knock](f)
	s := &seal.Handshake{Version: Version, Purpose: string(k.For), Sender: f.Sender, Receiver: f.Receiver, Edge: f.Edge}
	if err != nil || copy(s.Dialler[:], k.Nonce) < len(s.Dialler) {
		return nil, nil, errors.New("a knock without 32 bytes of nonce")
	}
	_, _ = rand.Read(s.Listener[:]) // never fails
	if !c.answer(conn, f, TypeChallenge, challenge{s.Listener[:]}) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	p, err := ReadGreeting(conn)
	if err != nil {
		return nil, nil, fmt.Errorf("knocked, and then: %w", err)
	}
	if shown, err := decode[proof](p); err != nil || p.Type != TypeProof || subtle.ConstantTimeCompare(shown.MAC, t.Proof(s, seal.Dialler)) != 1 {
		return refuse(tokenWrong, fmt.Sprintf("who calls as rank %d has another token than %s: %s", f.Sender, c.name(c.rank), sameToken))
	}
	if !c.answer(conn, f, TypeProof, proof{t.Proof(s, seal.Listener)}) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	if conn, err = t.Seal(conn, s, seal.Listener, seal.Dialler); err != nil {
		return nil, nil, err
	}
	first, err := ReadGreeting(conn)
	if err == nil && (string(first.Type) != s.Purpose || first.Sender != s.Sender || first.Receiver != s.Receiver || first.Edge != s.Edge) {
		err = fmt.Errorf("knocked for a %s from rank %d to rank %d, and then sent a %s from rank %d to rank %d",
			s.Purpose, s.Sender, s.Receiver, first.Type, first.Sender, first.Receiver)
	}
	return conn, first, err
}
