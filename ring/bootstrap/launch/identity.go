package launch

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/configs/usage"
)

// Identity is what one launcher's variables say of this rank.
type Identity struct {
	By         string // the launcher
	Kind       string // how its ranks find each other; "" is not known
	Rank, Size int    // -1 and 0: not said
	RankVar    string
	SizeVar    string
	Proven     bool // others disagree, and the launcher has proved that it is the nearest
}

func (i Identity) String() string {
	text := fmt.Sprintf("%s: rank %d (%s)", i.By, i.Rank, i.RankVar)
	if i.Size > 0 {
		text += fmt.Sprintf(" of %d (%s)", i.Size, i.SizeVar)
	}
	return text
}

// agrees tells whether both can be true of one rank.
func (i Identity) agrees(o Identity) bool {
	return i.Rank == o.Rank && (i.Size == o.Size || i.Size == 0 || o.Size == 0)
}

// launchers are the variables of each launcher, in the order in which they count where they
// agree. Sources: PyTorch's torchrun documentation, Open MPI's and MPICH's mpirun(1), srun(1),
// HPE's PALS and MVAPICH2's user guides, IBM's jsrun(1), flux-environment(7).
var launchers = []struct {
	by, kind string
	rank     string
	sizes    []string
}{
	{"torchrun or a user's variables", "", "RANK", []string{"WORLD_SIZE"}},
	{"Open MPI", PMIx, "OMPI_COMM_WORLD_RANK", []string{"OMPI_COMM_WORLD_SIZE"}},
	{"a user's variables", "", "WORLD_RANK", []string{"WORLD_SIZE"}},
	{"HPE PALS", HostFile, "PALS_RANKID", []string{"PALS_SIZE"}},
	{"MVAPICH2's mpirun_rsh", HostFile, "MV2_COMM_WORLD_RANK", []string{"MV2_COMM_WORLD_SIZE"}},
	{"IBM's jsrun", HostFile, "JSM_NAMESPACE_RANK", []string{"JSM_NAMESPACE_SIZE"}},
	{"a PMI launcher (MPICH, Slurm)", PMI, "PMI_RANK", []string{"PMI_SIZE"}},
	{"Flux", HostFile, "FLUX_TASK_RANK", []string{"FLUX_JOB_SIZE"}},
	// A step may have fewer tasks than its job: srun --preserve-env -n 2 keeps SLURM_NTASKS.
	{"Slurm", Slurm, "SLURM_PROCID", []string{"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}},
}

// identities are what the variables that are set say.
func identities() (list []Identity) {
	for _, l := range launchers {
		rank, err := strconv.Atoi(os.Getenv(l.rank))
		if err != nil || rank < 0 || l.kind == Slurm && !inStep() {
			continue
		}
		i := Identity{By: l.by, Kind: l.kind, Rank: rank, RankVar: l.rank}
		for _, name := range l.sizes {
			if size, err := strconv.Atoi(os.Getenv(name)); err == nil && size > 0 {
				i.Size, i.SizeVar = size, name
				break
			}
		}
		list = append(list, i)
	}
	return list
}

// Nearest returns the identity of this process where launchers' variables say who it is. An
// outer launcher's variables reach the ranks of an inner launcher too: a step of Slurm that runs
// mpirun, a shell that has RANK from an earlier job. Where identities disagree, the launcher
// counts that proves itself: an open descriptor of PMI, torchrun's agent, an answering PMIx
// server, in this order, since each starts processes without the former's proof. Without a
// proof Nearest returns an error that names them. ok is false if there are none.
func Nearest() (nearest Identity, ok bool, err error) {
	list := identities()
	if len(list) == 0 {
		return Identity{}, false, nil
	}
	nearest = list[0]
	for _, other := range list[1:] {
		if nearest.Size == 0 && other.agrees(nearest) {
			nearest.Size, nearest.SizeVar = other.Size, other.SizeVar
		}
		if !other.agrees(nearest) {
			proven, is := proven(list)
			if proven.Proven = is; !is {
				return Identity{}, true, usage.Errorf("two launchers' variables disagree: %s; %s: unset those of the outer one, or give --index and --world-size", nearest, other)
			}
			return proven, true, nil
		}
	}
	return nearest, true, nil
}

// proven is the identity of the launcher that proves itself.
func proven(list []Identity) (Identity, bool) {
	of := func(variable string) (Identity, bool) {
		for _, i := range list {
			if i.RankVar == variable {
				return i, true
			}
		}
		return Identity{}, false
	}
	switch {
	case pmiOpen():
		return of("PMI_RANK")
	case os.Getenv("TORCHELASTIC_RUN_ID") != "":
		return of("RANK")
	case pmixAnswers():
		if i, ok := of("OMPI_COMM_WORLD_RANK"); ok {
			return i, true
		}
		i, ok := of("SLURM_PROCID")
		i.Kind = PMIx
		return i, ok
	}
	return Identity{}, false
}

// pmiOpen tells whether PMI_FD is an open socket. A launcher's child has it; programs that
// start others (mpirun, torchrun, slurmstepd) close it.
func pmiOpen() bool {
	fd, err := strconv.Atoi(os.Getenv("PMI_FD"))
	if err != nil || fd < 3 {
		return false
	}
	var about unix.Stat_t
	return unix.Fstat(fd, &about) == nil && about.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// pmixPatience is how long a PMIx server of this host may take to accept a connection.
const pmixPatience = time.Second

// pmixAnswers tells whether a PMIx server accepts a connection at an address of the
// environment: PMIX_SERVER_URI2=NAMESPACE.RANK;tcp4://127.0.0.1:PORT (PMIx 2 and later).
func pmixAnswers() bool {
	if os.Getenv("PMIX_NAMESPACE") == "" {
		return false
	}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "PMIX_SERVER_URI") {
			continue
		}
		_, address, _ := strings.Cut(value, "://")
		address, _, _ = strings.Cut(address, ";") // what follows is the server's version
		if conn, err := net.DialTimeout("tcp", address, pmixPatience); err == nil {
			_ = conn.Close() // it was only a question
			return true
		}
	}
	return false
}
