package oob

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	// Version of the frames and of what they mean. Peers of another version are
	// told so and refused.
	Version = 11
	// MaxFrame is the longest frame in bytes, header excluded: room for the
	// results of a whole run, and too little to hurt.
	MaxFrame = 1 << 20
	// maxGreeting is the longest frame of a handshake or a probe: room for a list of
	// maxHelloList bytes, and for how a rank of a large ring is.
	maxGreeting = 32 << 10

	magic      = "RNGC"
	headerSize = 8 // magic, length
)

// Type says what a frame is for, or which protocol it belongs to.
type Type string

// Frame is one message between two nodes.
type Frame struct {
	Version  int             `json:"version"`
	Type     Type            `json:"type"`
	Sender   int             `json:"sender"`
	Receiver int             `json:"receiver"` // whom the sender means to reach
	Edge     int             `json:"edge"`     // the dialler's rank
	Epoch    uint32          `json:"epoch"`    // of the ring; 0 while its ranks have not agreed on one
	Payload  json.RawMessage `json:"payload,omitempty"`
}

// ErrNotFrame says that bytes are not from ringcli at all.
var ErrNotFrame = errors.New("not a ringcli frame")

// notFrameError carries the bytes that gave the sender away.
type notFrameError struct{ head []byte }

func (e *notFrameError) Error() string {
	return fmt.Sprintf("%v: %s", ErrNotFrame, Identify(e.head))
}
func (e *notFrameError) Is(target error) bool { return target == ErrNotFrame }

// ShortError is that a frame has not come whole.
type ShortError struct {
	Length, Came int // bytes
	Err          error
}

func (e *ShortError) Error() string {
	return fmt.Sprintf("frame of %d bytes: after %d: %v", e.Length, e.Came, e.Err)
}
func (e *ShortError) Unwrap() error { return e.Err }

// Encode makes a frame of this version.
func Encode(t Type, epoch uint32, sender, receiver, edge int, payload any) (b []byte, err error) {
	f := Frame{Version: Version, Type: t, Sender: sender, Receiver: receiver, Edge: edge, Epoch: epoch}
	if payload != nil {
		if f.Payload, err = json.Marshal(payload); err != nil {
			return nil, err
		}
	}
	return AppendFrame(nil, &f)
}

// AppendFrame appends the frame's bytes to b. Its payload, if any, is JSON: it is not looked at
// again.
func AppendFrame(b []byte, f *Frame) ([]byte, error) { return appendFrame(b, f, MaxFrame) }

func appendFrame(b []byte, f *Frame, most int) ([]byte, error) {
	head := *f
	head.Payload = nil
	body, err := json.Marshal(&head)
	if err != nil {
		return b, fmt.Errorf("%s frame: %w", f.Type, err)
	}
	const between = `,"payload":`
	length := len(body)
	if len(f.Payload) > 0 {
		length += len(between) + len(f.Payload)
	}
	if length > most {
		return b, fmt.Errorf("%s frame of %d bytes: more than the %d that a frame holds", f.Type, length, most)
	}
	b = slices.Grow(b, headerSize+length)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, uint32(length))
	if len(f.Payload) == 0 {
		return append(b, body...), nil
	}
	b = append(b, body[:len(body)-1]...)
	b = append(b, between...)
	b = append(b, f.Payload...)
	return append(b, '}'), nil
}

// ReadFrame reads one frame. It holds no more memory than a small multiple of
// what has arrived, whatever length the header claims. The error is io.EOF at
// the end of a stream between frames, and wraps ErrNotFrame if the bytes cannot
// be from ringcli.
func ReadFrame(r io.Reader) (*Frame, error) { return readFrame(r, MaxFrame) }

// ReadGreeting reads one frame of somebody who has not shown yet that it belongs here.
func ReadGreeting(r io.Reader) (*Frame, error) { return readFrame(r, maxGreeting) }

func readFrame(r io.Reader, most uint32) (*Frame, error) {
	var head [headerSize]byte
	if n, err := io.ReadFull(r, head[:]); err != nil {
		if n > 0 && !bytes.HasPrefix([]byte(magic), head[:min(n, len(magic))]) {
			return nil, &notFrameError{head: bytes.Clone(head[:n])}
		}
		if n > 0 && errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("the stream ended after %d of %d header bytes: %w", n, headerSize, err)
		}
		return nil, err
	}
	if string(head[:len(magic)]) != magic {
		return nil, &notFrameError{head: bytes.Clone(head[:])}
	}
	length := binary.BigEndian.Uint32(head[len(magic):])
	if length > most {
		return nil, fmt.Errorf("frame of %d bytes: more than the %d that such a frame holds", length, most)
	}
	// ReadAll grows with what arrives, so that a header alone costs nothing.
	body, err := io.ReadAll(io.LimitReader(r, int64(length)))
	if err != nil {
		return nil, &ShortError{int(length), len(body), err}
	}
	if len(body) < int(length) {
		return nil, fmt.Errorf("frame of %d bytes: the stream ended after %d: %w", length, len(body), io.ErrUnexpectedEOF)
	}
	tame(body)
	f := new(Frame)
	if err := json.Unmarshal(body, f); err != nil {
		return nil, fmt.Errorf("frame of %d bytes: %w", length, err)
	}
	return f, nil
}

// tame takes what drives a terminal out of JSON, in place: what a stranger says may be shown.
// Lines and tabs stay.
func tame(text []byte) {
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case rest[0] == '\\' && len(rest) >= 6 && rest[1] == 'u':
			r, err := strconv.ParseUint(string(rest[2:6]), 16, 16)
			if err == nil && unicode.IsControl(rune(r)) && r != '\n' && r != '\t' {
				copy(rest[2:], "fffd")
			}
			i += 5
		case rest[0] == '\\' && len(rest) >= 2:
			if strings.IndexByte("bfr", rest[1]) >= 0 {
				rest[1] = 't'
			}
			i++
		case rest[0] == 0x7f:
			rest[0] = '?'
		case rest[0] == 0xc2 && len(rest) >= 2 && rest[1] < 0xa0: // of the upper half
			rest[1] = 0xa0
		}
	}
}

// Decode reads a frame's payload.
func Decode[T any](f *Frame) (v T, err error) {
	if err = json.Unmarshal(f.Payload, &v); err != nil {
		err = fmt.Errorf("%s frame from rank %d: %w", f.Type, f.Sender, err)
	}
	return v, err
}
