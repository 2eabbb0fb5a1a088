package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"ringcli/cli/session"
	"ringcli/configs/codes"
)

// exists tells whether there is a file.
func (e *exam) exists(path string) bool {
	_, err := fs.Stat(e.Files, path)
	return err == nil
}

// cgroups are the directories of this process's control groups that have a controller, its
// own first and then all above it, whose limits hold too; and whether they are of version 2
// (cgroups(7), proc_pid_mountinfo(5)).
func (e *exam) cgroups(controller string) (dirs []string, v2 bool) {
	own := map[string]string{} // by controller; "" is version 2
	for line := range strings.Lines(e.text("proc/self/cgroup")) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			own[c] = f[2]
		}
	}
	_, first := own[controller]
	for line := range strings.Lines(e.text("proc/self/mountinfo")) {
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

// least is the lowest limit on the way up, and where it is; 0 where there is none.
func least(dirs []string, limit func(dir string) (float64, bool)) (value float64, at string) {
	for _, dir := range dirs {
		if v, set := limit(dir); set && (at == "" || v < value) {
			value, at = v, dir
		}
	}
	return value, at
}

// noLimit is where version 1 begins to mean "none": the largest number of whole pages.
const noLimit = 1 << 62

// limitIn reads a limit as a group has it.
func (e *exam) limitIn(file string) func(dir string) (float64, bool) {
	return func(dir string) (float64, bool) {
		n, ok := e.number(dir + "/" + file) // "max" is none
		return float64(n), ok && n < noLimit
	}
}

func (e *exam) cpuQuotaRow() []Preflight {
	dirs, v2 := e.cgroups("cpu")
	if len(dirs) == 0 {
		return []Preflight{skip("cgroup-cpu", "", "no control group for it")}
	}
	quota, at := least(dirs, func(dir string) (float64, bool) {
		quota, period := e.text(dir+"/cpu.cfs_quota_us"), e.text(dir+"/cpu.cfs_period_us")
		if v2 {
			quota, period, _ = strings.Cut(e.text(dir+"/cpu.max"), " ")
		}
		q, errQuota := strconv.ParseFloat(quota, 64)
		p, errPeriod := strconv.ParseFloat(period, 64)
		return q / p, errQuota == nil && errPeriod == nil && q > 0 && p > 0
	})
	if at == "" {
		return []Preflight{pass("cgroup-cpu", "", "no limit")}
	}
	value := fmt.Sprintf("%.3g CPUs for %s", quota, counted(e.ranks, "rank"))
	if throttled := e.field(at+"/cpu.stat", "nr_throttled"); throttled != "" && throttled != "0" {
		value += fmt.Sprintf(", held up %s times so far", throttled)
	}
	if quota < float64(e.ranks) {
		fix := "echo max > /" + at + "/cpu.max"
		if !v2 {
			fix = "echo -1 > /" + at + "/cpu.cfs_quota_us"
		}
		return []Preflight{finding(Warn, "cgroup-cpu", "", value).but(codes.Slow, "one each, since a rank polls: who is held up is late for all",
			fix+"  # systemd: CPUQuota=; container: --cpus; Kubernetes: limits")}
	}
	return []Preflight{pass("cgroup-cpu", "", "%s", value)}
}

func (e *exam) memoryLimitRow() []Preflight {
	dirs, v2 := e.cgroups("memory")
	if len(dirs) == 0 {
		return []Preflight{skip("cgroup-memory", "", "no control group for it")}
	}
	file, usage, idle := "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
	if v2 {
		file, usage, idle = "memory.max", "memory.current", "inactive_file"
	}
	limit, at := least(dirs, e.limitIn(file))
	if at == "" {
		return []Preflight{pass("cgroup-memory", "", "no limit")}
	}
	used, _ := e.number(at + "/" + usage)
	cached, _ := strconv.ParseUint(e.field(at+"/memory.stat", idle), 10, 64) // files that it gives up first
	used -= min(used, cached)
	value := fmt.Sprintf("%s, of which %s are in use", size(uint64(limit)), size(used))
	if v := e.judged(limit, limit-float64(used), float64(e.room())); v != Pass {
		return []Preflight{finding(v, "cgroup-memory", "", value).but(codes.Memory, fmt.Sprintf("%s for %s, and vectors come on top", size(e.room()), counted(e.ranks, "rank")),
			fmt.Sprintf("echo %d > /%s/%s  # systemd: MemoryMax=; container: --memory; or fewer --slots", 4*e.room(), at, file))}
	}
	return []Preflight{pass("cgroup-memory", "", "%s", value)}
}

// judged compares what is needed with a limit, and with what of it is free.
func (e *exam) judged(limit, free, need float64) Verdict {
	switch {
	case limit < need:
		return Fail
	case free < need:
		return Warn
	}
	return Pass
}

func (e *exam) pidsRow() []Preflight {
	dirs, _ := e.cgroups("pids")
	if len(dirs) == 0 {
		return []Preflight{skip("cgroup-pids", "", "no control group for it")}
	}
	// The one with the least room, not that with the lowest limit.
	room, at := least(dirs, func(dir string) (float64, bool) {
		limit, set := e.limitIn("pids.max")(dir)
		used, _ := e.number(dir + "/pids.current")
		return limit - float64(used), set
	})
	if at == "" {
		return []Preflight{pass("cgroup-pids", "", "no limit")}
	}
	limit, _ := e.number(at + "/pids.max")
	value := fmt.Sprintf("%d, of which %s are in use", limit, e.text(at+"/pids.current"))
	if need := session.ThreadsEach * e.ranks; room < float64(need) {
		return []Preflight{finding(Fail, "cgroup-pids", "", value).but(codes.Threads, fmt.Sprintf("%d more, the threads of %s", need, counted(e.ranks, "rank")),
			fmt.Sprintf("echo max > /%s/pids.max  # systemd: TasksMax=; container: --pids-limit", at))}
	}
	return []Preflight{pass("cgroup-pids", "", "%s", value)}
}
