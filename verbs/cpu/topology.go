package cpu

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Near lists the CPUs that this process may run on in the order in which ranks are
// to take them: close ones side by side, and of the threads of one core, which share what a
// rank needs whole, the first of each before the second of any.
func Near() ([]int, error) {
	cpus, err := Allowed()
	if err != nil {
		return nil, err
	}
	return near(cpus), nil
}

// sysfs has a directory for each CPU. Tests have one of their own.
var sysfs = "/sys/devices/system/cpu"

func directory(cpu int) string { return fmt.Sprintf("%s/cpu%d", sysfs, cpu) }

// near sorts them by what sysfs shows; what it does not show makes no difference.
func near(cpus []int) []int {
	type place struct{ cpu, thread, socket, cache int }
	places := make([]place, len(cpus))
	for i, cpu := range cpus {
		read := func(name string) string {
			text, _ := os.ReadFile(filepath.Join(directory(cpu), name))
			return strings.TrimSpace(string(text))
		}
		p := place{cpu: cpu}
		p.socket, _ = strconv.Atoi(read("topology/physical_package_id"))
		if shared, err := ParseList(read("cache/index3/shared_cpu_list")); err == nil {
			p.cache = shared[0]
		}
		threads, _ := ParseList(read("topology/thread_siblings_list"))
		for _, t := range threads {
			if t < cpu && slices.Contains(cpus, t) {
				p.thread++
			}
		}
		places[i] = p
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.thread, b.thread), cmp.Compare(a.socket, b.socket), cmp.Compare(a.cache, b.cache), cmp.Compare(a.cpu, b.cpu))
	})
	for i, p := range places {
		cpus[i] = p.cpu
	}
	return cpus
}

// mostCPUs is what Linux can be built for.
const mostCPUs = 8192

// ParseList reads a list of CPUs as the kernel and taskset write it: 0-3,8. Its order is kept.
func ParseList(text string) (cpus []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		lo, err := strconv.ParseUint(first, 10, 16)
		hi := lo
		if isRange && err == nil {
			hi, err = strconv.ParseUint(last, 10, 16)
		}
		if err != nil || hi < lo || hi >= mostCPUs {
			return nil, errors.New("expected CPUs as in 0-3,8")
		}
		for cpu := int(lo); cpu <= int(hi); cpu++ {
			if slices.Contains(cpus, cpu) {
				return nil, fmt.Errorf("CPU %d stands there twice", cpu)
			}
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// FormatList writes a list of CPUs in its order, as ParseList reads it.
func FormatList(cpus []int) string {
	var b strings.Builder
	for i := 0; i < len(cpus); {
		last := i
		for last+1 < len(cpus) && cpus[last+1] == cpus[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(cpus[i]))
		if last > i {
			fmt.Fprintf(&b, "-%d", cpus[last])
		}
		i = last + 1
	}
	return b.String()
}
