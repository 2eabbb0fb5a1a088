package cli

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/cli/exit"
)

// Real launchers within each other, or without ranks: the nearest counts, and nobody passes
// alone.
func TestLaunchersNested(t *testing.T) {
	inStage(t)
	found(t, "mpirun.openmpi", "mpirun.mpich", "salloc", "sbatch")
	cluster(t, "")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir() + "/batch"
	const hydra, openmpi = "mpirun.mpich -launcher fork -np 3 ", "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -np 3 "
	for name, c := range map[string]struct {
		command string // of a shell; RINGCLI is the program and its arguments
		want    string
		code    int
	}{
		"MPICH in a pmix step":         {"srun --quiet --mpi=pmix -n 1 " + hydra + "RINGCLI", ": 3 ranks, ", exit.OK},
		"MPICH in a pmi2 step":         {"srun --quiet --mpi=pmi2 -n 1 " + hydra + "RINGCLI", ": 3 ranks, ", exit.OK},
		"Open MPI where RANK is left":  {"RANK=0 WORLD_SIZE=1 " + openmpi + "RINGCLI", ": 3 ranks, ", exit.OK},
		"MPICH where RANK is left":     {"RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=7 " + hydra + "RINGCLI", ": 3 ranks, ", exit.OK},
		"a step where RANK is left":    {"RANK=0 WORLD_SIZE=1 srun --quiet --mpi=none -n 2 RINGCLI", "two launchers' variables disagree", exit.Usage},
		"a smaller step":               {"salloc --quiet -n 4 srun --quiet --overcommit --preserve-env -n 2 RINGCLI", ": 2 ranks, ", exit.OK},
		"an allocation without a step": {"salloc --quiet -n 2 RINGCLI", "run `srun ringcli ...`", exit.Usage},
		"a batch script":               {"sbatch --quiet --wait -n 2 --output=" + out + " --wrap 'RINGCLI'; code=$?; cat " + out + "; exit $code", "run `srun ringcli ...`", exit.Usage},
		"mpirun in a batch script":     {"sbatch --quiet --wait -n 2 --output=" + out + " --wrap '" + hydra + "RINGCLI'; code=$?; cat " + out + "; exit $code", ": 3 ranks, ", exit.OK},
		"MPICH with -pmi-port":         {"mpirun.mpich -launcher fork -pmi-port -np 2 RINGCLI", "start the ranks without -pmi-port", exit.Usage},
		"PMIx out of reach":            {"srun --quiet --mpi=pmix -n 2 unshare --net RINGCLI", "or use srun --mpi=pmi2, or --launcher slurm", exit.Critical},
		"Open MPI out of reach":        {openmpi + "unshare --net RINGCLI", "give --master-addr and --master-port", exit.Critical},
		"a node name without address":  {"srun --quiet --mpi=none -n 2 env SLURM_STEP_NODELIST=no-such-node.invalid RINGCLI --timeout 3s", "Slurm's names of nodes (SLURM_STEP_NODELIST) need not resolve", exit.Critical},
		"variables that sudo drops":    {"mpirun.mpich -launcher fork -np 2 env -i PATH=$PATH HOME=/tmp " + asProgram + "=1 RINGCLI", "no launcher has started this process", exit.Usage},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			words := strings.ReplaceAll(c.command, "RINGCLI", self+" connect --device shm:0 -c status")
			shell := exec.CommandContext(ctx, "sh", "-c", words)
			shell.Env = append(os.Environ(), "RINGCLI_DEVICE=", "RINGCLI_TIMEOUT=60s", "TMPDIR="+shortDir(t), asProgram+"=1")
			shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGTERM) } // the launcher too
			shell.WaitDelay = 10 * time.Second
			text, _ := shell.CombinedOutput()
			if code := shell.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(text), c.want) {
				t.Errorf("%s: exit code %d: expected %d and %q\n%s", words, code, c.code, c.want, text)
			}
		})
	}
}
