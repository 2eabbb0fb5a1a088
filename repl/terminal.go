package repl

import (
	"cmp"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"ringcli/trace"
)

// dumb tells whether the terminal understands no escape codes.
func dumb() bool {
	term := os.Getenv("TERM")
	return term == "" || term == "dumb"
}

// defaultWidth is assumed of a terminal without a size, such as a serial line, columns.
const defaultWidth = 80

// terminal is the settings of the terminal that lines are typed on.
type terminal struct {
	fd int

	mu    sync.Mutex
	found *unix.Termios // as it was before the shell; nil if it is so now
}

// cooked makes Ctrl-C a signal, which it is on any terminal that no other
// program left in disorder.
func (t *terminal) cooked() error {
	return t.set(func(now *unix.Termios) { now.Lflag |= unix.ISIG })
}

// raw hands over keys as they are pressed. Output is left as it is: a newline
// still begins a line.
func (t *terminal) raw() error {
	return t.set(func(now *unix.Termios) {
		now.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
		now.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
		now.Cflag = now.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
		now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
	})
}

func (t *terminal) set(change func(*unix.Termios)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.found == nil {
		found, err := unix.IoctlGetTermios(t.fd, unix.TCGETS)
		if err != nil {
			return os.NewSyscallError("TCGETS", err)
		}
		t.found = found
	}
	next := *t.found
	change(&next)
	return os.NewSyscallError("TCSETS", unix.IoctlSetTermios(t.fd, unix.TCSETS, &next))
}

// restore brings back what the shell found.
func (t *terminal) restore() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.found == nil {
		return nil
	}
	err := unix.IoctlSetTermios(t.fd, unix.TCSETS, t.found)
	t.found = nil
	return os.NewSyscallError("TCSETS", err)
}

// width is in columns.
func width(stream any) int {
	return cmp.Or(trace.TerminalColumns(stream), defaultWidth)
}

// waiter waits for a file descriptor to be readable, or to be woken.
type waiter struct {
	fd    int
	event *os.File // an eventfd
}

func newWaiter(fd int) (*waiter, error) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &waiter{fd, os.NewFile(uintptr(event), "eventfd")}, nil
}

// wake ends the wait that is going on, or the next one. It never waits.
func (w *waiter) wake() {
	// It fails if the counter is full: then there is a wake already.
	_, _ = w.event.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// wait waits until woken, or, if reading, until the file descriptor is readable
// or has ended; timeout is in ms, -1 for none.
func (w *waiter) wait(reading bool, timeout int) (readable bool, err error) {
	conn, err := w.event.SyscallConn()
	if err != nil {
		return false, err
	}
	var waitErr error
	err = conn.Control(func(event uintptr) {
		fds := []unix.PollFd{{Fd: int32(event), Events: unix.POLLIN}, {Fd: int32(w.fd), Events: unix.POLLIN}}
		if !reading {
			fds = fds[:1]
		}
		_, waitErr = unix.Poll(fds, timeout)
		if waitErr == unix.EINTR {
			waitErr = nil
			return
		}
		if fds[0].Revents != 0 {
			var counter [8]byte
			_, _ = unix.Read(int(event), counter[:]) // resets it
		}
		readable = reading && fds[1].Revents != 0
	})
	if err == nil {
		err = os.NewSyscallError("poll", waitErr)
	}
	return readable, err
}

// read reads what there is; 0 bytes without an error say that there will be more.
func (w *waiter) read(b []byte) (int, error) {
	n, err := unix.Read(w.fd, b)
	switch {
	case err == unix.EINTR || err == unix.EAGAIN:
		return 0, nil
	case err == unix.EIO: // a terminal that has hung up
		return 0, io.EOF
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (w *waiter) close() error { return w.event.Close() }
