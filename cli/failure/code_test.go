package failure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/collective"
	"ringcli/configs"
	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/repl"
	"ringcli/ring"
	"ringcli/ring/bootstrap"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// Each error has the code that its type, its errno or its mark says, and the exit code that
// the table has for it.
func TestCode(t *testing.T) {
	status := func(s verbs.Status) error { return fmt.Errorf("ping: %w", &ring.CompletionError{Status: s}) }
	verdict := func(k bootstrap.Kind) error {
		return fmt.Errorf("all-reduce: %w", &ring.Verdict{Kind: k, Rank: 2, Text: "said"})
	}
	modify := func(offender verbs.AttrMask, errno error) error {
		return &verbs.ModifyError{Offender: offender, Errno: errno}
	}
	for _, c := range []struct {
		err  error
		want codes.Code
	}{
		{verdict(bootstrap.KindLost), codes.Lost},
		{verdict(bootstrap.KindSilent), codes.Silent},
		{verdict(bootstrap.KindStopped), codes.Stopped},
		{verdict(bootstrap.KindIsolated), codes.Isolated},
		{verdict(bootstrap.KindEdge), codes.Edge},
		{verdict(bootstrap.KindLeft), codes.Left},
		{verdict(bootstrap.KindCorrupt), codes.Corrupt},
		{verdict(bootstrap.KindMismatch), codes.Mismatch},
		{verdict(bootstrap.KindTimeout), codes.Timeout},
		{verdict(bootstrap.KindFailed), codes.Failed},
		{verdict(bootstrap.KindCanceled), codes.Canceled},
		{verdict(bootstrap.KindRegrouped), codes.Regrouped},
		{&ring.Verdict{Kind: bootstrap.KindFailed, Code: codes.RetryExceeded}, codes.RetryExceeded},
		{status(verbs.LocalLengthError), codes.ReceiveTooShort},
		{status(verbs.LocalProtectionError), codes.LocalProtection},
		{status(verbs.FlushError), codes.Flushed},
		{status(verbs.RemoteInvalidRequest), codes.RemoteInvalid},
		{status(verbs.RemoteAccessError), codes.RemoteAccess},
		{status(verbs.RemoteOpError), codes.RemoteOperation},
		{status(verbs.RetryExceeded), codes.RetryExceeded},
		{status(verbs.RNRRetryExceeded), codes.RNRExceeded},
		{status(verbs.GeneralError), codes.Completion},
		{verbs.RetryExceeded.Err(), codes.RetryExceeded},
		{modify(verbs.AttrAV, syscall.ETIMEDOUT), codes.Unreachable},
		{modify(verbs.AttrAV, syscall.ENETUNREACH), codes.Unreachable},
		{modify(verbs.AttrAV, syscall.ENODEV), codes.NoGID},
		{modify(verbs.AttrPathMTU, nil), codes.MTU},
		{modify(0, syscall.EPERM), codes.Permission},
		{modify(verbs.AttrState, syscall.EINVAL), codes.Modify},
		{usage.If(fmt.Errorf("device: %w", verbs.ErrNoDevice), verbs.ErrNoDevice), codes.NoDevice},
		{verbs.OfKind(verbs.ErrNoGID, verbs.ErrInvalid), codes.NoGID},
		{verbs.OfKind(verbs.ErrPortDown, errors.New("DOWN")), codes.PortDown},
		{verbs.OfKind(verbs.ErrMemlock, verbs.ErrNoMemory), codes.Memlock},
		{verbs.ErrNoMemory, codes.Memory},
		{syscall.ENOMEM, codes.Memory},
		{verbs.ErrOverrun, codes.Overrun},
		{syscall.EMFILE, codes.Descriptors},
		{syscall.ECONNREFUSED, codes.Absent},
		{syscall.EHOSTUNREACH, codes.Unreachable},
		{&ring.DeviceError{}, codes.Device},
		{&ring.DisagreementError{}, codes.Calls},
		{exit.Usagef("%w", &session.CommandsError{}), codes.Calls},
		{&ring.CorruptionError{}, codes.Corrupt},
		{&ring.StallError{Blame: diagnose.Blame{Kind: diagnose.StallEdge}, Because: verbs.RetryExceeded.Err()}, codes.Edge},
		{&ring.StallError{Blame: diagnose.Blame{Kind: diagnose.StallWorks}}, codes.Timeout},
		{&ring.StepError{}, codes.Order},
		{exit.Usagef("%w", &session.BusyError{}), codes.Busy},
		{collective.ErrProtocol, codes.Protocol},
		{collective.ErrTimeout, codes.Timeout},
		{context.DeadlineExceeded, codes.Timeout},
		{&bootstrap.TimeoutError{What: "connect", Peers: []bootstrap.PeerReport{{State: "connection refused"}}}, codes.Absent},
		{&bootstrap.TimeoutError{What: "connect", Peers: []bootstrap.PeerReport{{Mute: true}}}, codes.Unreachable},
		{&bootstrap.TimeoutError{What: "connect", Cuts: []string{"the connections of rank 0 to rank 1 do not arrive"}}, codes.Unreachable},
		{&bootstrap.TimeoutError{What: "gather", Peers: []bootstrap.PeerReport{{}}}, codes.Timeout},
		{exit.Codedf(codes.Token, "the token"), codes.Token},
		{exit.Usagef("no such flag"), codes.Usage},
		{usage.Errorf("no such flag"), codes.Usage},
		{fmt.Errorf("x: %w", configs.ErrInvalid), codes.Configuration},
		{exit.Sharedf(exit.Warning, "slow"), codes.Slow},
		{exit.ErrInterrupted, codes.Interrupted},
		{exit.ErrTerminated, codes.Terminated},
		{&repl.SignalError{Signal: syscall.SIGTERM}, codes.Terminated},
		{&repl.SignalError{Signal: syscall.SIGHUP}, codes.Interrupted},
		{fmt.Errorf("x: %w", &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}), codes.Output},
		{&repl.PanicError{}, codes.Panic},
		{errors.New("anything"), codes.Failed},
	} {
		got := Code(c.err)
		if f, _ := codes.Find(string(got)); got != c.want || !slices.Contains(f.Exits, exit.Code(c.err)) {
			t.Errorf("%T, %v: %s, exit code %d: expected %s, %v", c.err, c.err, got, exit.Code(c.err), c.want, f.Exits)
		}
	}
}
