package memory

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// spare is the memory that Go's runtime is left with where that is limited, for its heap to grow
// and for threads: it ends with a dump where it gets none.
const spare = 192 << 20

// usualStack is what the C library gives a thread at most where stacks have no limit.
const usualStack = 8 << 20

// RoomForThreads refuses to go on where a limit leaves too little for this process to have so many
// threads. The C library maps the stack of a thread at once, as large as a stack may be
// (RLIMIT_STACK), so it counts as address space and as data.
func RoomForThreads(threads int) error {
	running, _ := os.ReadDir("/proc/self/task")
	threads = max(0, threads-len(running))
	var stack unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_STACK, &stack); err != nil || stack.Cur == unix.RLIM_INFINITY {
		stack.Cur = usualStack
	}
	return room(uint64(threads)*min(stack.Cur, 1<<40), true)
}

// room refuses what would leave too little of a limited address space or, of memory that only this
// process sees and writes, of limited data.
func room(size uint64, private bool) error {
	for _, l := range []struct {
		resource, field int // of getrlimit(2); of statm, proc(5)
		what, name      string
		counts          bool
	}{
		{unix.RLIMIT_AS, 0, "address space", "v", true},
		{unix.RLIMIT_DATA, 5, "data", "d", private},
	} {
		var limit unix.Rlimit
		if err := unix.Getrlimit(l.resource, &limit); err != nil || limit.Cur == unix.RLIM_INFINITY || !l.counts {
			continue
		}
		taken, known := taken(l.field)
		if known && (size > limit.Cur || taken+size+spare > limit.Cur) {
			return fmt.Errorf("the %s of a process is limited to %d MiB (`ulimit -%s`): expected %d MiB or more, or `ulimit -%s unlimited`: %w",
				l.what, limit.Cur>>20, l.name, (taken+size+spare)>>20+1, l.name, unix.ENOMEM)
		}
	}
	return nil
}

// taken is a field of /proc/self/statm, in bytes. Without /proc it is not known.
func taken(field int) (bytes uint64, known bool) {
	text, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) <= field {
		return 0, false
	}
	pages, err := strconv.ParseUint(fields[field], 10, 48)
	return pages * uint64(unix.Getpagesize()), err == nil
}
