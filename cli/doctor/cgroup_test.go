package doctor

import (
	"testing"

	"ringcli/configs/codes"
)

var cgroupCases = []provocation{
	{"a quota, v2", func(t *testing.T, f *fake) {
		f.group("", map[string]string{"cpu.max": "max 100000", "../cpu.max": "50000 100000", "../cpu.stat": "nr_periods 9\nnr_throttled 7"})
	}, "cgroup-cpu", Warn, codes.Slow, "0.5 CPUs for 1 rank, held up 7 times", "echo max > /sys/fs/cgroup/job/cpu.max"},
	{"a quota, v1", func(t *testing.T, f *fake) {
		f.group("cpu", map[string]string{"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"})
	}, "cgroup-cpu", Warn, codes.Slow, "0.5 CPUs", "echo -1 > /sys/fs/cgroup/cpu/rank/cpu.cfs_quota_us"},
	{"a quota that is enough", func(t *testing.T, f *fake) { f.group("", map[string]string{"cpu.max": "200000 100000"}) }, "cgroup-cpu", Pass, "", "2 CPUs", ""},
	{"no quota", func(t *testing.T, f *fake) {
		f.group("cpu", map[string]string{"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"})
	}, "cgroup-cpu", Pass, "", "no limit", ""},
	{"memory, v2", func(t *testing.T, f *fake) { f.group("", map[string]string{"memory.max": "1048576"}) }, "cgroup-memory", Fail, codes.Memory, "1024 KiB, of which 0 are in use", "echo"},
	{"memory is used", func(t *testing.T, f *fake) {
		f.group("", map[string]string{"memory.max": "1073741824", "memory.current": "1073741824", "memory.stat": "inactive_file 1048576"})
	}, "cgroup-memory", Warn, codes.Memory, "1024 MiB, of which 1023 MiB are in use", "echo"},
	{"memory is files", func(t *testing.T, f *fake) {
		f.group("", map[string]string{"memory.max": "1073741824", "memory.current": "1073741824", "memory.stat": "anon 1\ninactive_file 1073741824"})
	}, "cgroup-memory", Pass, "", "of which 0 are in use", ""},
	{"memory, v1", func(t *testing.T, f *fake) {
		f.group("memory", map[string]string{"memory.limit_in_bytes": "1048576"})
	}, "cgroup-memory", Fail, codes.Memory, "1024 KiB", "echo"},
	{"no limit of memory, v1", func(t *testing.T, f *fake) {
		f.group("memory", map[string]string{"memory.limit_in_bytes": "9223372036854771712"})
	}, "cgroup-memory", Pass, "", "no limit", ""},
	{"pids", func(t *testing.T, f *fake) {
		f.group("pids", map[string]string{"pids.max": "100", "pids.current": "95"})
	}, "cgroup-pids", Fail, codes.Threads, "100, of which 95 are in use", "echo max > /sys/fs/cgroup/pids/rank/pids.max"},
	{"pids of the group above, v2", func(t *testing.T, f *fake) {
		f.group("", map[string]string{"pids.max": "10", "pids.current": "-", "../pids.max": "100", "../pids.current": "99"})
	}, "cgroup-pids", Fail, codes.Threads, "100, of which 99", "echo max > /sys/fs/cgroup/job/pids.max"},
	{"no group, of CPUs", func(*testing.T, *fake) {}, "cgroup-cpu", Skip, "", "no control group", ""},
	{"no group, of memory", func(*testing.T, *fake) {}, "cgroup-memory", Skip, "", "no control group", ""},
	{"no group, of pids", func(*testing.T, *fake) {}, "cgroup-pids", Skip, "", "no control group", ""},
}
