package trace

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// shared says that a launcher's ranks share the streams.
var shared atomic.Bool

// ShareStreams makes no stream count as a terminal from now on: a launcher has started this
// process as a rank, and the other ranks write to the same streams.
func ShareStreams() { shared.Store(true) }

// IsTerminal reports whether a stream leads to a terminal that a person looks at. A terminal
// without a size is none: Open MPI gives each rank a pseudo-terminal of 0 x 0, also where
// mpirun writes to a file.
func IsTerminal(stream any) bool {
	columns, _ := TerminalSize(stream)
	return columns > 0
}

// TerminalSize returns the size of a stream's terminal, in characters; 0 and 0 if IsTerminal
// does not count it as one.
func TerminalSize(stream any) (columns, rows int) {
	f, ok := stream.(interface{ Fd() uintptr })
	if !ok || shared.Load() {
		return 0, 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}
