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
)

// What launchers set, in the order in which it counts.
var (
	rankVariables = []string{"RINGCLI_INDEX", "RANK", "OMPI_COMM_WORLD_RANK", "WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}
	sizeVariables = []string{"RINGCLI_WORLD_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}
)

// told is a program whose environment says nothing of ranks but these.
func (p *process) told(variables ...string) *process {
	for _, name := range append(append([]string{"MASTER_ADDR", "MASTER_PORT", "PMI_FD", "PMIX_NAMESPACE", "SLURM_STEP_ID"}, rankVariables...), sizeVariables...) {
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

// Without any it is a ring of its own; what cannot be read, or says half, is an error that
// names the variable.
func TestTheEnvironmentSaysWrong(t *testing.T) {
	t.Parallel()
	p := program(t, "connect", "-c", "self-check").told()
	p.start(t)
	if code := p.end(t, hung); code != exit.OK || !strings.Contains(p.stdout.String(), "# OK: 1 ranks of ") {
		t.Errorf("nothing is set: exit code %d:\n%s%s", code, p.stdout.String(), p.stderr.String())
	}
	master := []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=7"}
	slurm := []string{"SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=127.0.0.1", "SLURM_PROCID=0"}
	cases := map[string][]string{
		"nothing says where": {"WORLD_SIZE=2"},
		"rank 0 (index from env RANK), and nothing says how many there are: expected WORLD_SIZE":                    append(master, "RANK=0"),
		"there are 4 ranks (world-size from env WORLD_SIZE), and nothing says which of them this is: expected RANK": append(master, "WORLD_SIZE=4"),
		"rank 0 (index from env SLURM_PROCID), and nothing says how many":                                           slurm,
		"index is -1 (from env RANK)":          append(master, "WORLD_SIZE=4", "RANK=-1"),
		"index is -1 (from env RINGCLI_INDEX)": {"RINGCLI_INDEX=-1"},
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
