//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Processes are found in /proc and ended by number. mpirun's ranks are not our
// children, and each may have a group of its own.

// tick is the unit of times in /proc: USER_HZ is 100 on all that Go runs on (time(7)).
const tick = 10 * time.Millisecond

// status is what is needed of /proc/PID/stat.
type status struct {
	parent int
	ticks  int64 // of user and system time
}

func statusOf(pid int) (status, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return status{}, false
	}
	return parseStatus(string(text))
}

// parseStatus reads a line of /proc/PID/stat (proc(5)). The second field, in
// parentheses, may have blanks and parentheses in it.
func parseStatus(text string) (s status, ok bool) {
	i := strings.LastIndexByte(text, ')')
	fields := strings.Fields(text[i+1:])
	if i < 0 || len(fields) < 13 {
		return s, false
	}
	var errs [3]error
	var user, system int64
	s.parent, errs[0] = strconv.Atoi(fields[1])
	user, errs[1] = strconv.ParseInt(fields[11], 10, 64)
	system, errs[2] = strconv.ParseInt(fields[12], 10, 64)
	s.ticks = user + system
	return s, errs == [3]error{}
}

// family is the processes of teams: those that were started, what descends from them,
// and whoever was given a team's folder as an argument.
func family(started []int, dirs ...string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return started
	}
	parents := map[int]int{}
	own := slices.Clone(started)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if s, ok := statusOf(pid); ok {
			parents[pid] = s.parent
			line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
			if err == nil && slices.ContainsFunc(bytes.Split(line, []byte{0}), func(arg []byte) bool { return slices.Contains(dirs, string(arg)) }) {
				own = append(own, pid)
			}
		}
	}
	for i := 0; i < len(own); i++ {
		for pid, parent := range parents {
			if parent == own[i] && !slices.Contains(own, pid) {
				own = append(own, pid)
			}
		}
	}
	slices.Sort(own)
	return slices.DeleteFunc(slices.Compact(own), func(pid int) bool {
		_, there := parents[pid]
		return !there
	})
}

// cpuTime is what processes have used until now.
func cpuTime(pids []int) time.Duration {
	var sum time.Duration
	for _, pid := range pids {
		if s, ok := statusOf(pid); ok {
			sum += time.Duration(s.ticks) * tick
		}
	}
	return sum
}

// load is what the whole machine has used of its CPUs until now.
type load struct {
	busy  time.Duration // by processes, whosever
	steal time.Duration // by the host of this virtual machine
}

// parseLoad reads the first line of /proc/stat (proc(5)): user, nice, system, idle,
// iowait, irq, softirq, steal. Guests' time is in user's. What interrupts take is no
// process's: on loopback they do the work of who sends.
func parseLoad(line string) (l load) {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return l
	}
	for i, text := range fields[1:9] {
		n, _ := strconv.ParseInt(text, 10, 64)
		switch i {
		case 0, 1, 2:
			l.busy += time.Duration(n) * tick
		case 7:
			l.steal = time.Duration(n) * tick
		}
	}
	return l
}

// end asks processes to end, and makes them if they do not.
func end(pids []int) {
	if len(pids) == 0 {
		return
	}
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		for _, pid := range pids {
			_ = unix.Kill(pid, signal) // it may have ended
		}
		for until := time.Now().Add(endGrace); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
			if !slices.ContainsFunc(pids, alive) {
				return
			}
		}
	}
}

// alive tells whether a process is more than a zombie, which its parent reaps.
func alive(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	i := bytes.LastIndexByte(text, ')')
	return i < 0 || i+2 >= len(text) || (text[i+2] != 'Z' && text[i+2] != 'X')
}

const shmDir = "/dev/shm"

// sharedFiles are what MPICH makes in /dev/shm, under a name that cannot be chosen, and
// leaves there if it is ended at the wrong moment.
func sharedFiles() []string {
	names, _ := filepath.Glob(filepath.Join(shmDir, "mpich_shar_tmp*"))
	return names
}
