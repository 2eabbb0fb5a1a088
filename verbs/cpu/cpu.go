// Package cpu says on which CPUs threads that poll run.
package cpu

import (
	"fmt"
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

const (
	// A sched_yield that takes this long let somebody run: where nobody wants the CPU it
	// takes 0.3 to 1 us, which changes with what shares the core, and from 2 us on where
	// somebody does.
	crowded = 3 * time.Microsecond
	// The same where few yields are timed: crowdedTimes as long as the quickest, or
	// crowdedRarely.
	crowdedTimes, crowdedRarely = 4, 1600 * time.Nanosecond
	// yieldsTimed: the first of so many yields of a wait may be timed. Where the clock is
	// a device (acpi_pm, as in emulated machines) reading it costs more than all else
	// that a look takes, and in a long wait one is as good as sixteen.
	yieldsTimed = 16
)

// Spin is adaptive spinning, of a thread that waits for what other threads or the
// network do: it looks, looks again at once for a while, and then lets other processes
// run between two looks. It learns for how long: fewer looks each time that a yield
// shows that threads outnumber CPUs, where a spin only keeps the one that is waited for
// from running; more each time that it does not.
//
// Use: look; if there is nothing, Next and, unless that is 0 or less, Yield, and look
// again; else Reset. It belongs to one goroutine. The zero value learns from its first
// yield on.
type Spin struct {
	Max int // looks before the first yield
	// Rarely: of the yields that might be timed one in sixteen is, for waits that take
	// less than two readings of the clock; it counts for more.
	Rarely bool
	// Affinity is where the thread comes back to when it yields.
	Affinity *Affinity

	idle       int           // looks since Reset
	spins      int           // at present
	candidates int           // yields that might have been timed
	quick      time.Duration // the quickest that was; 0: none was
}

// NewSpin begins with the most looks.
func NewSpin(most int, rarely bool, affinity *Affinity) Spin {
	return Spin{Max: most, Rarely: rarely, Affinity: affinity, spins: most}
}

// Next counts a look that found nothing, and returns how many yields are due since
// Reset: none while it is 0 or less.
func (s *Spin) Next() (yields int) {
	s.idle++
	return s.idle - s.spins
}

// Yielding tells whether a yield was due since Reset.
func (s *Spin) Yielding() bool { return s.idle > s.spins }

// Reset starts over, after a look that found something.
func (s *Spin) Reset() { s.idle = 0 }

// Yield gives the CPU to another process and learns, now and then, whether one
// wanted it.
func (s *Spin) Yield() {
	if (s.idle-s.spins)%yieldsTimed == 1 {
		s.candidates++
		if !s.Rarely || s.candidates%yieldsTimed == 1 {
			s.learn()
			return
		}
	}
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}

// learn yields with an eye on the clock.
func (s *Spin) learn() {
	begun := time.Now()
	if s.Affinity.Restore(begun) {
		begun = time.Now()
	}
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	took, before := time.Since(begun), s.spins
	if s.quick == 0 || took < s.quick {
		s.quick = took
	}
	limit := crowded
	if s.Rarely {
		limit = min(crowdedTimes*s.quick, crowdedRarely)
	}
	switch {
	case took > limit:
		s.spins /= 2
	case s.Rarely:
		s.spins = min(2*s.spins+1, s.Max)
	default:
		s.spins = min(s.spins+1, s.Max)
	}
	s.idle += s.spins - before // the yields of this wait stay as many
}
