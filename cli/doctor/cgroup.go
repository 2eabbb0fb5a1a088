package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ringcli/cli/procfs"
	"ringcli/cli/session"
	"ringcli/configs/codes"
)

// least is the lowest limit on the way up, and where it is; 0 where there is none.
func least(dirs []string, limit func(dir string) (float64, bool)) (value float64, at string) {
	for _, dir := range dirs {
		if v, set := limit(dir); set && (at == "" || v < value) {
			value, at = v, dir
		}
	}
	return value, at
}

func (e *loadExam) cpuQuotaRow() Preflight {
	dirs, v2 := procfs.Groups(e.Files, "cpu")
	if len(dirs) == 0 {
		return skip("cgroup-cpu", "", "no control group for it")
	}
	quota, at := least(dirs, func(dir string) (float64, bool) {
		quota, period := e.node.text(dir+"/cpu.cfs_quota_us"), e.node.text(dir+"/cpu.cfs_period_us")
		if v2 {
			quota, period, _ = strings.Cut(e.node.text(dir+"/cpu.max"), " ")
		}
		q, errQuota := strconv.ParseFloat(quota, 64)
		p, errPeriod := strconv.ParseFloat(period, 64)
		return q / p, errQuota == nil && errPeriod == nil && q > 0 && p > 0
	})
	if at == "" {
		return pass("cgroup-cpu", "", "no limit")
	}
	value := fmt.Sprintf("%.3g CPUs for %s", quota, counted(e.ranks, "rank"))
	if throttled := e.node.field(at+"/cpu.stat", "nr_throttled"); throttled != "" && throttled != "0" {
		value += fmt.Sprintf(", held up %s times so far", throttled)
	}
	if quota < float64(e.ranks) {
		fix := "echo max > /" + at + "/cpu.max"
		if !v2 {
			fix = "echo -1 > /" + at + "/cpu.cfs_quota_us"
		}
		return finding(Warn, "cgroup-cpu", "", value).but(codes.Slow, "one each, since a rank polls: who is held up is late for all",
			fix+"  # systemd: CPUQuota=; container: --cpus; Kubernetes: limits")
	}
	return pass("cgroup-cpu", "", "%s", value)
}

func (e *loadExam) memoryLimitRow() Preflight {
	limits, in := procfs.MemoryLimits(e.Files)
	switch {
	case !in:
		return skip("cgroup-memory", "", "no control group for it")
	case len(limits) == 0:
		return pass("cgroup-memory", "", "no limit")
	}
	lowest := slices.MinFunc(limits, func(a, b procfs.MemoryLimit) int { return cmp.Compare(a.Bytes, b.Bytes) })
	value := fmt.Sprintf("%s, of which %s are in use", size(lowest.Bytes), size(lowest.Used))
	if v := judged(lowest.Bytes, lowest.Free(), e.room()); v != Pass {
		return finding(v, "cgroup-memory", "", value).but(codes.Memory, fmt.Sprintf("%s for %s, and vectors come on top", size(e.room()), counted(e.ranks, "rank")),
			fmt.Sprintf("echo %d > /%s  # systemd: MemoryMax=; container: --memory; or fewer --slots", 4*e.room(), lowest.File))
	}
	return pass("cgroup-memory", "", "%s", value)
}

// judged compares what is needed with a limit, and with what of it is free.
func judged(limit, free, need uint64) Verdict {
	switch {
	case limit < need:
		return Fail
	case free < need:
		return Warn
	}
	return Pass
}

func (e *loadExam) pidsRow() Preflight {
	dirs, _ := procfs.Groups(e.Files, "pids")
	if len(dirs) == 0 {
		return skip("cgroup-pids", "", "no control group for it")
	}
	// The one with the least room, not that with the lowest limit.
	room, at := least(dirs, func(dir string) (float64, bool) {
		limit, set := procfs.Limit(e.Files, dir+"/pids.max")
		used, _ := e.node.number(dir + "/pids.current")
		return float64(limit) - float64(used), set
	})
	if at == "" {
		return pass("cgroup-pids", "", "no limit")
	}
	limit, _ := e.node.number(at + "/pids.max")
	value := fmt.Sprintf("%d, of which %s are in use", limit, e.node.text(at+"/pids.current"))
	if need := session.ThreadsEach * e.ranks; room < float64(need) {
		return finding(Fail, "cgroup-pids", "", value).but(codes.Threads, fmt.Sprintf("%d more, the threads of %s", need, counted(e.ranks, "rank")),
			fmt.Sprintf("echo max > /%s/pids.max  # systemd: TasksMax=; container: --pids-limit", at))
	}
	return pass("cgroup-pids", "", "%s", value)
}
