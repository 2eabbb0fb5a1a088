package doctor

import (
	"testing"

	"golang.org/x/sys/unix"

	"ringcli/cli/exit"
	"ringcli/configs/codes"
)

func noLimits(_ *testing.T, f *fake) {
	f.Limit = func(int) (unix.Rlimit, error) { return unix.Rlimit{}, unix.EPERM }
}

var limitsCases = []provocation{
	{"memlock below the slots", func(t *testing.T, f *fake) { f.rlimit[unix.RLIMIT_MEMLOCK] = unix.Rlimit{Cur: 64 << 10} }, "memlock", Fail, codes.Memlock, "64 KiB", "ulimit -l unlimited"},
	{"memlock above the slots", func(t *testing.T, f *fake) { f.rlimit[unix.RLIMIT_MEMLOCK] = unix.Rlimit{Cur: 1 << 30} }, "memlock", Warn, codes.Memlock, "1024 MiB", "ulimit -l unlimited"},
	{"memlock and CAP_IPC_LOCK", func(t *testing.T, f *fake) {
		f.rlimit[unix.RLIMIT_MEMLOCK] = unix.Rlimit{Cur: 64 << 10}
		f.write("proc/self/status", "CapEff:\t0000000000004000")
	}, "memlock", Pass, "", "CAP_IPC_LOCK", ""},
	{"memlock without a device", func(t *testing.T, f *fake) { f.software(); f.rlimit[unix.RLIMIT_MEMLOCK] = unix.Rlimit{} }, "memlock", Skip, "", "no RDMA device", ""},
	{"no memfd", func(t *testing.T, f *fake) { f.Memfd = func() error { return unix.EPERM } }, "shared-memory", Warn, codes.Permission, "not permitted", "ringcli devices"},
	{"more ranks than CPUs", func(t *testing.T, f *fake) { f.cpus = 2; f.list(t, "node0,node0,node0", 0) }, "cpus", Warn, codes.Slow, "2 CPUs for 3 ranks", "taskset"},
	{"threads", func(t *testing.T, f *fake) { f.Room = func(int) error { return exit.Codedf(codes.Threads, "too few") } }, "threads", Fail, codes.Threads, "too few", "ulimit -u"},
	{"little memory", func(t *testing.T, f *fake) { f.write("proc/meminfo", "MemAvailable: 1024 kB") }, "memory", Warn, codes.Memory, "1024 KiB available", "ps"},
	{"few files", func(t *testing.T, f *fake) { f.rlimit[unix.RLIMIT_NOFILE] = unix.Rlimit{Cur: 40, Max: 4096} }, "open-files", Fail, codes.Descriptors, "40", "ulimit -n 1024"},
	{"some files, and a hard limit", func(t *testing.T, f *fake) { f.rlimit[unix.RLIMIT_NOFILE] = unix.Rlimit{Cur: 256, Max: 256} }, "open-files", Warn, codes.Descriptors, "256", "ulimit -n 1024  # by root: the hard limit is 256"},
	{"no huge pages", func(t *testing.T, f *fake) {
		f.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]")
	}, "huge-pages", Warn, codes.Slow, "never", "echo madvise > /sys/kernel/mm"},
	{"a kernel without", func(t *testing.T, f *fake) { f.remove("sys/kernel") }, "huge-pages", Skip, "", "no transparent", ""},
	{"a clock that runs free", func(t *testing.T, f *fake) { f.Clock = func(*unix.Timex) (int, error) { return unix.TIME_ERROR, nil } }, "clock", Warn, codes.Preflight, "not synchronised", "timedatectl set-ntp true"},
	{"a clock that is not to be seen", func(t *testing.T, f *fake) { f.Clock = func(*unix.Timex) (int, error) { return 0, unix.EPERM } }, "clock", Skip, "", "adjtimex", ""},
	{"limits that cannot be read, of memory", noLimits, "memlock", Skip, "", "not permitted", ""},
	{"limits that cannot be read, of files", noLimits, "open-files", Skip, "", "not permitted", ""},
	{"no /dev/shm", func(_ *testing.T, f *fake) { f.remove("dev/shm") }, "shared-memory", Pass, "", "there is no /dev/shm", ""},
	{"CPUs that are not to be seen", func(_ *testing.T, f *fake) { f.CPUs = func() ([]int, error) { return nil, unix.EPERM } }, "cpus", Skip, "", "not permitted", ""},
	{"a kernel that does not say what memory is available", func(_ *testing.T, f *fake) { f.write("proc/meminfo", "MemTotal: 4 kB") }, "memory", Skip, "", "does not say", ""},
	{"a clock whose status says so", func(_ *testing.T, f *fake) {
		f.Clock = func(x *unix.Timex) (int, error) { x.Status = unix.STA_UNSYNC; return unix.TIME_OK, nil }
	}, "clock", Warn, codes.Preflight, "not synchronised", "timedatectl"},
}
