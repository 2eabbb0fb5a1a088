// Package seal has the token that the ranks of a ring share, and seals connections with it.
package seal

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

// New makes a token of a secret. What the ranks have must be equal to the byte.
func New(secret []byte) (*Token, error) {
	if len(secret) < minToken {
		return nil, usage.Codedf(codes.Token, "the token has %d bytes: expected at least %d that nobody guesses, such as of `openssl rand -hex 32`", len(secret), minToken)
	}
	key, err := hkdf.Extract(sha256.New, secret, []byte("ringcli token"))
	return &Token{key: key}, err
}

// Random returns a secret for New.
func Random() []byte { return []byte(rand.Text() + rand.Text()) }

const hidden = "set (hidden)"

func (t *Token) String() string               { return hidden }
func (t *Token) GoString() string             { return hidden }
func (t *Token) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Handshake is what both ends have said of the connection, in clear: the proofs and the keys
// are made over all of it.
type Handshake struct {
	Version                int
	Purpose                string
	Sender, Receiver, Edge int
	Dialler, Listener      [32]byte // nonces
}

// transcript is unambiguous: numbers and a word, each ended, and nonces of one length.
func (s *Handshake) transcript(label string) string {
	return fmt.Sprintf("ringcli %s, version %d, %q from %d to %d on %d: %x %x",
		label, s.Version, s.Purpose, s.Sender, s.Receiver, s.Edge, s.Dialler, s.Listener)
}

// Proof shows that one end has the token.
func (t *Token) Proof(s *Handshake, role string) []byte {
	h := hmac.New(sha256.New, t.key)
	_, _ = io.WriteString(h, s.transcript(role+" proves")) // a hash never fails
	return h.Sum(nil)
}

// Seal makes conn what only the two ends can write to.
func (t *Token) Seal(conn net.Conn, s *Handshake, own, other string) (*Conn, error) {
	out, err := t.direction(s, own)
	if err != nil {
		return nil, err
	}
	in, err := t.direction(s, other)
	return &Conn{Conn: conn, in: in, out: out}, err
}

func (t *Token) direction(s *Handshake, role string) (*direction, error) {
	key, err := hkdf.Expand(sha256.New, t.key, s.transcript(role+" writes"), sha256.Size)
	return &direction{mac: hmac.New(sha256.New, key)}, err
}

// The roles of a handshake.
const (
	Dialler  = "dialler"
	Listener = "listener"
)

const (
	recordHead = 4        // length
	macLen     = 16       // of an HMAC-SHA256's 32: nobody can try two
	maxRecord  = 32 << 10 // of what is written at once; more goes in several
)

// ErrForged ends a connection.
var ErrForged = errors.New("a record that the other end of the handshake has not written so, or not now: forged, replayed or changed on its way")

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

// Conn is a connection after the handshake. What is written goes out in records: a
// length, the text as it is, and a MAC over both and the record's number. Nothing is
// hidden by it, and nothing can be forged, changed, doubled, left out or put in another
// place, or taken from the other direction or another connection. One goroutine may read
// and one write.
type Conn struct {
	net.Conn
	in, out *direction
	rest    []byte // of the last record
}

// Raw is the connection below, of one that is sealed.
func Raw(conn net.Conn) net.Conn {
	if s, ok := conn.(*Conn); ok {
		return s.Conn
	}
	return conn
}

func (s *Conn) Write(b []byte) (n int, err error) {
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

func (s *Conn) Read(b []byte) (int, error) {
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
			return 0, ErrForged
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
			return 0, ErrForged
		}
		s.rest = text[recordHead:]
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
