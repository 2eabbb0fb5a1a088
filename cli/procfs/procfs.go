// Package procfs reads files of /proc and /sys: single values, and the memory that the kernel and
// the control groups leave to this process. Paths begin at the root, without its slash.
package procfs

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Groups are the directories of this process's control groups that have a controller, its
// own first and then all above it, whose limits hold too; and whether they are of version 2
// (cgroups(7), proc_pid_mountinfo(5)).
func Groups(files fs.FS, controller string) (dirs []string, v2 bool) {
	own := map[string]string{} // by controller; "" is version 2
	for line := range strings.Lines(Text(files, "proc/self/cgroup")) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			own[c] = f[2]
		}
	}
	_, first := own[controller]
	for line := range strings.Lines(Text(files, "proc/self/mountinfo")) {
		before, after, _ := strings.Cut(line, " - ")
		mount, kind := strings.Fields(before), strings.Fields(after)
		if len(mount) < 5 || len(kind) < 3 {
			continue
		}
		place, here := own[""], kind[0] == "cgroup2" && !first
		if kind[0] == "cgroup" && first {
			place, here = own[controller], slices.Contains(strings.Split(kind[2], ","), controller)
		}
		if !here {
			continue
		}
		root, top := mount[3], strings.TrimPrefix(mount[4], "/")
		inside, within := strings.CutPrefix(place, strings.TrimSuffix(root, "/"))
		if !within {
			inside = "/" // of a container, whose own group is what is mounted
		}
		for dir := path.Join(top, inside); dir == top || strings.HasPrefix(dir, top+"/"); dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
		return dirs, !first
	}
	return nil, false
}

// MemoryLimit is the limit of a control group on the memory of its processes.
type MemoryLimit struct {
	File  string // that has the limit
	Bytes uint64
	Used  uint64 // without the files that the kernel gives up first
}

// Free is what the group leaves.
func (l MemoryLimit) Free() uint64 { return l.Bytes - min(l.Used, l.Bytes) }

// MemoryLimits are the limits of this process's control groups on memory, its own group's
// first. in is false if it is in no group that can limit memory.
func MemoryLimits(files fs.FS) (limits []MemoryLimit, in bool) {
	dirs, v2 := Groups(files, "memory")
	limit, usage, idle := "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
	if v2 {
		limit, usage, idle = "memory.max", "memory.current", "inactive_file"
	}
	for _, dir := range dirs {
		bytes, ok := Limit(files, path.Join(dir, limit))
		if !ok {
			continue
		}
		used, _ := Number(files, path.Join(dir, usage))
		cached, _ := parse(Field(files, path.Join(dir, "memory.stat"), idle))
		limits = append(limits, MemoryLimit{path.Join(dir, limit), bytes, used - min(used, cached)})
	}
	return limits, len(dirs) > 0
}

// noLimit is where version 1 begins to mean "none": the largest number of whole pages.
const noLimit = 1 << 62

// Limit reads the file of a limit; false if there is none, which version 2 calls "max".
func Limit(files fs.FS, path string) (limit uint64, ok bool) {
	limit, ok = Number(files, path)
	return limit, ok && limit < noLimit
}

// AvailableMemory is how many bytes this process can take without swapping: what the kernel
// estimates (MemAvailable of /proc/meminfo, proc(5)), or what its control groups leave if that
// is less. False if the kernel does not say.
func AvailableMemory(files fs.FS) (bytes uint64, known bool) {
	kib, known := parse(Field(files, "proc/meminfo", "MemAvailable"))
	if !known {
		return 0, false
	}
	bytes = kib << 10
	limits, _ := MemoryLimits(files)
	for _, l := range limits {
		bytes = min(bytes, l.Free())
	}
	return bytes, true
}

// Field reads a line "key value" or "key: value unit" of a file; empty if there is none.
func Field(files fs.FS, path, key string) string {
	for line := range strings.Lines(Text(files, path)) {
		if f := strings.Fields(line); len(f) > 1 && strings.TrimSuffix(f[0], ":") == key {
			return f[1]
		}
	}
	return ""
}

// Text reads a file of one line; empty if it cannot be read.
func Text(files fs.FS, path string) string {
	b, _ := fs.ReadFile(files, path)
	return strings.TrimSpace(string(b))
}

// Number reads a file of a number.
func Number(files fs.FS, path string) (uint64, bool) { return parse(Text(files, path)) }

func parse(text string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
}
