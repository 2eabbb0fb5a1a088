package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// What launchers set, in the order in which it counts.
var (
	rankVariables = []string{"RINGCLI_INDEX", "RANK", "OMPI_COMM_WORLD_RANK", "WORLD_RANK", "PALS_RANKID", "MV2_COMM_WORLD_RANK",
		"JSM_NAMESPACE_RANK", "PMI_RANK", "FLUX_TASK_RANK", "SLURM_PROCID"}
	sizeVariables = []string{"RINGCLI_WORLD_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PALS_SIZE", "MV2_COMM_WORLD_SIZE",
		"JSM_NAMESPACE_SIZE", "PMI_SIZE", "FLUX_JOB_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}
)

// told is a program whose environment says nothing of ranks but these.
func (p *process) told(variables ...string) *process {
	for _, name := range append(append([]string{"MASTER_ADDR", "MASTER_PORT", "PMI_FD", "PMI_PORT", "PMIX_NAMESPACE", "SLURM_STEP_ID", "SLURM_JOB_ID",
		"PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "LSB_JOBID", "PE_HOSTFILE", "FLUX_JOB_ID", "FLUX_URI", "TORCHELASTIC_RUN_ID"}, rankVariables...), sizeVariables...) {
		p.Env = append(p.Env, name+"=")
	}
	p.Env = append(p.Env, variables...)
	return p
}

// Two ranks of which each of the variables says who they are make a ring.
func TestRanksAreToldByTheEnvironment(t *testing.T) {
	t.Parallel()
	for i, rank := range rankVariables {
		size := sizeVariables[min(i, len(sizeVariables)-1)]
		t.Run(rank+" and "+size, func(t *testing.T) {
			t.Parallel()
			port := masterPort(t)
			var ranks []*process
			for r := range 2 {
				p := program(t, "connect", "--device", "shm:0", "-c", "barrier")
				p.told(rank+"="+strconv.Itoa(r), size+"=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port).start(t)
				ranks = append(ranks, p)
			}
			for r, p := range ranks {
				if code := p.end(t, hung); code != exit.OK {
					t.Errorf("rank %d: exit code %d:\n%s%s", r, code, p.stdout.String(), p.stderr.String())
				}
			}
		})
	}
}

// masterPort is MASTER_PORT of a ring that is to come.
func masterPort(t *testing.T) string {
	t.Helper()
	ln, port := store(t)
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}

// store listens at a port of loopback, as torchrun's does.
func store(t *testing.T) (ln net.Listener, port string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln, strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
}

// Ranks with all that torchrun sets, whose agent has MASTER_PORT, make a ring; host lists have
// the host's name, which is not in the list that the ranks make.
func TestTorchrunStartsARing(t *testing.T) {
	t.Parallel()
	ln, port := store(t)
	defer func() { _ = ln.Close() }()
	good := filepath.Join(t.TempDir(), "good")
	var ranks []*process
	for r := range 2 {
		p := program(t, "connect", "--device", "shm:0", "-c", "barrier", "--good-hosts", good+".%r")
		rank := strconv.Itoa(r)
		p.told("RANK="+rank, "LOCAL_RANK="+rank, "ROLE_RANK="+rank, "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "ROLE_WORLD_SIZE=2", "ROLE_NAME=default",
			"GROUP_RANK=0", "GROUP_WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port, "OMP_NUM_THREADS=1",
			"TORCHELASTIC_RESTART_COUNT=0", "TORCHELASTIC_MAX_RESTARTS=0", "TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_USE_AGENT_STORE=True",
			"TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "TORCHELASTIC_ERROR_FILE=/dev/null").start(t)
		ranks = append(ranks, p)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for r, p := range ranks {
		if code := p.end(t, hung); code != exit.OK {
			t.Errorf("rank %d: exit code %d:\n%s%s", r, code, p.stdout.String(), p.stderr.String())
		}
		if text, err := os.ReadFile(fmt.Sprintf("%s.%d", good, r)); err != nil || string(text) != host+"\n" {
			t.Errorf("rank %d: the good hosts are %q, %v: expected %s", r, text, err, host)
		}
	}
}

// A rank that is lost has its host's name, beside the address of the list that the ranks make.
func TestALaunchedRankIsLost(t *testing.T) {
	t.Parallel()
	port := masterPort(t)
	var ranks []*process
	out := &watched{}
	for r := range 2 {
		p := program(t, "connect", "--device", "shm:0", "-c", "all-reduce --duration 10m --window 500ms")
		p.told("RANK="+strconv.Itoa(r), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port)
		p.Stdout = out
		p.start(t)
		ranks = append(ranks, p)
	}
	for limit := time.Now().Add(hung); !strings.Contains(out.String(), "GB/s bus") && time.Now().Before(limit); {
		time.Sleep(20 * time.Millisecond)
	}
	if err := ranks[1].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	code, text := ranks[0].end(t, hung), ranks[0].stderr.String()
	if code != exit.Critical || !strings.Contains(text, "rank 1 (127.0.0.1:") || !strings.Contains(text, ", "+host+") was lost") {
		t.Errorf("exit code %d, %s: expected that rank 1 of %s was lost", code, text, host)
	}
}

// Ranks of one command on one host have files of their own, or are told so before any
// replaces another's.
func TestLaunchedRanksHaveFilesOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flag, file string
		code       int
	}{
		{"--junit", "ring.xml", exit.Usage},
		{"--metrics", "ring.prom", exit.Usage},
		{"--log-file", "ring.log", exit.Usage},
		{"--bad-hosts", "bad", exit.Usage},
		{"--junit", "ring-%r.xml", exit.OK},
	} {
		dir, port := t.TempDir(), masterPort(t)
		var ranks []*process
		for r := range 2 {
			p := program(t, "connect", "--device", "shm:0", "-c", "barrier", c.flag, filepath.Join(dir, c.file))
			p.told("RANK="+strconv.Itoa(r), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port).start(t)
			ranks = append(ranks, p)
		}
		for r, p := range ranks {
			code, path := p.end(t, hung), filepath.Join(dir, c.file)
			if said := strings.Contains(p.stderr.String(), c.flag+" "+path+": 2 ranks of a host"); code != c.code || said == (code == exit.OK) {
				t.Errorf("%s %s: rank %d: exit code %d: %s", c.flag, c.file, r, code, &p.stderr)
			}
		}
		if c.code == exit.OK {
			for _, name := range []string{"ring-0.xml", "ring-1.xml"} {
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// Without any there is no ring, since a ring of one proves nothing; what cannot be read, or says
// half, is an error that names the variable.
func TestTheEnvironmentSaysWrong(t *testing.T) {
	t.Parallel()
	p := program(t, "connect", "-c", "self-check").told()
	p.start(t)
	if code := p.end(t, hung); code != exit.Usage || !strings.Contains(p.stderr.String(), "no launcher has started this process: expected --list") {
		t.Errorf("nothing is set: exit code %d:\n%s%s", code, p.stdout.String(), p.stderr.String())
	}
	p = program(t, "connect", "-c", "self-check", "--world-size", "1").told()
	p.start(t)
	if code := p.end(t, hung); code != exit.OK || !strings.Contains(p.stdout.String(), "# OK: 1 ranks of ") {
		t.Errorf("--world-size 1: exit code %d:\n%s%s", code, p.stdout.String(), p.stderr.String())
	}
	master := []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=7"}
	slurm := []string{"SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=127.0.0.1", "SLURM_PROCID=0"}
	cases := map[string][]string{
		"nothing says where": {"WORLD_SIZE=2"},
		"rank 0 (index from env RANK), and nothing says how many there are: expected WORLD_SIZE":                    append(master, "RANK=0"),
		"there are 4 ranks (world-size from env WORLD_SIZE), and nothing says which of them this is: expected RANK": append(master, "WORLD_SIZE=4"),
		"rank 0 (index from env SLURM_PROCID), and nothing says how many":                                           slurm,
		"two launchers' variables disagree: torchrun or a user's variables: rank 0 (RANK) of 1 (WORLD_SIZE); Slurm: rank 1 (SLURM_PROCID) of 2 (SLURM_NTASKS)": {
			"RANK=0", "WORLD_SIZE=1", "SLURM_STEP_ID=0", "SLURM_JOB_ID=7", "SLURM_STEP_NODELIST=127.0.0.1", "SLURM_PROCID=1", "SLURM_NTASKS=2"},
		"no task that srun has started: run `srun ringcli ...`":    {"SLURM_JOB_ID=7", "SLURM_STEP_ID=4294967291", "SLURM_STEP_NODELIST=127.0.0.1", "SLURM_PROCID=0", "SLURM_NTASKS=8"},
		"no task that srun has started: run `srun":                 {"SLURM_JOB_ID=7", "SLURM_STEP_ID=4294967290", "SLURM_STEP_NODELIST=127.0.0.1", "SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_STEP_NUM_TASKS=1"},
		"MPICH's mpiexec -pmi-port has started this process":       {"PMI_PORT=node0:4711", "PMI_ID=1"},
		"this is a job of PBS (PBS_NODEFILE)":                      {"PBS_NODEFILE=/etc/hosts", "PBS_JOBID=7.server"},
		"this is a job of Grid Engine (PE_HOSTFILE)":               {"PE_HOSTFILE=/etc/hosts", "JOB_ID=7"},
		"this is a job of LSF (LSB_JOBID)":                         {"LSB_JOBID=7"},
		"this is a job of Flux":                                    {"FLUX_URI=local:///tmp/flux"},
		"master-addr is \"tcp://node0\": expected a host name":     {"MASTER_ADDR=tcp://node0", "MASTER_PORT=7", "RANK=1", "WORLD_SIZE=2"},
		"master-addr is \"node0:7\": expected a host name":         {"MASTER_ADDR=node0:7", "MASTER_PORT=7", "RANK=1", "WORLD_SIZE=2"},
		"master-port is 65535, and torchrun's store listens there": {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=65535", "RANK=1", "WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=x", "TORCHELASTIC_USE_AGENT_STORE=True"},
		"set enableServiceLinks: false in the pod's spec":          {"KUBERNETES_SERVICE_HOST=10.96.0.1", "MASTER_PORT=tcp://10.96.0.4:29500", "MASTER_ADDR=127.0.0.1", "RANK=0", "WORLD_SIZE=2"},
		"index is -1 (from env RANK)":                              append(master, "WORLD_SIZE=4", "RANK=-1"),
		"index is -1 (from env RINGCLI_INDEX)":                     {"RINGCLI_INDEX=-1"},
	}
	for _, name := range append(append([]string{}, rankVariables...), sizeVariables...) {
		cases[fmt.Sprintf("(from env %s)", name)] = []string{name + "=some"}
	}
	for i, name := range rankVariables {
		cases[fmt.Sprintf("rank %d (index from env %s)", i%2, name)] = []string{name + "=" + strconv.Itoa(i%2)}
	}
	for want, variables := range cases {
		p := program(t, "connect", "--check").told(variables...)
		p.start(t)
		if code := p.end(t, hung); code != exit.Usage || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("%v: exit code %d, %s: expected %d and %q", variables, code, p.stderr.String(), exit.Usage, want)
		}
	}
}

// Variables of other programs stop no command that does not need them.
func TestOtherProgramsVariables(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for _, variable := range []string{
		"NCCL_DEBUG=0", "NCCL_DEBUG=1", "NCCL_DEBUG=OFF", "NCCL_DEBUG=ERROR", "NCCL_DEBUG=DEBUG", "NCCL_DEBUG=INFO,ENV", "RCCL_DEBUG=1",
		"WORLD_SIZE=auto", "RANK=abc", "MASTER_PORT=http", "RCCL_NCHANNELS=many", "RCCL_BUFFSIZE=-1",
	} {
		for _, args := range [][]string{{"version"}, {"devices"}, {"config"}, {"local", "-n", "2", "-c", "barrier"}} {
			p := program(t, args...).told(variable)
			p.start(t)
			code := p.end(t, hung)
			needs := args[0] == "local" && strings.HasPrefix(variable, "RCCL_") && variable != "RCCL_DEBUG=1"
			if (code == exit.OK) == needs {
				t.Errorf("%s: %q: exit code %d\n%s", variable, args, code, &p.stderr)
			}
			name, _, _ := strings.Cut(variable, "=")
			if args[0] == "config" && !strings.Contains(p.stdout.String(), "# not set: ") || args[0] == "config" && !strings.Contains(p.stdout.String(), "(from env "+name+")") {
				t.Errorf("%s: config does not note it:\n%s", variable, p.stdout.String())
			}
		}
	}
}

// Ranks whose launcher has no service meet by the batch system's host file, whose first host may
// run none of them.
func TestRanksMeetByAHostFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "hosts")
	for i, c := range []struct{ name, job, rank, size, text string }{
		{"PBS_NODEFILE", "PBS_JOBID", "PALS_RANKID", "PALS_SIZE", "127.0.0.1\n127.0.0.1\n"},
		{"LSB_DJOB_HOSTFILE", "LSB_JOBID", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "127.0.0.9\n127.0.0.1\n127.0.0.1\n"},
		{"PE_HOSTFILE", "JOB_ID", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "127.0.0.1 2 all.q@node0 UNDEFINED\n"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		job := strconv.Itoa(os.Getpid()*8 + i) // a port of its own
		var ranks []*process
		for r := range 2 {
			p := program(t, "connect", "--device", "shm:0", "-c", "barrier")
			p.told(c.name+"="+file, c.job+"="+job, c.rank+"="+strconv.Itoa(r), c.size+"=2").start(t)
			ranks = append(ranks, p)
		}
		for r, p := range ranks {
			if code := p.end(t, hung); code != exit.OK {
				t.Errorf("%s: rank %d: exit code %d:\n%s%s", c.name, r, code, p.stdout.String(), p.stderr.String())
			}
		}
	}
}

// A rank of an earlier attempt of torchrun takes no place in the ring of the next.
func TestAnEarlierAttempt(t *testing.T) {
	t.Parallel()
	port := masterPort(t)
	start := func(rank, attempt, timeout string) *process {
		p := program(t, "connect", "--device", "shm:0", "-c", "barrier", "--timeout", timeout)
		p.told("RANK="+rank, "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port, "TORCHELASTIC_RUN_ID=job", "TORCHELASTIC_RESTART_COUNT="+attempt).start(t)
		return p
	}
	first := start("0", "1", "1m")
	old := start("1", "0", "1s")
	if code := old.end(t, hung); code == exit.OK || !strings.Contains(old.stderr.String(), "rank 0 of another job listens there") {
		t.Errorf("the rank of attempt 0: exit code %d\n%s", code, &old.stderr)
	}
	second := start("1", "1", "1m")
	for _, p := range []*process{first, second} {
		if code := p.end(t, hung); code != exit.OK {
			t.Errorf("exit code %d\n%s%s", code, &p.stdout, &p.stderr)
		}
	}
}
