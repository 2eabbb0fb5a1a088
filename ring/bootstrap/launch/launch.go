// Package launch asks what has started the ranks who they are, so that a ring needs no list:
// a process manager over PMI-1 (MPICH, Slurm) or PMIx (Open MPI, Slurm), or rank 0, at which
// the others register (torchrun, Kubernetes, Slurm without either). What it is asked for is
// little: each rank says where its control ring listens, and gets what all have said. The
// list that this makes is used like one that was given.
package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

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
	Slurm  = "slurm" // as Master, at the host of task 0
	// HostFile is as Slurm, at a host of the batch system's host file.
	HostFile = "hostfile"
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
// has Slurm's variables, is no task of a step. An open PMI_FD is of the nearest launcher: MPICH's
// mpiexec leaves the variables of the PMIx step that it runs in.
func (o Options) Detect() string {
	switch {
	case o.Kind != Auto:
		return o.Kind
	case o.MasterAddr != "" && o.MasterPort != 0:
		return Master
	case pmiOpen():
		return PMI
	case os.Getenv("PMIX_NAMESPACE") != "":
		return PMIx
	case os.Getenv("PMI_FD") != "":
		return PMI
	case inStep():
		return Slurm
	case ranked() && hostFile() != nil:
		return HostFile
	}
	return ""
}

// ranked tells whether a launcher without a service that ringcli speaks to has said which rank
// this is.
func ranked() bool {
	for _, i := range identities() {
		if i.Kind == HostFile && i.Size > 0 {
			return true
		}
	}
	return false
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
	case HostFile:
		return openHostFile(ctx, o)
	default:
		return openMaster(ctx, o)
	}
}

// openMaster meets at MASTER_ADDR. torchrun starts ranks again with the same run and port: an
// attempt is a job of its own, or a rank of the last one could take a place in the next.
func openMaster(ctx context.Context, o Options) (Launcher, error) {
	if o.MasterAddr == "" || o.MasterPort == 0 {
		return nil, usage.Errorf("master-addr is %q and master-port is %d: expected both, the host of rank 0 and a TCP port there", o.MasterAddr, o.MasterPort)
	}
	host, err := masterHost(o.MasterAddr)
	if err != nil {
		return nil, err
	}
	job, taken := os.Getenv("TORCHELASTIC_RUN_ID"), os.Getenv("TORCHELASTIC_USE_AGENT_STORE") == "True"
	if attempt := os.Getenv("TORCHELASTIC_RESTART_COUNT"); attempt != "" {
		job += " attempt " + attempt
	}
	if taken && o.MasterPort == 65535 {
		return nil, usage.Errorf("master-port is 65535, and torchrun's store listens there (TORCHELASTIC_USE_AGENT_STORE): expected a port from 1 to 65534, after which one is left for rank 0")
	}
	return meet(ctx, meeting{rank: o.Rank, size: o.Size, hosts: []string{host}, port: o.MasterPort, job: job, token: o.Token, taken: taken})
}

// masterHost is the host of MASTER_ADDR: a name or an address, perhaps in brackets.
func masterHost(text string) (string, error) {
	host := strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(inner, "]") {
		host = strings.TrimSuffix(inner, "]")
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return host, nil
	}
	if hosts.NotName(host) != "" {
		return "", usage.Errorf("master-addr is %q: expected a host name or an address alone, such as node0, 10.0.5.4 or fd00::1; the port is --master-port (MASTER_PORT)", text)
	}
	return host, nil
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

// Step numbers of Slurm in which srun has started no task (slurm/slurm.h: SLURM_INTERACTIVE_STEP,
// SLURM_BATCH_SCRIPT).
const interactiveStep, batchScript = "4294967290", "4294967291"

// inStep tells whether srun has started this process as a task.
func inStep() bool {
	_, list := stepHosts()
	step := os.Getenv("SLURM_STEP_ID")
	return list != "" && os.Getenv("SLURM_PROCID") != "" && step != "" && step != interactiveStep && step != batchScript
}

// Slurm's tasks meet at the host of task 0, at the port that Slurm has reserved for the step
// (srun --resv-ports), or at one that the job's and the step's number make. Task 0 is on the
// step's first host, but for --distribution=arbitrary: the others look for it on all hosts. In a
// heterogeneous step rank, size, hosts and the job's number are those of all components together
// (seen with Slurm 22.05.8).
const meetingPort, meetingPorts = 20000, 10000 // below those that Linux gives to callers (ip_local_port_range)

func openSlurm(ctx context.Context, o Options) (Launcher, error) {
	name, list := stepHosts()
	nodes, err := hosts.Parse(list, meetingPort)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	job, step := os.Getenv("SLURM_JOB_ID"), os.Getenv("SLURM_STEP_ID")
	m := meeting{rank: o.Rank, size: o.Size, hosts: namesOnce(nodes), port: portOf(job, step), job: "slurm " + job + "." + step, token: o.Token}
	if reserved := os.Getenv("SLURM_STEP_RESV_PORTS"); reserved != "" {
		ports, err := hosts.Expand("[" + reserved + "]")
		if err == nil {
			m.port, err = strconv.Atoi(ports[0])
		}
		if err != nil || m.port < 1 || m.port > 65535 {
			return nil, usage.Errorf("SLURM_STEP_RESV_PORTS is %q: expected ports, as in 12000-12003", reserved)
		}
	}
	l, err := meet(ctx, m)
	if _, unknown := errors.AsType[*net.DNSError](err); unknown {
		return nil, fmt.Errorf("%w: Slurm's names of nodes (%s) need not resolve: give --master-addr with the NodeAddr of task 0's node (`scontrol show node`), and --master-port, or use srun --mpi=pmi2 or --mpi=pmix", err, name)
	}
	return l, err
}

// portOf is the port at which the ranks of a job's step meet.
func portOf(job, step string) int {
	jobNumber, _ := strconv.Atoi(job) // any number does
	stepNumber, _ := strconv.Atoi(step)
	return meetingPort + (jobNumber*37+stepNumber)*candidates%meetingPorts
}

// namesOnce are the hosts of a list, each once.
func namesOnce(nodes []hosts.Node) (names []string) {
	for _, n := range nodes {
		if !slices.Contains(names, n.Host) {
			names = append(names, n.Host)
		}
	}
	return names
}

// variable reads a number that a launcher gives.
func variable(name string, least int) (int, error) {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil || n < least {
		return 0, usage.Errorf("%s is %q: expected a whole number from %d, as the launcher sets it", name, os.Getenv(name), least)
	}
	return n, nil
}
