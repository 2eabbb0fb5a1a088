package doctor

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"ringcli/configs/codes"
	"ringcli/ring/diagnose"
)

// loadExam is what the ranks of this node take of it.
type loadExam struct {
	System
	node  machine
	ranks int
	needs uint64 // bytes that a rank registers at connect: the slots of all channels to both neighbours
}

const raiseMemlock = "ulimit -l unlimited  # limits.conf: memlock; systemd: LimitMEMLOCK=infinity; container: --ulimit memlock=-1"

func (e *loadExam) memlockRow() Preflight {
	limit, err := e.Limit(unix.RLIMIT_MEMLOCK)
	if err != nil {
		return skip("memlock", "", "%v", err)
	}
	value := "unlimited"
	if limit.Cur != unix.RLIM_INFINITY {
		value = size(limit.Cur)
	}
	expected := fmt.Sprintf("unlimited: the slots of a rank take %s, and vectors come on top", size(e.needs))
	switch {
	case len(e.node.kernelDevices()) == 0:
		return skip("memlock", "", "%s; no RDMA device here pins memory", value)
	case limit.Cur == unix.RLIM_INFINITY:
		return pass("memlock", "", "%s", value)
	case e.node.capable(unix.CAP_IPC_LOCK):
		return pass("memlock", "", "%s, and CAP_IPC_LOCK lifts it", value)
	case limit.Cur < e.needs:
		return finding(Fail, "memlock", "", value).but(codes.Memlock, expected, raiseMemlock)
	}
	return finding(Warn, "memlock", "", value).but(codes.Memlock, expected, raiseMemlock)
}

func (e *loadExam) memfdRow() Preflight {
	if err := e.Memfd(); err != nil {
		row := finding(Warn, "shared-memory", "", err.Error())
		return row.but(codes.Permission, "memfd_create", "ringcli devices  # ranks of this host send packets instead; a container's filter may refuse the call")
	}
	value := "memfd works"
	if len(e.node.list("dev/shm")) == 0 && !e.node.exists("dev/shm") {
		value += "; there is no /dev/shm, which ringcli does without"
	}
	return pass("shared-memory", "", "%s", value)
}

// Files that a process may have open: below the first a ring of four on one host ends, below
// the second many ranks or buffers do.
const (
	leastFiles  = 64
	enoughFiles = 1024
)

func (e *loadExam) fileRow() Preflight {
	limit, err := e.Limit(unix.RLIMIT_NOFILE)
	if err != nil {
		return skip("open-files", "", "%v", err)
	}
	fix := fmt.Sprintf("ulimit -n %d  # limits.conf: nofile; systemd: LimitNOFILE=", enoughFiles)
	if limit.Max < enoughFiles {
		fix = fmt.Sprintf("ulimit -n %d  # by root: the hard limit is %d; limits.conf: nofile; container: --ulimit nofile=", enoughFiles, limit.Max)
	}
	value := fmt.Sprint(limit.Cur)
	switch {
	case limit.Cur < leastFiles:
		return finding(Fail, "open-files", "", value).but(codes.Descriptors, fmt.Sprintf("%d or more", enoughFiles), fix)
	case limit.Cur < enoughFiles:
		return finding(Warn, "open-files", "", value).but(codes.Descriptors, fmt.Sprintf("%d or more, for many ranks", enoughFiles), fix)
	}
	return pass("open-files", "", "%s", value)
}

func (e *loadExam) threadRow() Preflight {
	if err := e.Room(e.ranks); err != nil {
		return finding(Fail, "threads", "", err.Error()).but(diagnose.FailureCode(err), "", "ulimit -u unlimited  # limits.conf: nproc; systemd: LimitNPROC=")
	}
	return pass("threads", "", "this user may have those of %s", counted(e.ranks, "rank"))
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (e *loadExam) cpuRow() Preflight {
	cpus, err := e.CPUs()
	if err != nil {
		return skip("cpus", "", "%v", err)
	}
	value := fmt.Sprintf("%s for %s", counted(len(cpus), "CPU"), counted(e.ranks, "rank"))
	if len(cpus) < e.ranks {
		return finding(Warn, "cpus", "", value).but(codes.Slow, "one each, since a rank polls",
			fmt.Sprintf("taskset -c 0-%d ringcli ...  # if this process was bound to fewer than there are; or fewer ranks here", e.ranks-1))
	}
	return pass("cpus", "", "%s", value)
}

func (e *loadExam) hugePageRow() Preflight {
	const file = "sys/kernel/mm/transparent_hugepage/enabled"
	_, after, found := strings.Cut(e.node.text(file), "[")
	mode, _, _ := strings.Cut(after, "]")
	if !found {
		return skip("huge-pages", "", "this kernel has no transparent ones")
	}
	if mode == "never" {
		return finding(Warn, "huge-pages", "", "transparent: never").but(codes.Slow, "madvise or always: large vectors ask for them",
			"echo madvise > /"+file)
	}
	return pass("huge-pages", "", "transparent: %s", mode)
}

func (e *loadExam) clockRow() Preflight {
	var t unix.Timex
	state, err := e.Clock(&t)
	switch {
	case err != nil:
		return skip("clock", "", "adjtimex: %v", err)
	case state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0:
		return finding(Warn, "clock", "", "not synchronised").but(codes.Preflight, "synchronised, so that logs of nodes can be laid side by side",
			"timedatectl set-ntp true  # or: systemctl enable --now chronyd")
	}
	return pass("clock", "", "synchronised, within %.3g ms", float64(t.Maxerror)/1000)
}

// runtimeBytes is what a rank takes beside its slots.
const runtimeBytes = 64 << 20

// room is what the ranks of this node take before any vector.
func (e *loadExam) room() uint64 { return uint64(e.ranks) * (runtimeBytes + e.needs) }

func (e *loadExam) memoryRow() Preflight {
	var kib uint64
	if _, err := fmt.Sscan(e.node.field("proc/meminfo", "MemAvailable"), &kib); err != nil {
		return skip("memory", "", "/proc/meminfo does not say what is available")
	}
	value := size(kib<<10) + " available"
	if kib<<10 < e.room() {
		return finding(Warn, "memory", "", value).but(codes.Memory, fmt.Sprintf("%s for %s, and vectors come on top", size(e.room()), counted(e.ranks, "rank")),
			"ps -eo pid,rss,comm --sort=-rss | head  # shows who has it; or fewer --slots")
	}
	return pass("memory", "", "%s", value)
}
