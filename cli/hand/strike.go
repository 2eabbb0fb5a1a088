package hand

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// endAbruptly ends this process with nothing said or closed.
func endAbruptly() error { return unix.Kill(unix.Getpid(), unix.SIGKILL) }

// stopFor stops this process, all threads of it. A timer of the kernel's continues it, again and
// again until this returns: on a busy machine the first time may come before the stop.
func stopFor(d time.Duration) error {
	// struct sigevent of <asm-generic/siginfo.h>: SIGEV_SIGNAL is 0.
	event := struct {
		value  uintptr
		signo  int32
		notify int32
		_      [48]byte
	}{signo: int32(unix.SIGCONT)}
	var timer int32
	if _, _, e := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&timer))); e != 0 {
		return fmt.Errorf("timer_create, to go on after a stop: %w", e)
	}
	defer func() { _, _, _ = unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(timer), 0, 0) }()
	at := struct{ interval, value unix.Timespec }{
		interval: unix.NsecToTimespec(int64(10 * time.Millisecond)),
		value:    unix.NsecToTimespec(int64(d)),
	}
	// A thread that signals itself is stopped before the call returns; a process may be later.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, e := unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(timer), 0, uintptr(unsafe.Pointer(&at)), 0, 0, 0); e != 0 {
		return fmt.Errorf("timer_settime, to go on after a stop: %w", e)
	}
	return unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGSTOP)
}
