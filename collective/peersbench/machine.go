//go:build linux

package main

import (
	"os"
	"strconv"
	"strings"
)

// cpuModel is what the kernel calls the CPU.
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}

func kernelRelease() string { return firstLine("/proc/sys/kernel/osrelease") }

// hugePages is the system's setting: all contenders have pages of the same kind.
func hugePages() string {
	_, after, ok := strings.Cut(firstLine("/sys/kernel/mm/transparent_hugepage/enabled"), "[")
	if !ok {
		return "unknown"
	}
	chosen, _, _ := strings.Cut(after, "]")
	return chosen
}

func firstLine(path string) string {
	text, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// availableMemory is what the kernel reckons can be had without swapping, in bytes.
func availableMemory() uint64 {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, err := strconv.ParseUint(strings.Fields(value)[0], 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 1 << 40 // it does not say
}
