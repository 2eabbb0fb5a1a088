package session

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"ringcli/cli/exit"
	"ringcli/cli/procfs"
	"ringcli/configs/codes"
	"ringcli/verbs/memory"
)

const (
	// ThreadsEach is what a process of ringcli takes on a machine of few CPUs.
	ThreadsEach = 12
	// lowLimit is where counting begins: no machine's own limit is as low.
	lowLimit = 1 << 10
	// memoryEach is what a rank of many takes for itself alone, beside 1 KiB for each other one.
	memoryEach = 14 << 20
	// leastFiles is what a rank of two on one host has open. Who needs more says so then.
	leastFiles = 32
)

// RoomFor refuses to go on where this process may not have the files that it opens in any
// case, or the user not the threads of this process and of so many ranks: Go's runtime ends
// a program that gets none with a dump. It refuses, too, where a limit leaves this process too
// little memory, and where the machine has none for the ranks: the kernel would end one of them,
// or a process of somebody else.
func RoomFor(ranks int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < leastFiles {
		return exit.Codedf(codes.Descriptors, "a process may have %d files open (`ulimit -n`): expected %d or more, or some more with many ranks or buffers", limit.Cur, leastFiles)
	}
	if err := memory.RoomForThreads(ThreadsEach + runtime.GOMAXPROCS(0)); err != nil {
		return exit.Codedf(codes.Memory, "%w", err)
	}
	if ranks > 0 {
		if free, known := procfs.AvailableMemory(os.DirFS("/")); known && uint64(ranks)*memoryEach > free {
			return exit.Usagef("%d ranks take some %d MiB of memory: this machine has %d MiB available: expected %d ranks or fewer", ranks, ranks*memoryEach>>20, free>>20, free/memoryEach)
		}
	}
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err != nil || limit.Cur > lowLimit || os.Getuid() == 0 {
		return nil // root has no limit
	}
	taken, own := threadsOf("/proc", os.Getuid(), os.Getpid())
	if more := (ranks+1)*ThreadsEach - own; taken+more > int(limit.Cur) {
		what, fewer := "this process needs", "other processes"
		if ranks > 0 {
			what, fewer = fmt.Sprintf("%d ranks need", ranks), "ranks"
		}
		return exit.Codedf(codes.Threads, "this user may have %d threads (`ulimit -u`) and has %d: %s some %d more: expected a higher limit or fewer %s",
			limit.Cur, taken, what, more, fewer)
	}
	return nil
}

var uidAndThreads = regexp.MustCompile(`(?s)\nUid:\t(\d+)\t.*\nThreads:\t(\d+)\n`)

// threadsOf counts the threads of a real user, and those of one process.
func threadsOf(proc string, uid, pid int) (taken, own int) {
	files, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "status")) // the pattern is well formed
	for _, file := range files {
		status, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		fields := uidAndThreads.FindSubmatch(status)
		if fields == nil || string(fields[1]) != strconv.Itoa(uid) {
			continue
		}
		n, _ := strconv.Atoi(string(fields[2])) // digits
		taken += n
		if filepath.Base(filepath.Dir(file)) == strconv.Itoa(pid) {
			own = n
		}
	}
	return taken, own
}
