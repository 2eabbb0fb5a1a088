package bootstrap

import (
	"errors"
	"fmt"
	"net"

	"ringcli/configs/codes"
	"ringcli/ring/bootstrap/oob"
)

const sameToken = "give all ranks the same --token-file or RINGCLI_TOKEN"

// troubleAt says at a dialler what keeps it from a peer.
func (c *Control) troubleAt(peer int, why oob.TokenTrouble) error {
	return why.Told(c.name(peer), c.name(c.rank), sameToken)
}

// unlock has the listener at the other end of a connection prove that it has the token,
// once this rank has. Without a token it does nothing.
func (c *Control) unlock(conn net.Conn, call oob.Call) (net.Conn, error) {
	sealed, err := oob.Unlock(conn, c.cfg.Token, call, func(asked oob.Type, f *oob.Frame) error {
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
		err = c.troubleAt(call.Receiver, why)
	}
	return sealed, err
}

// admit has a caller prove that it has the token, where this rank has one, and returns
// the connection with the first frame of what it came for. The error is for the trace: the
// caller has been told what it may know.
func (c *Control) admit(conn net.Conn, f *oob.Frame) (net.Conn, *oob.Frame, error) {
	sealed, first, err := oob.Admit(conn, c.cfg.Token, f)
	if why, ok := errors.AsType[oob.TokenTrouble](err); ok {
		c.reject(conn, f, rejection{Verdict: Verdict{Kind: KindMismatch, Code: codes.Token, Rank: -1, By: c.rank, Text: why.Error()}, Token: why})
		err = why.Told(c.name(c.rank), fmt.Sprintf("who calls as rank %d", f.Sender), sameToken)
	}
	return sealed, first, err
}
