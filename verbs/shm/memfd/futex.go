package memfd

import (
	"fmt"
	"math"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of futex(2) on words that processes share, so without
// FUTEX_PRIVATE_FLAG.
const (
	futexWait = 0
	futexWake = 1
)

// ErrTimeout is the error of a Wait whose time has passed; it is
// os.ErrDeadlineExceeded.
var ErrTimeout = fmt.Errorf("futex: %w", os.ErrDeadlineExceeded)

// Wait sleeps until another process wakes the word, at most for timeout, if the
// word is value; else it returns at once. It may return early: check the word.
// The word lies in an arena or a view of one.
func Wait(word *uint32, value uint32, timeout time.Duration) error {
	limit := unix.NsecToTimespec(int64(max(timeout, 0)))
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(value),
		uintptr(unsafe.Pointer(&limit)), 0, 0)
	switch errno {
	case 0, unix.EAGAIN, unix.EINTR: // woken, not value, a signal
		return nil
	case unix.ETIMEDOUT:
		return ErrTimeout
	}
	return fmt.Errorf("wait on a word of shared memory: futex: %w", errno)
}

// Wake wakes up to n waiters of the word, in whichever process; all if n is
// math.MaxInt32.
func Wake(word *uint32, n int) error {
	// It never blocks, so the scheduler need not be told.
	_, _, errno := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake,
		uintptr(min(n, math.MaxInt32)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("wake waiters on a word of shared memory: futex: %w", errno)
	}
	return nil
}
