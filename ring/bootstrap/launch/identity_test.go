package launch_test

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ringcli/ring/bootstrap/launch"
)

// unlaunch hides the variables of whatever has started the test.
func unlaunch(t *testing.T) {
	t.Helper()
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		for _, prefix := range []string{"RANK", "WORLD_", "OMPI_", "PMI", "SLURM_", "PALS_", "MV2_", "JSM_", "FLUX_", "TORCHELASTIC_", "PBS_", "LSB_", "PE_"} {
			if strings.HasPrefix(name, prefix) {
				t.Setenv(name, "")
			}
		}
	}
}

// The nearest launcher counts where variables of several disagree.
func TestNearest(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = unix.Close(pair[0]), unix.Close(pair[1]) }()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	const gone = "127.0.0.1:1" // nobody listens there
	pmix := func(at string) []string {
		return []string{"PMIX_NAMESPACE=x", "PMIX_SERVER_URI2=x.0;tcp4://" + at, "PMIX_RANK=1"}
	}
	step := []string{"SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=a", "SLURM_PROCID=1", "SLURM_NTASKS=2"}
	open, closed := []string{"PMI_FD=" + strconv.Itoa(pair[0]), "PMI_RANK=3", "PMI_SIZE=4"}, []string{"PMI_FD=999", "PMI_RANK=3", "PMI_SIZE=4"}
	for name, c := range map[string]struct {
		variables [][]string
		want      string // what it says; "" is none
		kind      string // of a proof
		fails     bool
	}{
		"none":                          {},
		"Slurm":                         {variables: [][]string{step}, want: "rank 1 (SLURM_PROCID) of 2 (SLURM_NTASKS)"},
		"a smaller step":                {variables: [][]string{step, {"SLURM_NTASKS=4", "SLURM_STEP_NUM_TASKS=2"}}, want: "of 2 (SLURM_STEP_NUM_TASKS)"},
		"a batch script":                {variables: [][]string{step, {"SLURM_STEP_ID=4294967291"}}},
		"an interactive step":           {variables: [][]string{step, {"SLURM_STEP_ID=4294967290"}}},
		"all agree":                     {variables: [][]string{step, {"RANK=1", "WORLD_SIZE=2"}}, want: "rank 1 (RANK) of 2 (WORLD_SIZE)"},
		"one has the size":              {variables: [][]string{step, {"RANK=1"}}, want: "rank 1 (RANK) of 2 (SLURM_NTASKS)"},
		"mpiexec in a pmix step":        {variables: [][]string{step, pmix(server.Addr().String()), open}, want: "rank 3 (PMI_RANK) of 4 (PMI_SIZE)", kind: launch.PMI},
		"a pmix step in mpiexec":        {variables: [][]string{step, pmix(server.Addr().String()), closed}, want: "rank 1 (SLURM_PROCID)", kind: launch.PMIx},
		"torchrun in a pmix step":       {variables: [][]string{step, pmix(server.Addr().String()), {"RANK=5", "WORLD_SIZE=8", "TORCHELASTIC_RUN_ID=none"}}, want: "rank 5 (RANK) of 8"},
		"mpirun where RANK is left":     {variables: [][]string{{"RANK=0", "WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"}, pmix(server.Addr().String())}, want: "rank 1 (OMPI_COMM_WORLD_RANK) of 2", kind: launch.PMIx},
		"mpirun in a batch script":      {variables: [][]string{step, {"SLURM_STEP_ID=4294967291", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=3"}}, want: "rank 0 (OMPI_COMM_WORLD_RANK) of 3"},
		"no server answers":             {variables: [][]string{{"RANK=0", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"}, pmix(gone)}, fails: true},
		"a step where RANK is left":     {variables: [][]string{step, {"RANK=0", "WORLD_SIZE=1"}}, fails: true},
		"same rank of two sizes":        {variables: [][]string{step, {"RANK=1", "WORLD_SIZE=3"}}, fails: true},
		"a variable that has no number": {variables: [][]string{step, {"RANK=abc"}}, want: "rank 1 (SLURM_PROCID)"},
	} {
		t.Run(name, func(t *testing.T) {
			unlaunch(t)
			for _, set := range c.variables {
				for _, entry := range set {
					variable, value, _ := strings.Cut(entry, "=")
					t.Setenv(variable, value)
				}
			}
			got, ok, err := launch.Nearest()
			if (err != nil) != c.fails || !c.fails && (ok != (c.want != "") || ok && !strings.Contains(got.String(), c.want)) {
				t.Fatalf("%s, %v, %v: expected %q", got, ok, err, c.want)
			}
			if got.Proven != (c.kind != "" || strings.Contains(name, "torchrun")) && !c.fails || got.Proven && got.Kind != c.kind {
				t.Errorf("%+v: expected a proof of %q", got, c.kind)
			}
			if c.fails && !strings.Contains(err.Error(), "disagree") {
				t.Error(err)
			}
		})
	}
}
