package memfd

import (
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

// Wait sleeps until another process wakes the word, at most for timeout, if the
// word is value; else it returns at once. It may return early: check the word.
// The word lies in an arena or a view of one. ETIMEDOUT: the time has passed.
func Wait(word *uint32, value uint32, timeout time.Duration) error {
	limit := unix.NsecToTimespec(int64(max(timeout, 0)))
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(value),
		uintptr(unsafe.Pointer(&limit)), 0, 0)
	switch errno {
	case 0, unix.EAGAIN, unix.EINTR: // woken, not value, a signal
		return nil
	}
	return errno
}

// Wake wakes one waiter of the word, in whichever process.
func Wake(word *uint32) error {
	// It never blocks, so the scheduler need not be told.
	if _, _, errno := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
