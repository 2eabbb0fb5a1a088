// Package cpu says on which CPUs threads that poll run.
package cpu

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Allowed lists the CPUs that the calling thread may run on.
func Allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	cpus := make([]int, 0, set.Count())
	for cpu := 0; len(cpus) < cap(cpus); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// current is the CPU that the calling thread runs on.
func current() (int, error) {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return 0, errno
	}
	return int(cpu), nil
}

// Affinity is the CPU that a rank's polling thread comes back to where the ranks of a host
// are as many as its CPUs, or more. None of them ever sleeps, and so the kernel sees
// little reason to move one: it leaves three of four on one of two CPUs for tens of
// milliseconds, which costs a third of the time. An Affinity is a hint, not a binding: the
// thread may run on all CPUs that it might run on before.
//
// It is safe for concurrent use. A nil Affinity does nothing.
type Affinity struct {
	cpu  int
	kept atomic.Int64 // when it was looked at last, in nanoseconds since made
	made time.Time
}

// restoreEvery is how often an Affinity is looked at: a look takes 0.3 us, a move some 10.
const restoreEvery = 20 * time.Millisecond

// NewAffinity gives out the CPUs in turn: index counts the ranks of this host, from 0. It
// returns nil where there are more CPUs than ranks, or the CPUs are not known: the
// kernel finds an idle one by itself.
func NewAffinity(index, ranks int) *Affinity {
	cpus, err := Allowed()
	if err != nil || len(cpus) < 2 || ranks < len(cpus) {
		return nil
	}
	return &Affinity{cpu: cpus[index%len(cpus)], made: time.Now()}
}

// CPU is the one, numbered as in /proc/cpuinfo.
func (s *Affinity) CPU() int { return s.cpu }

// Restore brings the calling thread back to its CPU if it has left it and if it was not
// looked at for a while before now.
func (s *Affinity) Restore(now time.Time) {
	if s == nil {
		return
	}
	at, last := int64(now.Sub(s.made)), s.kept.Load()
	if at-last < int64(restoreEvery) || !s.kept.CompareAndSwap(last, at) {
		return
	}
	runtime.LockOSThread() // so that it is one thread throughout
	defer runtime.UnlockOSThread()
	var allowed, own unix.CPUSet
	if running, err := current(); err != nil || running == s.cpu || unix.SchedGetaffinity(0, &allowed) != nil || !allowed.IsSet(s.cpu) {
		return // or somebody has bound the thread elsewhere
	}
	own.Set(s.cpu)
	if unix.SchedSetaffinity(0, &own) == nil {
		_ = unix.SchedSetaffinity(0, &allowed)
	}
}
