//go:build linux

package rack

import (
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"
)

// qmpDeadline is for QEMU's own answers, which come in milliseconds unless its
// process is stopped.
const qmpDeadline = 20 * time.Second

// qmp speaks QEMU's control protocol (docs/interop/qmp-spec): JSON objects, a
// greeting first.
type qmp struct {
	mu      sync.Mutex // one command at a time
	conn    net.Conn
	answers *json.Decoder
	greeted bool
}

func newQMP(conn net.Conn) *qmp {
	return &qmp{conn: conn, answers: json.NewDecoder(conn)}
}

// execute runs one command; arguments may be nil.
func (q *qmp) execute(command string, arguments any) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.conn.SetDeadline(time.Now().Add(qmpDeadline)); err != nil {
		return err
	}
	if !q.greeted {
		if err := q.answers.Decode(new(json.RawMessage)); err != nil {
			return fmt.Errorf("waiting for QEMU's greeting: %w", err)
		}
		if err := q.ask("qmp_capabilities", nil); err != nil {
			return err
		}
		q.greeted = true
	}
	return q.ask(command, arguments)
}

func (q *qmp) ask(command string, arguments any) error {
	request, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
	}{command, arguments})
	if err != nil {
		return err
	}
	if _, err := q.conn.Write(request); err != nil {
		return fmt.Errorf("QEMU %s: %w", command, err)
	}
	for {
		var answer struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := q.answers.Decode(&answer); err != nil {
			return fmt.Errorf("QEMU %s: %w", command, err)
		}
		switch {
		case answer.Error != nil:
			return fmt.Errorf("QEMU refuses %s: %s", command, answer.Error.Desc)
		case answer.Return != nil:
			return nil
		} // else an event
	}
}
