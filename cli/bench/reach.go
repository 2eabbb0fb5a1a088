package bench

import (
	"bytes"
	"context"
	"errors"

	"ringcli/cli/bench/buffers"
	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/collective"
	"ringcli/collective/reduce/reference"
	"ringcli/configs/codes"
)

// Buffers say where an operation's memory came from, if not from the library, and whether
// peers map it.
type Buffers struct {
	Buffers string `json:"buffers,omitempty"`
	// NotMapped is why not: what goes over shared memory is copied through segments then.
	NotMapped string `json:"buffers_not_mapped,omitempty"`
}

// reach finds out on all ranks alike whether the send buffers of all are mapped by all.
func (v *vectors) reach(ctx context.Context, m *session.Member, o operation) error {
	if o.buffers == buffers.Alloc || o.buffers == "" {
		return nil
	}
	v.from.Buffers = string(o.buffers)
	why := ""
	if v.source.NotShared != nil {
		why = v.source.NotShared.Error()
	}
	each, err := session.Share(ctx, m, why)
	if err != nil {
		return err
	}
	for _, why := range each {
		if why != "" {
			v.from.NotMapped = why
			return nil
		}
	}
	v.peers, err = m.Comm.Symmetric(ctx, v.send)
	if errors.Is(err, collective.ErrUsage) { // the same on all
		v.from.NotMapped, err = err.Error(), nil
	}
	return err
}

// lookAtPeers compares what is seen of each peer's send buffer with what that peer has put
// there. It is collective.
func (v *vectors) lookAtPeers(ctx context.Context, m *session.Member, o operation) error {
	if v.peers == nil || !o.check {
		return nil
	}
	if err := m.Comm.Barrier(ctx); err != nil {
		return err
	}
	var wrong error
	call, size := o.call(), o.typ.Size()
	for rank := range m.Comm.Size() {
		sent, _ := call.Buffers(m.Comm.Size(), rank)
		view := v.peers.Peer(rank)
		if v.send == v.recv {
			view = view[sent.Lo*size:]
		}
		want := make([]byte, sent.Len()*size)
		reference.Fill(want, o.typ, o.red, rank, sent.Lo, o.seed(0))
		if !bytes.Equal(view[:len(want)], want) && wrong == nil {
			wrong = codes.With(codes.WrongData, exit.Sharedf(exit.Critical, "wrong data: %s: rank %d sees other elements in the buffer of rank %d than that has put there", o, m.Comm.Rank(), rank))
		}
	}
	return m.Agree(ctx, wrong)
}

// bufferNotes say so below a table.
func (b Buffers) bufferNotes() []string {
	switch {
	case b.Buffers == "":
		return nil
	case b.NotMapped == "":
		return []string{"buffers: " + b.Buffers + ", mapped by all ranks"}
	}
	return []string{"buffers: " + b.Buffers + ", which peers do not map: " + b.NotMapped}
}
