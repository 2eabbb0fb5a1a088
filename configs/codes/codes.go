// Package codes has the codes of all failures that a command can end in: what scripts
// match, and what help, the manual and the JSON Schema say of each. It is one table; an
// error carries its code from where it is made, and nothing is decided by its text.
package codes

import (
	"errors"
	"fmt"
	"slices"
)

// Code says why a command failed. Scripts match it: it stays what it is.
type Code string

// What the ring's verdict says.
const (
	Lost      Code = "lost"
	Silent    Code = "silent"
	Stopped   Code = "stopped"
	Isolated  Code = "isolated"
	Edge      Code = "edge"
	Left      Code = "left"
	Corrupt   Code = "corrupt"
	Mismatch  Code = "mismatch"
	Timeout   Code = "timeout"
	Failed    Code = "failed"
	Canceled  Code = "canceled"
	Regrouped Code = "regrouped"
)

// What keeps a ring from coming up.
const (
	Absent           Code = "absent"
	Unreachable      Code = "unreachable"
	Version          Code = "version-mismatch"
	List             Code = "list-mismatch"
	Token            Code = "token"
	PortTaken        Code = "port-taken"
	AddressForeign   Code = "address-foreign"
	DuplicateAddress Code = "duplicate-address"
	HostUnknown      Code = "host-unknown"
	NoDevice         Code = "no-device"
	NoGID            Code = "no-gid"
	PortDown         Code = "port-down"
	Device           Code = "device-failed"
	DeviceMismatch   Code = "device-mismatch"
	AddressMismatch  Code = "address-mismatch"
	MTU              Code = "mtu-mismatch"
	Modify           Code = "modify-refused"
)

// What this machine does not let the process have.
const (
	Memlock     Code = "memlock"
	Memory      Code = "no-memory"
	Descriptors Code = "descriptors"
	Threads     Code = "threads"
	Permission  Code = "permission"
)

// How a work request fails.
const (
	RetryExceeded   Code = "retry-exceeded"
	RNRExceeded     Code = "rnr-exceeded"
	RemoteAccess    Code = "remote-access"
	RemoteInvalid   Code = "remote-invalid"
	RemoteOperation Code = "remote-operation"
	ReceiveTooShort Code = "receive-too-short"
	LocalProtection Code = "local-protection"
	Flushed         Code = "flushed"
	Completion      Code = "completion"
	Overrun         Code = "overrun"
)

// How an operation fails, and what is asked for.
const (
	Calls         Code = "calls-differ"
	Protocol      Code = "protocol"
	WrongData     Code = "wrong-data"
	Slow          Code = "slow"
	Preflight     Code = "preflight"
	Path          Code = "path-fault"
	Expectation   Code = "expectation"
	Usage         Code = "usage"
	Configuration Code = "configuration"
	Order         Code = "order"
	Busy          Code = "busy"
	Output        Code = "output"
	Interrupted   Code = "interrupted"
	Terminated    Code = "terminated"
	Panic         Code = "panic"
)

// Of returns the code that an error carries: the outermost, where it wraps several. One that
// is not in the table, as another process may send, is Failed.
func Of(err error) (Code, bool) {
	var coded interface{ FailureCode() Code }
	if !errors.As(err, &coded) {
		return "", false
	}
	f, known := Find(string(coded.FailureCode()))
	if !known {
		return Failed, true
	}
	return f.Code, true
}

// With gives an error a code; nil stays nil.
func With(code Code, err error) error {
	if err == nil {
		return nil
	}
	return &marked{err, code}
}

type marked struct {
	error
	code Code
}

func (m *marked) Unwrap() error     { return m.error }
func (m *marked) FailureCode() Code { return m.code }

// Failure is what a code stands for.
type Failure struct {
	Code  Code
	Exits []int  // the exit codes that come with it
	What  string // in a few words
	Named string // who is named
	Cause string
	Cure  string
}

// Exit is the exit codes, for people.
func (f Failure) Exit() string {
	text := ""
	for i, code := range f.Exits {
		if i > 0 {
			text += " or "
		}
		text += fmt.Sprint(code)
	}
	return text
}

// All returns the table, in the order that people look for something.
func All() []Failure { return slices.Clone(table) }

// Find returns what a code stands for, and whether it is one.
func Find(code string) (Failure, bool) {
	i := slices.IndexFunc(table, func(f Failure) bool { return string(f.Code) == code })
	if i < 0 {
		return Failure{}, false
	}
	return table[i], true
}

// Names are all codes.
func Names() []string {
	var names []string
	for _, f := range table {
		names = append(names, string(f.Code))
	}
	return names
}
