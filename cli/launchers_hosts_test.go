package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/cli/exit"
	launching "ringcli/ring/bootstrap/launch"
)

// twoNodes starts a Slurm of the nodes n0 and n1, each with a network and a host name of its own,
// and returns the words that run a command on n0.
func twoNodes(t *testing.T) []string {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	found(t, "srun", "salloc", "munged", "slurmctld", "slurmd", "unshare")
	nodes, dir := newIsland(t, 2), shortDir(t)
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"munge", "state", "spool-n0", "spool-n1"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	port, release, err := launching.Reserve(28000 + os.Getpid()%2000)
	if err != nil {
		t.Fatal(err)
	}
	release() // of the test's own network; the nodes' have no other listener
	conf, _, _ := strings.Cut(slurmConf, "NodeName=")
	conf = strings.NewReplacer("HOST(127.0.0.1)", "n0(10.77.0.1)", "DIR/spool", "DIR/spool-%n", "slurmd.pid", "slurmd-%n.pid").Replace(conf) +
		"SchedulerParameters=bf_interval=1\nNodeName=n0 NodeAddr=10.77.0.1 CPUs=4 State=UNKNOWN\nNodeName=n1 NodeAddr=10.77.0.2 CPUs=4 State=UNKNOWN\nPartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8\n"
	write("slurm.conf", strings.NewReplacer("DIR", dir, "PORT0", strconv.Itoa(port), "PORT1", strconv.Itoa(port+1)).Replace(conf), 0o644)
	write("cgroup.conf", "CgroupPlugin=cgroup/v1\nCgroupMountpoint="+dir+"/cgroup\nCgroupAutomount=no\n", 0o644)
	write("munge.key", strings.Repeat("a key of nobody but this test's ", 32), 0o400)
	write("hosts", "127.0.0.1 localhost\n10.77.0.1 n0\n10.77.0.2 n1\n", 0o644)
	t.Setenv("SLURM_CONF", dir+"/slurm.conf")
	on := func(i int, words ...string) []string {
		return append([]string{"ip", "netns", "exec", nodes[i], "unshare", "--uts", "--mount", "sh", "-c", `hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@"`, fmt.Sprint("n", i), dir + "/hosts"}, words...)
	}
	daemon(t, dir, "", []string{"munged", "--foreground", "--force", "--num-threads=2", "--key-file=" + dir + "/munge.key", "--socket=" + dir + "/munge/socket", "--pid-file=" + dir + "/munge/pid", "--log-file=" + dir + "/munge/log", "--seed-file=" + dir + "/munge/seed"})
	daemon(t, dir, "", on(0, "slurmctld", "-D", "-c"))
	for i := range nodes {
		daemon(t, dir, "", on(i, "slurmd", "-D"))
	}
	sinfo := on(0, "sinfo", "--noheader", "--format=%D %T")
	for limit := time.Now().Add(hung); ; time.Sleep(100 * time.Millisecond) {
		out, err := exec.Command(sinfo[0], sinfo[1:]...).CombinedOutput()
		if err == nil && strings.TrimSpace(string(out)) == "2 idle" {
			return on(0)
		}
		if time.Now().After(limit) {
			t.Fatalf("the Slurm nodes are %q, %v: expected 2 idle", out, err)
		}
	}
}

// Ranks of two nodes of a real Slurm find rank 0 wherever it is, and those of a heterogeneous
// step are one ring.
func TestLaunchersOfTwoHosts(t *testing.T) {
	inStage(t)
	onFirst := twoNodes(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	backwards := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(backwards, []byte("n1\nn0\nn1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	components := "salloc --quiet -n1 -w n0 : -n2 -w n1 "
	for name, c := range map[string]struct {
		command string // of a shell; RINGCLI is the program and its arguments
		ranks   int
		first   string // the node of rank 0, or loopback where all are on one
	}{
		"a step":                           {"srun --quiet -N2 -n3 RINGCLI", 3, "n0"},
		"arbitrary distribution":           {"SLURM_HOSTFILE=" + backwards + " srun --quiet --distribution=arbitrary -n3 RINGCLI", 3, "n1"},
		"arbitrary distribution, pmi2":     {"SLURM_HOSTFILE=" + backwards + " srun --quiet --mpi=pmi2 --distribution=arbitrary -n3 RINGCLI", 3, "n1"},
		"a heterogeneous step":             {components + "srun --quiet --het-group=0,1 RINGCLI", 3, "n0"},
		"a heterogeneous step, pmi2":       {components + "srun --quiet --mpi=pmi2 --het-group=0,1 RINGCLI", 3, "n0"},
		"a heterogeneous step of commands": {components + "srun --quiet -n1 RINGCLI : -n2 RINGCLI", 3, "n0"},
		"one component of a job":           {components + "srun --quiet --het-group=1 RINGCLI", 2, "loopback"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			words := append(onFirst[:len(onFirst):len(onFirst)], "sh", "-c", strings.ReplaceAll(c.command, "RINGCLI", self+" connect --device soft --output json --print all -c status"))
			shell := exec.CommandContext(ctx, words[0], words[1:]...)
			shell.Env = append(os.Environ(), "RINGCLI_DEVICE=", "RINGCLI_TIMEOUT=60s", asProgram+"=1")
			shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGTERM) } // the launcher too
			shell.WaitDelay = 10 * time.Second
			out, _ := shell.CombinedOutput()
			address := map[string]string{"n0": "10.77.0.1", "n1": "10.77.0.2", "loopback": "127.0.0.1"}[c.first]
			rows := regexp.MustCompile(`"rank":(\d+),"node":"([0-9.]+):`).FindAllStringSubmatch(string(out), -1)
			ranks, first := map[string]bool{}, ""
			for _, row := range rows {
				if ranks[row[1]] = true; row[1] == "0" {
					first = row[2]
				}
			}
			if code := shell.ProcessState.ExitCode(); code != exit.OK || len(ranks) != c.ranks || first != address {
				t.Errorf("%s: exit code %d, %d ranks, rank 0 at %s: expected %d, %d and %s\n%.3000s", c.command, code, len(ranks), first, exit.OK, c.ranks, address, out)
			}
		})
	}
}
