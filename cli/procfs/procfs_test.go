package procfs

import (
	"os"
	"testing"
	"testing/fstest"
)

const available = "MemTotal:       24000000 kB\nMemAvailable:   2000000 kB\n"

// What is available is what the kernel estimates, or what the tightest control group on the
// way up leaves, of either version.
func TestAvailableMemory(t *testing.T) {
	const (
		v2 = "30 22 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
		v1 = "34 30 0:31 /docker/1f /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	)
	for name, c := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"no group": {map[string]string{}, 2000000 << 10},
		"no limit": {map[string]string{
			"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.max": "max\n", "sys/fs/cgroup/job/memory.current": "5\n",
		}, 2000000 << 10},
		"version 2, and files that it can give up": {map[string]string{
			"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.max": "1000000\n",
			"sys/fs/cgroup/job/memory.current": "900000\n", "sys/fs/cgroup/job/memory.stat": "anon 1\ninactive_file 300000\n",
		}, 400000},
		"the group above": {map[string]string{
			"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/job/rank\n", "sys/fs/cgroup/job/rank/memory.max": "1000000\n",
			"sys/fs/cgroup/job/memory.max": "2000000\n", "sys/fs/cgroup/job/memory.current": "1999000\n",
		}, 1000},
		"version 1": {map[string]string{
			"proc/self/mountinfo": v1, "proc/self/cgroup": "4:memory:/docker/1f\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000000\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "700000\n", "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 100000\n",
		}, 400000},
		"version 1 without a limit": {map[string]string{
			"proc/self/mountinfo": v1, "proc/self/cgroup": "4:memory:/docker/1f\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 2000000 << 10},
		"more in use than the limit": {map[string]string{
			"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.max": "1000\n", "sys/fs/cgroup/job/memory.current": "2000\n",
		}, 0},
	} {
		files := fstest.MapFS{"proc/meminfo": {Data: []byte(available)}}
		for path, text := range c.files {
			files[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got, known := AvailableMemory(files); got != c.want || !known {
			t.Errorf("%s: %d bytes, %t: expected %d", name, got, known, c.want)
		}
	}
	if got, known := AvailableMemory(fstest.MapFS{}); known {
		t.Errorf("%d bytes where nothing says so", got)
	}
	if got, known := AvailableMemory(os.DirFS("/")); !known || got < 1<<20 {
		t.Errorf("this machine: %d bytes, %t", got, known)
	}
}
