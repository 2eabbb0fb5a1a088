// Package wire is how a rack's host and the agent in a virtual machine talk over
// a virtio-serial port: frames in both directions of one byte stream, many commands at once.
//
// A frame is
//
//	kind    1 byte
//	id      4 bytes, big endian: which command, chosen by the host
//	length  4 bytes, big endian, at most [MaxData]
//	data    length bytes
package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Kind says what a frame's data are.
type Kind uint8

// From the host to the guest: Configure once, then the others. From the guest to
// the host: Ready or Failed once, then the others.
const (
	Configure Kind = iota + 1 // a [Config]
	Start                     // a [Command]; the id is new
	Stdin                     // bytes of standard input; none: its end
	Signal                    // one byte, the number of a signal for the command's process group

	Ready  // the guest has done what Configure told it
	Failed // a sentence: why it could not, and ends
	Stdout
	Stderr
	Exit // an [Outcome]; the id's last frame
)

func (k Kind) String() string {
	names := [...]string{Configure: "configure", Start: "start", Stdin: "stdin", Signal: "signal",
		Ready: "ready", Failed: "failed", Stdout: "stdout", Stderr: "stderr", Exit: "exit"}
	if k == 0 || int(k) >= len(names) {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return names[k]
}

const (
	headerLen = 9
	// MaxData is what one frame can carry: a length above it is a stream that
	// went out of step, not a large frame.
	MaxData = 1 << 20
)

// Config is what a guest is told when it has booted.
type Config struct {
	Node    int               `json:"node"`    // 1 and up
	Nodes   int               `json:"nodes"`   // of the rack
	MTU     int               `json:"mtu"`     // bytes, of eth0
	Plain   bool              `json:"plain"`   // without an RDMA device
	Modules string            `json:"modules"` // the host's directory that becomes /lib/modules
	Shares  []string          `json:"shares"`  // directories of the host, by the number in their mount tag
	Env     map[string]string `json:"env"`     // of the agent, and so of its commands
}

// Command is what a guest is to run.
type Command struct {
	Args []string `json:"args"`
	Env  []string `json:"env,omitempty"` // added to the agent's
	Dir  string   `json:"dir,omitempty"` // where it runs; the root where the guest lacks it
}

// Outcome is how a command ended.
type Outcome struct {
	Code   int    `json:"code"`             // its exit status; -1 where there is none
	Signal int    `json:"signal,omitempty"` // the signal that ended it
	Error  string `json:"error,omitempty"`  // why it did not start
}

// Frame is one message.
type Frame struct {
	Kind Kind
	ID   uint32
	Data []byte
}

// JSON makes a frame of a value's JSON; v must be one of this package's structs.
func JSON(kind Kind, id uint32, v any) Frame {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // structs of strings and numbers
	}
	return Frame{Kind: kind, ID: id, Data: data}
}

// Into reads the frame's data as JSON.
func (f Frame) Into(v any) error {
	if err := json.Unmarshal(f.Data, v); err != nil {
		return fmt.Errorf("wire: a %v frame without the JSON of a %T: %w", f.Kind, v, err)
	}
	return nil
}

// Read reads one frame and not one byte more, so that the stream can be handed on.
// It returns io.EOF where the stream ends between frames.
func Read(r io.Reader) (Frame, error) {
	var header [headerLen]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Kind: Kind(header[0]), ID: binary.BigEndian.Uint32(header[1:])}
	length := binary.BigEndian.Uint32(header[5:])
	if length > MaxData {
		return Frame{}, fmt.Errorf("wire: a %v frame of %d bytes, at most %d are expected: the stream is out of step", f.Kind, length, MaxData)
	}
	f.Data = make([]byte, length)
	if _, err := io.ReadFull(r, f.Data); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	return f, nil
}

// Writer writes whole frames, from any number of goroutines.
type Writer struct {
	mu sync.Mutex // a frame's bytes stay together
	w  io.Writer
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes one frame. After an error the stream may be out of step.
func (w *Writer) Write(f Frame) error {
	if len(f.Data) > MaxData {
		return fmt.Errorf("wire: a %v frame of %d bytes, at most %d fit", f.Kind, len(f.Data), MaxData)
	}
	b := make([]byte, 0, headerLen+len(f.Data))
	b = append(b, byte(f.Kind))
	b = binary.BigEndian.AppendUint32(b, f.ID)
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Data)))
	b = append(b, f.Data...)
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.w.Write(b)
	return err
}

// Stream returns an io.Writer that sends what it is given as frames of one kind.
func (w *Writer) Stream(kind Kind, id uint32) io.Writer {
	return stream{w, kind, id}
}

type stream struct {
	w    *Writer
	kind Kind
	id   uint32
}

func (s stream) Write(b []byte) (int, error) {
	for done := 0; done < len(b); {
		n := min(len(b)-done, MaxData)
		if err := s.w.Write(Frame{s.kind, s.id, b[done : done+n]}); err != nil {
			return done, err
		}
		done += n
	}
	return len(b), nil
}
