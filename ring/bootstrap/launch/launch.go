// Package launch asks what has started the ranks who they are, so that a ring needs no list:
// a process manager over PMI-1 (MPICH, Slurm) or PMIx (Open MPI, Slurm), or rank 0, at which
// the others register (torchrun, Kubernetes, Slurm without either). What it is asked for is
// little: each rank says where its control ring listens, and gets what all have said. The
// list that this makes is used like one that was given.
package launch

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/seal"
)

// Launcher is what has started the ranks, to one of them. AllGather and Barrier are called
// by all ranks, in the same order, by one goroutine each.
type Launcher interface {
	// Rank is this one's place among Size.
	Rank() int
	Size() int
	// AllGather returns what each rank has given, by rank. A deadline's error says who was
	// awaited, as far as that is known.
	AllGather(ctx context.Context, own []byte) ([][]byte, error)
	Barrier(ctx context.Context) error
	// Close leaves in good order: what this rank does from now on is none of the
	// launcher's business. It is called once.
	Close() error
}

// The kinds of launchers.
const (
	Auto   = "auto"
	Master = "master" // ranks register at rank 0
	PMIx   = "pmix"
	PMI    = "pmi"
	Slurm  = "slurm" // as Master, at the first task's host
)

// Options say who this rank is, as far as its settings do.
type Options struct {
	Kind       string // Auto chooses by what is set
	Rank, Size int    // -1 and 0: not given
	MasterAddr string
	MasterPort int         // 0: not given
	Token      *seal.Token // of the ring; nil is none. The process managers have means of their own.
}

// Detect returns the kind of launcher that the settings and variables speak of, "" if they
// speak of none. A master is named on purpose, so it comes first; a batch script, which
// has Slurm's variables, is no task of a step.
func (o Options) Detect() string {
	switch {
	case o.Kind != Auto:
		return o.Kind
	case o.MasterAddr != "" && o.MasterPort != 0:
		return Master
	case os.Getenv("PMIX_NAMESPACE") != "":
		return PMIx
	case os.Getenv("PMI_FD") != "":
		return PMI
	case inStep():
		return Slurm
	}
	return ""
}

// Open meets the launcher, which Detect has found.
func Open(ctx context.Context, o Options) (Launcher, error) {
	kind := o.Detect()
	switch kind {
	case PMIx:
		return openPMIx(ctx)
	case PMI:
		return openPMI(ctx)
	}
	o.Rank, o.Size = max(o.Rank, 0), max(o.Size, 1)
	if o.Rank >= o.Size {
		return nil, usage.Errorf("rank %d of %d: expected 0 to %d; --index and --world-size, or the launcher's variables, say so (`ringcli config` shows from where)", o.Rank, o.Size, o.Size-1)
	}
	switch kind {
	case Slurm:
		return openSlurm(ctx, o)
	default:
		if o.MasterAddr == "" || o.MasterPort == 0 {
			return nil, usage.Errorf("master-addr is %q and master-port is %d: expected both, the host of rank 0 and a TCP port there", o.MasterAddr, o.MasterPort)
		}
		return meet(ctx, meeting{rank: o.Rank, size: o.Size, host: o.MasterAddr, port: o.MasterPort, job: os.Getenv("TORCHELASTIC_RUN_ID"), token: o.Token,
			taken: os.Getenv("TORCHELASTIC_USE_AGENT_STORE") == "True"})
	}
}

// stepHosts are those of a Slurm step, and the variable that has them.
func stepHosts() (name, list string) {
	for _, name := range []string{"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"} {
		if list := os.Getenv(name); list != "" {
			return name, list
		}
	}
	return "SLURM_STEP_NODELIST", ""
}

func inStep() bool {
	_, list := stepHosts()
	return list != "" && os.Getenv("SLURM_STEP_ID") != "" && os.Getenv("SLURM_PROCID") != ""
}

// Slurm's tasks meet at the first of the step's hosts, which runs task 0, at the port that
// Slurm has reserved for the step (srun --resv-ports), or at one that the job's and the
// step's number make.
const slurmPort, slurmPorts = 20000, 10000 // below those that Linux gives to callers (ip_local_port_range)

func openSlurm(ctx context.Context, o Options) (Launcher, error) {
	name, list := stepHosts()
	nodes, err := hosts.Parse(list, slurmPort)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	job, step := os.Getenv("SLURM_JOB_ID"), os.Getenv("SLURM_STEP_ID")
	m := meeting{rank: o.Rank, size: o.Size, host: nodes[0].Host, job: "slurm " + job + "." + step, token: o.Token}
	jobNumber, _ := strconv.Atoi(job) // any number does
	stepNumber, _ := strconv.Atoi(step)
	m.port = slurmPort + (jobNumber*37+stepNumber)*candidates%slurmPorts
	if reserved := os.Getenv("SLURM_STEP_RESV_PORTS"); reserved != "" {
		ports, err := hosts.Expand("[" + reserved + "]")
		if err == nil {
			m.port, err = strconv.Atoi(ports[0])
		}
		if err != nil || m.port < 1 || m.port > 65535 {
			return nil, usage.Errorf("SLURM_STEP_RESV_PORTS is %q: expected ports, as in 12000-12003", reserved)
		}
	}
	return meet(ctx, m)
}

// variable reads a number that a launcher gives.
func variable(name string, least int) (int, error) {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil || n < least {
		return 0, usage.Errorf("%s is %q: expected a whole number from %d, as the launcher sets it", name, os.Getenv(name), least)
	}
	return n, nil
}
