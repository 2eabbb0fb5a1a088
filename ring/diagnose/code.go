package diagnose

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/verbs"
)

// FailureCode is the code of an error of the ring or of what is below: what it carries, else
// what the device or the system said.
func FailureCode(err error) codes.Code {
	if code, ok := codes.Of(err); ok {
		return code
	}
	if e, ok := errors.AsType[*verbs.StatusError](err); ok {
		return StatusCode(e.Status)
	}
	if e, ok := errors.AsType[*verbs.ModifyError](err); ok {
		return modifyCode(e)
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok && e.Op == "write" && e.Path == os.Stdout.Name() {
		return codes.Output
	}
	for _, k := range kinds {
		if errors.Is(err, k.error) {
			return k.code
		}
	}
	if usage.Is(err) {
		return codes.Usage
	}
	return codes.Failed
}

// kinds are what errors may be that say no more, the most telling first.
var kinds = []struct {
	error
	code codes.Code
}{
	{verbs.ErrMemlock, codes.Memlock},
	{verbs.ErrNoGID, codes.NoGID},
	{verbs.ErrPortDown, codes.PortDown},
	{verbs.ErrOverrun, codes.Overrun},
	{syscall.EMFILE, codes.Descriptors},
	{syscall.ENFILE, codes.Descriptors},
	{syscall.EPERM, codes.Permission},
	{syscall.EACCES, codes.Permission},
	{syscall.EADDRINUSE, codes.PortTaken},
	{syscall.EADDRNOTAVAIL, codes.AddressForeign},
	{syscall.ECONNREFUSED, codes.Absent},
	{syscall.ENETUNREACH, codes.Unreachable},
	{syscall.EHOSTUNREACH, codes.Unreachable},
	{verbs.ErrNoDevice, codes.NoDevice},
	{verbs.ErrNoMemory, codes.Memory},
	{syscall.ENOMEM, codes.Memory},
	{verbs.ErrTimeout, codes.Timeout},
	{context.DeadlineExceeded, codes.Timeout},
	{context.Canceled, codes.Canceled},
}

var statusCodes = map[verbs.Status]codes.Code{
	verbs.LocalLengthError:     codes.ReceiveTooShort,
	verbs.LocalProtectionError: codes.LocalProtection,
	verbs.FlushError:           codes.Flushed,
	verbs.RemoteInvalidRequest: codes.RemoteInvalid,
	verbs.RemoteAccessError:    codes.RemoteAccess,
	verbs.RemoteOpError:        codes.RemoteOperation,
	verbs.RetryExceeded:        codes.RetryExceeded,
	verbs.RNRRetryExceeded:     codes.RNRExceeded,
}

// StatusCode is that of a completion.
func StatusCode(s verbs.Status) codes.Code {
	if code, ok := statusCodes[s]; ok {
		return code
	}
	return codes.Completion
}

// modifyCode tells by the attribute at fault, and by what the system said.
func modifyCode(e *verbs.ModifyError) codes.Code {
	switch {
	case errors.Is(e, syscall.ETIMEDOUT), errors.Is(e, syscall.ENETUNREACH), errors.Is(e, syscall.EHOSTUNREACH):
		return codes.Unreachable
	case e.Offender == verbs.AttrAV && (errors.Is(e, syscall.ENODEV) || errors.Is(e, syscall.EADDRNOTAVAIL)):
		return codes.NoGID
	case errors.Is(e, syscall.EPERM), errors.Is(e, syscall.EACCES):
		return codes.Permission
	case e.Offender == verbs.AttrPathMTU:
		return codes.MTU
	}
	return codes.Modify
}
