package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	launching "ringcli/ring/bootstrap/launch"
	"ringcli/verbs/verbstest"
)

// launcher is a program that starts ranks.
type launcher struct {
	name string
	// starts are the words that start n ranks of what follows.
	starts func(t *testing.T, n int) []string
	rank   []string // variables of rank 2's process
}

var launchers = []launcher{
	{"openmpi", mpirun("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"), []string{"OMPI_COMM_WORLD_RANK=2"}},
	{"mpich", mpirun("mpirun.mpich"), []string{"PMI_RANK=2", "HYDI_CONTROL_FD=kept"}},
	{"slurm", srun("none"), []string{"SLURM_PROCID=2"}},
	{"slurm-pmi2", srun("pmi2"), []string{"SLURM_PROCID=2"}},
	{"slurm-pmix", srun("pmix"), []string{"SLURM_PROCID=2"}},
}

func mpirun(words ...string) func(t *testing.T, n int) []string {
	return func(t *testing.T, n int) []string {
		found(t, words[0])
		return append(words[:len(words):len(words)], "-np", fmt.Sprint(n))
	}
}

func srun(mpi string) func(t *testing.T, n int) []string {
	return func(_ *testing.T, n int) []string {
		return []string{"srun", "--mpi=" + mpi, "--overcommit", "--quiet", "-n", fmt.Sprint(n)}
	}
}

// found skips the test where a program is not there.
func found(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%v: expected what Debian's openmpi-bin, mpich, slurm-wlm and munge bring", err)
		}
	}
}

// cluster starts munged, slurmctld and slurmd, with a configuration of their own and no
// control groups, until the test ends: in a network namespace, "" is the test's. more are
// lines of slurm.conf. It returns the node's name.
func cluster(t *testing.T, namespace string, more ...string) string {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	found(t, "srun", "munged", "slurmctld", "slurmd")
	if os.Geteuid() != 0 {
		t.Skip("slurmd starts tasks as root: expected root")
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	dir := shortDir(t)
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"munge", "state", "spool"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var ports []int
	for range 2 {
		port, release, err := launching.Reserve(26000 + os.Getpid()%2000 + len(ports)*10)
		if err != nil {
			t.Fatal(err)
		}
		release()
		ports = append(ports, port)
	}
	write("munge.key", strings.Repeat("a key of nobody but this test's ", 32), 0o400)
	write("cgroup.conf", "CgroupPlugin=cgroup/v1\nCgroupMountpoint="+dir+"/cgroup\nCgroupAutomount=no\n", 0o644)
	write("slurm.conf", strings.NewReplacer("DIR", dir, "HOST", host, "PORT0", strconv.Itoa(ports[0]), "PORT1", strconv.Itoa(ports[1])).Replace(slurmConf)+strings.Join(more, "\n")+"\n", 0o644)
	t.Setenv("SLURM_CONF", dir+"/slurm.conf")
	for _, words := range [][]string{
		{"munged", "--foreground", "--force", "--num-threads=2", "--key-file=DIR/munge.key", "--socket=DIR/munge/socket", "--pid-file=DIR/munge/pid", "--log-file=DIR/munge/log", "--seed-file=DIR/munge/seed"},
		{"slurmctld", "-D", "-c"}, {"slurmd", "-D"},
	} {
		for i := range words {
			words[i] = strings.Replace(words[i], "DIR", dir, 1)
		}
		daemon(t, dir, namespace, words)
	}
	limit := time.Now().Add(hung)
	for {
		out, err := inside(t.Context(), namespace, "sinfo", "--noheader", "--format=%T").CombinedOutput()
		if state := strings.TrimSpace(string(out)); err == nil && strings.HasPrefix(state, "idle") {
			return host
		} else if time.Now().After(limit) {
			t.Fatalf("the Slurm node is %q, %v: expected idle", state, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

const slurmConf = `ClusterName=ringtest
SlurmctldHost=HOST(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=DIR/munge/socket
SlurmctldPort=PORT0
SlurmdPort=PORT1
StateSaveLocation=DIR/state
SlurmdSpoolDir=DIR/spool
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdPidFile=DIR/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=5
NodeName=HOST NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=HOST Default=YES State=UP OverSubscribe=FORCE:8
`

// daemon runs until the test ends; what it has said is shown if that fails.
func daemon(t *testing.T, dir, namespace string, words []string) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, words[0]+".out"))
	if err != nil {
		t.Fatal(err)
	}
	c := inside(context.Background(), namespace, words...)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended
		over := time.AfterFunc(20*time.Second, func() { _ = c.Process.Kill() })
		_ = c.Wait() // however it ends
		over.Stop()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s:\n%s", words[0], text)
		}
	})
}

// inside is a command in a network namespace, "" is the test's.
func inside(ctx context.Context, namespace string, words ...string) *exec.Cmd {
	if namespace != "" {
		words = append([]string{"ip", "netns", "exec", namespace}, words...)
	}
	return exec.CommandContext(ctx, words[0], words[1:]...)
}

// shortDir is a directory for sockets, whose paths have an end.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// launched runs a ringcli as ranks of a launcher; mark is in the environment of each.
func (l launcher) launched(ctx context.Context, t *testing.T, mark string, args ...string) (*exec.Cmd, *watched) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	words := append(append(l.starts(t, 4), self), args...)
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Env = append(os.Environ(), "RINGCLI_DEVICE=", "RINGCLI_TIMEOUT=60s", "TMPDIR="+shortDir(t), mark)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	out := &watched{}
	c.Stdout, c.Stderr = out, out
	return c, out
}

