package trace

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// shared says that a launcher's ranks share the streams.
var shared atomic.Bool

// ShareStreams makes no stream count as a terminal from now on: a launcher has started this
// process as a rank, and the other ranks write to the same streams.
func ShareStreams() { shared.Store(true) }

// IsTerminal reports whether a stream leads to a terminal that a person looks at. One without
// a size is such a terminal only where standard input is one, too: a serial line, or that of
// `docker exec -it`, which gets its size a moment later. Open MPI gives each rank's standard
// output a pseudo-terminal of 0 x 0, also where mpirun writes to a file.
func IsTerminal(stream any) bool {
	_, ok := look(stream, os.Stdin)
	return ok
}

// TerminalColumns returns how many columns a stream's terminal has; 0 if it has none, or IsTerminal
// does not count it as one.
func TerminalColumns(stream any) int {
	columns, _ := look(stream, os.Stdin)
	return columns
}

func look(stream, input any) (columns int, ok bool) {
	if shared.Load() {
		return 0, false
	}
	columns, ok = columnsOf(stream)
	if ok && columns == 0 {
		_, ok = columnsOf(input)
	}
	return columns, ok
}

// columnsOf returns the columns of a terminal, 0 if its size is not known, and whether a stream is one.
func columnsOf(stream any) (columns int, ok bool) {
	f, ok := stream.(interface{ Fd() uintptr })
	if !ok {
		return 0, false
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	if size.Row == 0 {
		return 0, true
	}
	return int(size.Col), true
}
