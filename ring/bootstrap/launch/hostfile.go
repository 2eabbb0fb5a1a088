package launch

import (
	"context"
	"os"
	"strings"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/hosts"
)

// batch is a batch system that names its job's hosts in a file.
type batch struct {
	name       string
	file, job  string // variables: the file's path, the job's number
	isHostLine bool   // a line has more than the host: HOST SLOTS QUEUE
}

// batches are the batch systems. Sources: qsub(1B) of PBS, LSF's environment variable reference,
// sge_pe(5).
var batches = []batch{
	{"PBS", "PBS_NODEFILE", "PBS_JOBID", false},
	{"LSF", "LSB_DJOB_HOSTFILE", "LSB_JOBID", false},
	{"Grid Engine", "PE_HOSTFILE", "JOB_ID", true},
}

// hostFile is the batch system that runs this job, nil if there is none.
func hostFile() *batch {
	for i, b := range batches {
		if os.Getenv(b.file) != "" {
			return &batches[i]
		}
	}
	return nil
}

// hosts reads the job's hosts, each once, in the order of the file.
func (b *batch) hosts() ([]string, error) {
	path := os.Getenv(b.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usage.Errorf("%s names the hosts of this job of %s: %w: expected a file that can be read on each host; or give MASTER_ADDR and MASTER_PORT", b.file, b.name, err)
	}
	var nodes []hosts.Node
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 && (b.isHostLine || len(fields) == 1) {
			nodes = append(nodes, hosts.Node{Host: fields[0]})
		}
	}
	if len(nodes) == 0 {
		return nil, usage.Errorf("%s: %s has no host: expected one a line", b.file, path)
	}
	return namesOnce(nodes), nil
}

// openHostFile meets at the host of rank 0, which the others look for on all hosts of the batch
// system's file: LSF's first host runs the script and no task of jsrun.
func openHostFile(ctx context.Context, o Options) (Launcher, error) {
	b := hostFile()
	if b == nil {
		return nil, usage.Errorf("launcher hostfile, and none of PBS_NODEFILE, LSB_DJOB_HOSTFILE and PE_HOSTFILE is set: expected one, or MASTER_ADDR and MASTER_PORT")
	}
	list, err := b.hosts()
	if err != nil {
		return nil, err
	}
	job := os.Getenv(b.job)
	number, _, _ := strings.Cut(job, ".") // PBS: NUMBER.SERVER
	step := os.Getenv("PALS_APID")        // one job may start several
	return meet(ctx, meeting{rank: o.Rank, size: o.Size, hosts: list, port: portOf(number, ""), job: strings.TrimSpace(b.name + " " + job + " " + step), token: o.Token})
}

// Unranked says which launcher or batch system runs this process without having said which rank
// it is, and what to do; "" if there is no sign of any.
func Unranked() string {
	switch b := hostFile(); {
	case os.Getenv("PMI_PORT") != "" && os.Getenv("PMI_FD") == "":
		return "MPICH's mpiexec -pmi-port has started this process (PMI_PORT), and ringcli speaks PMI over PMI_FD: start the ranks without -pmi-port"
	case os.Getenv("SLURM_JOB_ID") != "" && !inStep():
		return "this is a job of Slurm (SLURM_JOB_ID), but no task that srun has started: run `srun ringcli ...`"
	case b != nil:
		return "this is a job of " + b.name + " (" + b.file + "), and nothing says which rank this is: start the ranks by the job's mpirun or mpiexec, or give --list @$" + b.file + " and --index on each host"
	case os.Getenv("FLUX_JOB_ID") != "" || os.Getenv("FLUX_URI") != "":
		return "this is a job of Flux, and nothing says which rank this is: run `flux run -o pmi=simple ringcli ...`"
	case os.Getenv("LSB_JOBID") != "":
		return "this is a job of LSF (LSB_JOBID), and nothing says which rank this is: start the ranks by jsrun or mpirun"
	}
	return ""
}