// inStage skips a test that CI's stage launchers is for.
func inStage(t *testing.T) {
	t.Helper()
	if os.Getenv("RINGTEST_LAUNCHERS") == "" || verbstest.Race {
		t.Skip("RINGTEST_LAUNCHERS is not set, or the race detector looks at the launchers' programs: CI's stage launchers runs it")
	}
}

// eachOf runs a test for each; those of Slurm have a cluster.
func eachOf(t *testing.T, launchers []launcher, run func(t *testing.T, l launcher)) {
	inStage(t)
	for _, l := range launchers {
		t.Run(l.name, func(t *testing.T) {
			if strings.HasPrefix(l.name, "slurm") {
				cluster(t, "")
			}
			run(t, l)
		})
	}
}

// A ring of four from nothing but what a launcher says of them, and document 002's example:
// rank + 1 in a Mi of floats, summed.
func TestLaunchersStartARing(t *testing.T) {
	eachOf(t, launchers, func(t *testing.T, l launcher) {
		scripts := map[string][]string{
			"# OK: 4 ranks of shm:0": {"connect", "--check"},
			"all-reduce":             {"connect", "-c", "all-reduce --count 1048576 --type float --op sum --fill rank+1 --check --iters 3; expect wrong == 0"},
		}
		if strings.Contains(l.name, "-") { // of a launcher that has checked
			delete(scripts, "# OK: 4 ranks of shm:0")
		}
		for want, args := range scripts {
			ctx, cancel := context.WithTimeout(t.Context(), 2*hung)
			c, out := l.launched(ctx, t, "RINGTEST_MARK=1", args...)
			err := c.Run()
			cancel()
			if err != nil || strings.Count(out.String(), want) == 0 || strings.Count(out.String(), "# 4 ranks of shm:0") > 1 {
				t.Errorf("%v: %v:\n%s\nexpected %q, from rank 0 alone", args, err, out, want)
			}
		}
	})
}

// A rank is killed: the job ends, and the others say which rank it was.
func TestLaunchersEndWithTheCulprit(t *testing.T) {
	eachOf(t, launchers, func(t *testing.T, l launcher) {
		out := l.endsOf(t, l.rank...)
		for _, w := range []string{"rank 2 (127.0.0.1:", "was lost: process "} {
			if !strings.Contains(out, w) {
				t.Errorf("%s\nexpected %q", out, w)
			}
		}
	})
}

// What MPICH has started is killed, which is no rank: all ranks end, and nobody is blamed.
func TestLaunchersProcessIsKilled(t *testing.T) {
	eachOf(t, launchers[1:2], func(t *testing.T, l launcher) {
		if out := l.endsOf(t, "PMI_RANK=2", "HYDI_CONTROL_FD=7"); !strings.Contains(out, "EXIT CODE: 9") || strings.Contains(out, "was lost") {
			t.Errorf("%s\nexpected that mpirun speaks of it, and no rank", out)
		}
	})
}

// A rank of MPICH's starts processes of its own, which are no ranks.
func TestLaunchersRankStartsProcesses(t *testing.T) {
	eachOf(t, launchers[1:2], func(t *testing.T, l launcher) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range []string{"local -n 2 -c barrier", "transport bench --device shm -b 8K -e 8K --benchmark_filter=_Write --benchmark_min_time 2x"} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*hung)
			words := append(append(l.starts(t, 1), self), strings.Fields(args)...)
			c := exec.CommandContext(ctx, words[0], words[1:]...)
			c.Env = append(os.Environ(), "RINGCLI_DEVICE=", "TMPDIR="+shortDir(t))
			out, err := c.CombinedOutput()
			cancel()
			if err != nil {
				t.Errorf("%s: %v:\n%s", args, err, out)
			}
		}
	})
}

// endsOf has a ring of four, kills the process with these variables and awaits that all is
// over.
func (l launcher) endsOf(t *testing.T, variables ...string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 2*hung)
	defer cancel()
	mark := fmt.Sprintf("RINGTEST_MARK=%d-%d", os.Getpid(), time.Now().UnixNano())
	c, out := l.launched(ctx, t, mark, "connect", "-c", "all-reduce --duration 10m --window 500ms")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(out.String(), "GB/s bus") && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
	}
	if killed := ofRank(t, append(variables, mark)...); len(killed) != 1 {
		t.Errorf("%v are processes %v: expected one:\n%s", variables, killed, out)
		cancel()
	} else if err := syscall.Kill(killed[0], syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	err := c.Wait()
	if _, failed := errors.AsType[*exec.ExitError](err); !failed || ctx.Err() != nil {
		t.Errorf("%v: expected it to end with a code of its own:\n%s", err, out)
	}
	for limit := time.Now().Add(hung); ; time.Sleep(50 * time.Millisecond) {
		if left := ofRank(t, mark); len(left) == 0 {
			return out.String()
		} else if time.Now().After(limit) {
			t.Fatalf("processes %v are left", left)
		}
	}
}

// ofRank finds this program's processes that have these variables.
func ofRank(t *testing.T, variables ...string) (pids []int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range all {
		program, err := os.Readlink(dir + "/exe")
		if err != nil || program != self {
			continue // it has ended, or is another
		}
		environ, err := os.ReadFile(dir + "/environ")
		if err != nil {
			continue
		}
		has := func(v string) bool { return bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+v+"\x00")) }
		ours := true
		for _, v := range variables {
			ours = ours && has(v)
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && ours {
			pids = append(pids, pid)
		}
	}
	return pids
}
