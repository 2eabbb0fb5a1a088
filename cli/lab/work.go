package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ringcli/cli/command"
	"ringcli/verbs"
)

// wrID names a request: whose it is and what it does, so that a completion can be
// told from its ID alone.
func (p *pair) wrID(op verbs.WCOpcode) uint64 { return uint64(p.index)<<8 | uint64(op) }

func (p *pair) postRecv() error {
	_, err := p.QP.PostRecv([]verbs.WorkRequest{{ID: p.wrID(verbs.WCRecv), SGL: p.sgl(partReceive)}})
	return err
}

func (p *pair) sgl(part int) []verbs.SGE {
	n := p.process.o.Bytes
	return []verbs.SGE{{Addr: partAddr(p.MR.Addr(), part, n), Length: uint32(n), LKey: p.MR.LKey()}}
}

// request is a send request and what its completion must be.
type request struct {
	op   verbs.Opcode
	done verbs.WCOpcode
	part int // local: where it takes its bytes from, or puts them
	// target is the part of the peer's memory that it reaches.
	target int
}

var (
	sending = request{op: verbs.OpSend, done: verbs.WCSend, part: partSource}
	writing = request{op: verbs.OpWrite, done: verbs.WCWrite, part: partSource, target: partWritten}
	reading = request{op: verbs.OpRead, done: verbs.WCRead, part: partRead, target: partSource}
)

// target is where in the peer's memory a request reaches, and with which key.
func (p *pair) target(r request) (addr uint64, rkey uint32) {
	return partAddr(command.Or(p.wrong.RAddr, p.peer.RAddr), r.target, p.process.o.Bytes), command.Or(p.wrong.RKey, p.peer.RKey)
}

// post hands a request to the queue pair, and says what is in it.
func (p *pair) post(r request, v *Values) error {
	wr := verbs.WorkRequest{ID: p.wrID(r.done), SGL: p.sgl(r.part), Opcode: r.op, Flags: verbs.FlagSignaled}
	if r.op != verbs.OpSend {
		wr.RemoteAddr, wr.RKey = p.target(r)
		v.add("remote_addr", hex(wr.RemoteAddr), "rkey", hex(wr.RKey))
	}
	_, err := p.QP.PostSend([]verbs.WorkRequest{wr})
	return err
}

// waitAll polls the queue until each of the IDs has completed, and returns the
// completions in that order. It fails with the first that failed, or at the
// deadline with what had come.
func (e *process) waitAll(ctx context.Context, ids ...uint64) ([]verbs.Completion, error) {
	if e.control != nil {
		ctx = e.control.Context()
	}
	defer e.o.Waiting(fmt.Sprintf("%d completions of the queue pairs", len(ids)))()
	found := make([]verbs.Completion, len(ids))
	came := make([]bool, len(ids))
	waiter := verbs.Waiter{CQ: e.CQ, Channel: e.Channel, Policy: verbs.WaitBlock}
	deadline := time.Now().Add(e.o.Timeout)
	var wc [cqDepth]verbs.Completion
	for missing := len(ids); missing > 0; {
		n, err := e.CQ.Poll(wc[:])
		if err != nil {
			return nil, fmt.Errorf("poll the completion queue: %w", err)
		}
		for _, c := range wc[:n] {
			if c.Status != verbs.Success {
				return nil, &CompletionError{c}
			}
			for i, id := range ids {
				if id == c.ID && !came[i] {
					found[i], came[i] = c, true
					missing--
				}
			}
		}
		if n > 0 {
			waiter.Reset()
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !time.Now().Before(deadline) {
			return nil, e.late(ids, came)
		}
		if err := waiter.Wait(); err != nil {
			return nil, fmt.Errorf("wait for a completion: %w", err)
		}
	}
	return found, nil
}

// late says what was awaited and what had come.
func (e *process) late(ids []uint64, came []bool) error {
	var text string
	for i, id := range ids {
		state := "has not come"
		if came[i] {
			state = "came"
		}
		text += fmt.Sprintf("; the completion of %s %s", verbs.WCOpcode(id&0xff), state)
	}
	return fmt.Errorf("%w after %s%s", verbs.ErrTimeout, e.o.Timeout, text)
}

// CompletionError is a request that failed.
type CompletionError struct{ verbs.Completion }

func (e *CompletionError) Error() string {
	return fmt.Sprintf("%s failed: %s (%d, %s)", verbs.WCOpcode(e.ID&0xff), statusName(e.Status), uint32(e.Status), e.Status)
}

// Unwrap makes errors.As find the status.
func (e *CompletionError) Unwrap() error { return &verbs.StatusError{Status: e.Status} }

// completionValues are what completions say, under the names of their opcodes.
func completionValues(v *Values, list ...verbs.Completion) {
	for _, c := range list {
		name := strings.ToLower(c.Opcode.String())
		v.add(name+"_status", c.Status)
		if c.Opcode >= verbs.WCRecv {
			v.add(name+"_byte_len", c.ByteLen)
		}
	}
}

func failedStatus(err error) (verbs.Status, bool) {
	if failed, ok := errors.AsType[*CompletionError](err); ok {
		return failed.Status, true
	}
	return 0, false
}
