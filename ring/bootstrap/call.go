package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/oob"
	"ringcli/ring/bootstrap/verdict"
)

const sameToken = "give all ranks the same --token-file or RINGCLI_TOKEN"

// ask sends one frame and reads the answer, within the time of a handshake, which comes
// first where there is a token. The conversation goes on over the connection that it
// returns. An answer of another version comes with an error.
func (p *prober) ask(ctx context.Context, conn net.Conn, t oob.Type, receiver, edge int, payload any) (net.Conn, *oob.Frame, error) {
	deadline := time.Now().Add(handshakeTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = conn.SetDeadline(deadline) // fails on a closed connection only, as the write will
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	start, call := time.Now(), oob.Call{For: t, Sender: p.own.rank, Receiver: receiver, Edge: edge}
	asked, err := p.unlock(conn, call)
	if err == nil {
		err = call.Write(asked, t, payload)
	}
	var f *oob.Frame
	if err == nil {
		f, err = oob.ReadGreeting(asked)
	}
	switch {
	case ctx.Err() != nil && err != nil:
		if short, ok := errors.AsType[*oob.ShortError](err); ok { // which says how far it came
			return nil, nil, short
		}
		return nil, nil, ctx.Err()
	case errors.Is(err, usage.Err):
		return nil, nil, err
	case err != nil:
		other := errors.Is(err, oob.ErrNotFrame)
		return nil, nil, &strangerError{explain(conn, err, time.Since(start).Round(10*time.Millisecond)), other}
	case f.Version != oob.Version && f.Type != TypeReject:
		return asked, f, versionError(f.Version)
	}
	if f.Type == TypeReject && p.own.cfg.Token == nil {
		if r, err := oob.Decode[rejection](f); err == nil && r.Token != "" {
			return nil, nil, p.troubleAt(receiver, r.Token)
		}
	}
	return asked, f, nil
}

func versionError(version int) error {
	return fmt.Errorf("speaks version %d of the bootstrap protocol, expected %d, which must match: install the same ringcli on both", version, oob.Version)
}

// troubleAt says at a dialler what keeps it from a peer.
func (p *prober) troubleAt(peer int, why oob.TokenTrouble) error {
	return why.Told(p.own.name(peer), p.own.name(p.own.rank), sameToken)
}

// unlock has the listener at the other end of a connection prove that it has the token,
// once this rank has. Without a token it does nothing.
func (p *prober) unlock(conn net.Conn, call oob.Call) (net.Conn, error) {
	sealed, err := oob.Unlock(conn, p.own.cfg.Token, call, func(asked oob.Type, f *oob.Frame) error {
		switch {
		case f.Type == TypeReject:
			r, err := oob.Decode[rejection](f)
			switch {
			case err != nil:
				return err
			case r.Token != "":
				return r.Token
			}
			return &oob.TokenError{Code: r.FailureCode(), Text: r.Text} // of another version
		case f.Version != oob.Version:
			return versionError(f.Version)
		}
		return fmt.Errorf("answered a %s with a %q frame", asked, f.Type)
	})
	if why, ok := errors.AsType[oob.TokenTrouble](err); ok {
		err = p.troubleAt(call.Receiver, why)
	}
	return sealed, err
}

// callAgain calls a neighbour anew; "" is that nothing can be said.
func (p *prober) callAgain(rank int) verdict.Outcome {
	ctx, cancel := awake(p.life.ring, p.own.pace.call)
	defer cancel()
	conn, err := p.reach(ctx, p.own.at(rank))
	if _, mute := errors.AsType[*muteError](err); mute {
		return verdict.CallMute
	} else if errors.Is(err, errRefused) {
		return verdict.CallRefused
	} else if err != nil {
		return "" // out of descriptors, or the like: the own fault
	}
	defer func() { _ = conn.Close() }()
	// A host answers at once, a process when it gets the CPU.
	ctx, cancel = awake(p.life.ring, p.own.pace.suspect)
	defer cancel()
	instance := p.members.of(rank).Instance
	_, f, err := p.ask(ctx, conn, TypeProbe, rank, p.own.rank, probe{Digest: p.own.digest, Instance: instance})
	if err != nil || f.Type != TypeState {
		return verdict.CallOpen
	}
	if s, err := oob.Decode[status](f); err != nil || !s.Itself {
		return verdict.CallOther
	}
	return verdict.CallAnswered
}
