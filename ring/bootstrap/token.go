package bootstrap

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
)

// Token is the secret that the ranks of a ring share. It never shows: whatever prints it
// prints that it is set.
type Token struct{ key []byte }

// minToken is the shortest secret: who hears a handshake can try guesses at leisure, so it
// must be more than a word.
const minToken = 16

// NewToken makes a token of a secret. What the ranks have must be equal to the byte.
func NewToken(secret []byte) (*Token, error) {
	if len(secret) < minToken {
		return nil, usage.Codedf(codes.Token, "the token has %d bytes: expected at least %d that nobody guesses, such as of `openssl rand -hex 32`", len(secret), minToken)
	}
	key, err := hkdf.Extract(sha256.New, secret, []byte("ringcli token"))
	return &Token{key: key}, err
}

// RandomToken returns a secret for NewToken.
func RandomToken() []byte { return []byte(rand.Text() + rand.Text()) }

const hidden = "set (hidden)"

func (t *Token) String() string               { return hidden }
func (t *Token) GoString() string             { return hidden }
func (t *Token) MarshalText() ([]byte, error) { return []byte(hidden), nil }

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

// handshake is what both ends have said of the connection, in clear: the proofs and the keys
// are made over all of it.
type handshake struct {
	purpose                Type
	sender, receiver, edge int
	dialler, listener      [32]byte // nonces
}

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

// transcript is unambiguous: numbers and a word, each ended, and nonces of one length.
func (s *handshake) transcript(label string) string {
	return fmt.Sprintf("ringcli %s, version %d, %q from %d to %d on %d: %x %x",
		label, Version, s.purpose, s.sender, s.receiver, s.edge, s.dialler, s.listener)
}

func (t *Token) proof(s *handshake, role string) []byte {
	h := hmac.New(sha256.New, t.key)
	_, _ = io.WriteString(h, s.transcript(role+" proves")) // a hash never fails
	return h.Sum(nil)
}

// seal makes conn what only the two ends can write to.
func (t *Token) seal(conn net.Conn, s *handshake, own, other string) (net.Conn, error) {
	out, err := t.direction(s, own)
	if err != nil {
		return nil, err
	}
	in, err := t.direction(s, other)
	return &sealed{Conn: conn, in: in, out: out}, err
}

func (t *Token) direction(s *handshake, role string) (*direction, error) {
	key, err := hkdf.Expand(sha256.New, t.key, s.transcript(role+" writes"), sha256.Size)
	return &direction{mac: hmac.New(sha256.New, key)}, err
}

// The roles of a handshake.
const (
	diallerRole  = "dialler"
	listenerRole = "listener"
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
	s := &handshake{purpose: purpose, sender: c.rank, receiver: peer, edge: edge}
	_, _ = rand.Read(s.dialler[:]) // never fails
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
	f, err := exchange(TypeKnock, knock{For: purpose, Nonce: s.dialler[:]}, TypeChallenge)
	if err != nil {
		return nil, err
	}
	asked, err := decode[challenge](f)
	if err != nil || copy(s.listener[:], asked.Nonce) < len(s.listener) {
		return nil, errors.New("sent a challenge without 32 bytes of nonce")
	}
	if f, err = exchange(TypeProof, proof{t.proof(s, diallerRole)}, TypeProof); err != nil {
		return nil, err
	}
	if shown, err := decode[proof](f); err != nil || subtle.ConstantTimeCompare(shown.MAC, t.proof(s, listenerRole)) != 1 {
		return nil, c.troubleAt(peer, tokenWrong)
	}
	return t.seal(conn, s, diallerRole, listenerRole)
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
	s := &handshake{purpose: k.For, sender: f.Sender, receiver: f.Receiver, edge: f.Edge}
	if err != nil || copy(s.dialler[:], k.Nonce) < len(s.dialler) {
		return nil, nil, errors.New("a knock without 32 bytes of nonce")
	}
	_, _ = rand.Read(s.listener[:]) // never fails
	if !c.answer(conn, f, TypeChallenge, challenge{s.listener[:]}) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	p, err := ReadGreeting(conn)
	if err != nil {
		return nil, nil, fmt.Errorf("knocked, and then: %w", err)
	}
	if shown, err := decode[proof](p); err != nil || p.Type != TypeProof || subtle.ConstantTimeCompare(shown.MAC, t.proof(s, diallerRole)) != 1 {
		return refuse(tokenWrong, fmt.Sprintf("who calls as rank %d has another token than %s: %s", f.Sender, c.name(c.rank), sameToken))
	}
	if !c.answer(conn, f, TypeProof, proof{t.proof(s, listenerRole)}) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	if conn, err = t.seal(conn, s, listenerRole, diallerRole); err != nil {
		return nil, nil, err
	}
	first, err := ReadGreeting(conn)
	if err == nil && (first.Type != s.purpose || first.Sender != s.sender || first.Receiver != s.receiver || first.Edge != s.edge) {
		err = fmt.Errorf("knocked for a %s from rank %d to rank %d, and then sent a %s from rank %d to rank %d",
			s.purpose, s.sender, s.receiver, first.Type, first.Sender, first.Receiver)
	}
	return conn, first, err
}

const (
	recordHead = 4        // length
	macLen     = 16       // of an HMAC-SHA256's 32: nobody can try two
	maxRecord  = 32 << 10 // of what is written at once; more goes in several
)

// errForged ends a connection.
var errForged = errors.New("a record that the other end of the handshake has not written so, or not now: forged, replayed or changed on its way")

// direction is one of a sealed connection's: whoever writes, or reads, uses it alone.
type direction struct {
	mac     hash.Hash
	counter uint64
	buf     []byte
	sum     [sha256.Size]byte
}

// tag returns the MAC of the next record, of head and text. It is valid until the next.
func (d *direction) tag(record []byte) []byte {
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], d.counter)
	d.counter++
	d.mac.Reset()
	_, _ = d.mac.Write(counter[:])
	_, _ = d.mac.Write(record)
	return d.mac.Sum(d.sum[:0])[:macLen]
}

// sealed is a connection after the handshake. What is written goes out in records: a
// length, the text as it is, and a MAC over both and the record's number. Nothing is
// hidden by it, and nothing can be forged, changed, doubled, left out or put in another
// place, or taken from the other direction or another connection. One goroutine may read
// and one write.
type sealed struct {
	net.Conn
	in, out *direction
	rest    []byte // of the last record
}

func (s *sealed) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		text := b[n:min(len(b), n+maxRecord)]
		r := binary.BigEndian.AppendUint32(s.out.buf[:0], uint32(len(text)))
		r = append(r, text...)
		s.out.buf = append(r, s.out.tag(r)...)
		if _, err = s.Conn.Write(s.out.buf); err == nil {
			n += len(text)
		}
	}
	return n, err
}

func (s *sealed) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		if cap(s.in.buf) == 0 {
			s.in.buf = make([]byte, recordHead+maxRecord+macLen)
		}
		head := s.in.buf[:recordHead]
		if _, err := io.ReadFull(s.Conn, head); err != nil {
			return 0, err
		}
		length := binary.BigEndian.Uint32(head)
		if length > maxRecord {
			return 0, errForged
		}
		record := s.in.buf[:recordHead+length+macLen]
		if _, err := io.ReadFull(s.Conn, record[recordHead:]); err != nil {
			if errors.Is(err, io.EOF) { // no end between two records
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		text, mac := record[:recordHead+length], record[recordHead+length:]
		if subtle.ConstantTimeCompare(mac, s.in.tag(text)) != 1 {
			return 0, errForged
		}
		s.rest = text[recordHead:]
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
