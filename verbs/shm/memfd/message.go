package memfd

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

type kind uint8

// What is said on a connection. The dialler asks, the listener's process answers;
// a packet of the socket is one message.
const (
	kindHello   kind = iota + 1 // listener, first of all: length is the address of its probe, value what is there
	kindMap                     // dialler: a view of arena id, please
	kindView                    // listener: the view, with its descriptor; length in bytes, value its offset in the file, text may be loose
	kindRefused                 // listener: no view of arena id, or no connection (id 0); text says why
	kindFreed                   // listener: arena id is freed
	kindBye                     // both: the hub closes
)

// loose says of a view that its file is not sealed: it is another's, which was there before.
const loose = "loose"

// message is one packet. Numbers are in the host's byte order: both ends are on
// one host.
//
//	0 magic 4 | kind 1 | writable 1 | zero 2 | id 8 | length 8 | value 8 | text
type message struct {
	kind     kind
	writable bool
	id       uint64
	length   uint64
	value    uint64
	text     string
	fd       int // the receiver owns it; -1 if none
}

const (
	// protocol is the packets' magic and their version in its last byte.
	protocol    = 0x41524e01
	headerBytes = 32
	maxBytes    = 1024 // a packet; longer texts are cut
)

func (m message) encode() []byte {
	b := make([]byte, headerBytes, headerBytes+len(m.text))
	binary.NativeEndian.PutUint32(b, protocol)
	b[4] = byte(m.kind)
	if m.writable {
		b[5] = 1
	}
	binary.NativeEndian.PutUint64(b[8:], m.id)
	binary.NativeEndian.PutUint64(b[16:], m.length)
	binary.NativeEndian.PutUint64(b[24:], m.value)
	return append(b, m.text[:min(len(m.text), maxBytes-headerBytes)]...)
}

func decode(b []byte) (message, error) {
	if len(b) < headerBytes {
		return message{fd: -1}, fmt.Errorf("a packet of %d bytes, want at least %d: not a ringcli process, or of another version", len(b), headerBytes)
	}
	if got := binary.NativeEndian.Uint32(b); got != protocol {
		return message{fd: -1}, fmt.Errorf("a packet that begins with %#x, want %#x: not a ringcli process, or of another version; run one version on all ranks", got, protocol)
	}
	return message{
		kind: kind(b[4]), writable: b[5] != 0,
		id:     binary.NativeEndian.Uint64(b[8:]),
		length: binary.NativeEndian.Uint64(b[16:]),
		value:  binary.NativeEndian.Uint64(b[24:]),
		text:   string(b[headerBytes:]), fd: -1,
	}, nil
}

// transmit sends one message and closes its descriptor.
func transmit(sock *net.UnixConn, m message) error {
	var oob []byte
	if m.fd >= 0 {
		defer func() { _ = unix.Close(m.fd) }()
		oob = unix.UnixRights(m.fd)
	}
	_, _, err := sock.WriteMsgUnix(m.encode(), oob, nil)
	return err
}

// receive awaits one message. An end of the connection is io.EOF.
func receive(sock *net.UnixConn) (message, error) {
	var data [maxBytes]byte
	var oob [64]byte // one descriptor takes 24; more than fit are dropped by the kernel
	n, oobn, _, _, err := sock.ReadMsgUnix(data[:], oob[:])
	fds := rights(oob[:oobn])
	if err == nil && n == 0 {
		err = io.EOF
	}
	m := message{fd: -1}
	if err == nil {
		m, err = decode(data[:n])
	}
	if err == nil && m.kind == kindView && len(fds) == 1 {
		m.fd = fds[0]
		return m, nil
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	return m, err
}

func rights(oob []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		if got, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}
