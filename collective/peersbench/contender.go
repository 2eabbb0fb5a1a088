//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ringcli/collective"
	"ringcli/collective/plan"
)

// role says what a contender's times are compared with.
type role uint8

const (
	rolePeer     role = iota // the fastest of them is the reference
	roleOurs                 // by the fastest peer
	roleTCP                  // the reference of soft
	roleSoft                 // by roleTCP
	roleLimit                // what the machine allows
	roleBaseline             // an older build of ours; what it is of is compared with it, too
)

// contender is somebody who is measured.
type contender struct {
	name  string
	what  string // for people
	role  role
	of    string                 // of a baseline: the contender that it was
	only  []collective.Operation // that it is about; nil for all
	order byte                   // of a measurement; 0 for orderMeasure
	hosts bool                   // it is for several hosts
	spins bool                   // its ranks poll without giving the CPU away
	start func(s site) []job
}

// site is where and how a contender's processes are started.
type site struct {
	ranks   int
	room    uint64 // bytes of a buffer
	dir     string // the team's own, with the FIFOs
	shm     string // a folder of ours in /dev/shm, or dir where there is none
	bin     string // where the compiled programs are
	self    string // this program
	older   string // another build of it; empty for none
	list    string // of the ring; empty but for ringcli
	device  string
	cpus    string        // that this process may use, such as 0,1
	pin     bool          // the ranks fit the CPUs, and are bound to one each
	crowded bool          // more ranks than CPUs
	hosts   int           // 0 for none
	limit   time.Duration // for an answer; 0 for orderLimit
}

// patience is how long an order may take.
func (s site) patience() time.Duration { return cmp.Or(s.limit, orderLimit) }

// job is a command to start.
type job struct {
	args []string
	env  []string // besides this process's
}

const (
	openMPI = "openmpi"
	mpich   = "mpich"
	limits  = "limits"
)

var (
	allReduce = []collective.Operation{collective.OpAllReduce}
	chunked   = operations[:3] // of which limits.c knows what a rank receives
)

// overTCP are settings of Open MPI's that leave TCP on loopback alone.
var overTCP = []string{"pml", "ob1", "btl", "tcp,self", "btl_tcp_if_include", "lo"}

// betweenHosts are those that leave TCP between hosts.
var betweenHosts = []string{"pml", "ob1", "btl", "vader,tcp,self"}

// Open MPI's algorithms, and the operations that they are for.
var (
	byRing     = tuned("allreduce", "4", "allgather", "4")
	byDoubling = tuned("allreduce", "3", "reduce_scatter_block", "2", "allgather", "3") // of chunked
	byHalves   = tuned("allreduce", "6", "reduce_scatter_block", "3", "bcast", "8", "reduce", "7")

	ringed = []collective.Operation{collective.OpAllReduce, collective.OpAllGather}
	cut    = []collective.Operation{collective.OpAllReduce, collective.OpReduceScatter, collective.OpBroadcast, collective.OpReduce}
)

// tuned are settings of Open MPI's coll/tuned, names and values by turns: who says
// nothing of an operation leaves it to the library's rules.
func tuned(algorithms ...string) []string {
	settings := []string{"coll_tuned_use_dynamic_rules", "1"}
	for i := 0; i < len(algorithms); i += 2 {
		settings = append(settings, "coll_tuned_"+algorithms[i]+"_algorithm", algorithms[i+1])
	}
	return settings
}

var contenders = withBaselines(append([]contender{
	{name: "openmpi", what: "Open MPI as it comes", start: runOpenMPI()},
	{name: "openmpi-nocma", what: "Open MPI, copies through shared memory instead of from process to process",
		start: runOpenMPI("btl_vader_single_copy_mechanism", "none")},
	{name: "openmpi-ring", what: "Open MPI by its ring", only: ringed,
		start: runOpenMPI(byRing...)},
	{name: "openmpi-rd", what: "Open MPI by its recursive doubling", only: chunked, start: runOpenMPI(byDoubling...)},
	{name: "openmpi-halves", what: "Open MPI by what cuts the vector: Rabenseifner's, recursive halving, scatter and all-gather",
		only: cut, start: runOpenMPI(byHalves...)},
	{name: "openmpi-sm", what: "Open MPI by its collectives in shared memory (coll/sm)",
		only:  []collective.Operation{collective.OpAllReduce, collective.OpBroadcast, collective.OpReduce},
		start: runOpenMPI("coll_sm_priority", "100"), spins: true},
	{name: "mpich", what: "MPICH as it comes", start: runMPICH, spins: true},
	{name: "ringcli", what: "ringcli, buffers from Comm.Alloc", role: roleOurs, start: runRingcli(buffersAlloc, "", collective.AlgorithmAuto)},
	{name: "ringcli-private", what: "ringcli, plain buffers: a private mapping of the caller's, Comm.Register", role: roleOurs, start: runRingcli(buffersPrivate, "", collective.AlgorithmAuto)},
	{name: "ringcli-slices", what: "ringcli, plain buffers: Go slices", role: roleOurs, start: runRingcli(buffersSlices, "", collective.AlgorithmAuto)},
	{name: "openmpi-tcp", what: "Open MPI over TCP on loopback", role: roleTCP, start: runOpenMPI(overTCP...)},
	{name: "openmpi-tcp-rd", what: "Open MPI over TCP on loopback, by its recursive doubling", role: roleTCP, only: chunked,
		start: runOpenMPI(slices.Concat(byDoubling, overTCP)...)},
	{name: "openmpi-tcp-ring", what: "Open MPI over TCP on loopback, by its ring", role: roleTCP, only: ringed,
		start: runOpenMPI(slices.Concat(byRing, overTCP)...)},
	{name: "openmpi-tcp-halves", what: "Open MPI over TCP on loopback, by what cuts the vector", role: roleTCP, only: cut,
		start: runOpenMPI(slices.Concat(byHalves, overTCP)...)},
	{name: "soft", what: "ringcli on the soft device, over UDP on loopback; buffers from Comm.Alloc", role: roleSoft, start: runRingcli(buffersAlloc, "soft", collective.AlgorithmAuto)},
	{name: "floor", what: "the least: as many threads, each reading its part of all inputs and writing it to all outputs, by the better store", role: roleLimit,
		only: allReduce, order: orderFloor, start: runLimits},
	{name: "memcpy", what: "memcpy of what a rank receives, by as many threads", role: roleLimit, only: chunked, start: runLimits},
	{name: "openmpi-hosts", what: "Open MPI, TCP between hosts and shared memory within", hosts: true, start: runOpenMPI(betweenHosts...)},
	{name: "openmpi-hosts-ring", what: "Open MPI so, by its ring", hosts: true, only: ringed,
		start: runOpenMPI(slices.Concat(byRing, betweenHosts)...)},
	{name: "openmpi-hosts-rd", what: "Open MPI so, by its recursive doubling", hosts: true, only: chunked,
		start: runOpenMPI(slices.Concat(byDoubling, betweenHosts)...)},
	{name: "openmpi-hosts-halves", what: "Open MPI so, by what cuts the vector", hosts: true, only: cut,
		start: runOpenMPI(slices.Concat(byHalves, betweenHosts)...)},
	{name: "openmpi-han", what: "Open MPI so, by its collectives for several hosts (coll/han)", hosts: true,
		start: runOpenMPI(append([]string{"coll_han_priority", "100"}, betweenHosts...)...)},
	{name: "openmpi-hosts-tcp", what: "Open MPI over TCP alone, also within a host", hosts: true, start: runOpenMPI("pml", "ob1", "btl", "tcp,self")},
	{name: "ringcli-soft", what: "ringcli on the soft device alone, also within a host", role: roleOurs, hosts: true, start: runRingcli(buffersAlloc, "soft", collective.AlgorithmAuto)},
}, algorithmContenders()...))

// withBaselines adds ringcli's contenders on one host once more, as --baseline has them.
func withBaselines(list []contender) []contender {
	for _, c := range list {
		if !c.hosts && (c.role == roleOurs || c.role == roleSoft) {
			b := c
			b.name = strings.TrimSuffix("baseline-"+strings.TrimPrefix(strings.TrimPrefix(c.name, "ringcli"), "-"), "-")
			b.what, b.role, b.of = "--baseline: "+c.what, roleBaseline, c.name
			b.start = func(s site) []job {
				s.self = s.older
				return c.start(s)
			}
			list = append(list, b)
		}
	}
	return list
}

// fielded are all contenders on several hosts, or on one; without baselines.
func fielded(hosts bool) (list []contender) {
	for _, c := range contenders {
		if c.hosts == hosts && c.role != roleBaseline {
			list = append(list, c)
		}
	}
	return list
}

// baselines are those of a contender, of "" all.
func baselines(of string) (list []contender) {
	for _, c := range contenders {
		if c.role == roleBaseline && (of == "" || c.of == of) {
			list = append(list, c)
		}
	}
	return list
}

func contenderNames(hosts bool) []string { return names(fielded(hosts)) }

func names(list []contender) (names []string) {
	for _, c := range list {
		names = append(names, c.name)
	}
	return names
}

// algorithmContenders are ringcli's algorithms, on several hosts. The inbox is for few ranks.
func algorithmContenders() (list []contender) {
	for _, a := range plan.Algorithms() {
		if a != collective.AlgorithmInbox {
			list = append(list, contender{name: "ringcli-" + a.String(), what: "ringcli, algorithm " + a.String(), role: roleOurs, hosts: true, start: runRingcli(buffersAlloc, "", a)})
		}
	}
	return list
}

// takes tells whether the contender has anything to do with an operation.
func (c contender) takes(op collective.Operation) bool {
	return c.only == nil || slices.Contains(c.only, op)
}

// needs is the library that the contender's program is linked with; empty for none.
func (c contender) needs() string {
	for _, library := range []string{openMPI, mpich} {
		if strings.HasPrefix(c.name, library) {
			return library
		}
	}
	return ""
}

// chosen are the contenders that options ask for with so many ranks. Who polls without
// ever making room is no reference where ranks wait for a CPU.
func (o options) chosen(crowded bool) (list []contender, left []string) {
	for _, c := range fielded(o.hosts > 0) {
		switch {
		case len(o.contenders) > 0 && !slices.Contains(o.contenders, c.name):
		case !slices.ContainsFunc(o.operations, c.takes):
		case len(o.contenders) == 0 && crowded && c.spins:
			left = append(left, c.name+": its ranks poll without giving the CPU away, so that it is no fair reference where ranks outnumber CPUs (--contenders takes it all the same)")
		default:
			list = append(list, c)
			if o.baseline != "" {
				list = append(list, baselines(c.name)...)
			}
		}
	}
	return list, left
}

// runOpenMPI starts mpirun with settings, which are names and values by turns.
func runOpenMPI(settings ...string) func(site) []job {
	return func(s site) []job {
		args := s.inHost(0, "mpirun.openmpi", "-np", strconv.Itoa(s.ranks))
		if os.Geteuid() == 0 {
			args = append(args, "--allow-run-as-root")
		}
		// All that it writes goes where we clean up.
		all := []string{"orte_tmpdir_base", s.dir, "btl_vader_backing_directory", s.shm}
		if s.hosts > 0 {
			between, on := s.spread()
			all, args = append(all, between...), append(args, on...)
		} else {
			all = append(all, "plm", "isolated")
		}
		if s.crowded {
			all = append(all, "mpi_yield_when_idle", "1")
			args = append(args, "--oversubscribe")
		}
		if s.pin {
			// By number: a core of mpirun's choice may be one that is not ours to use.
			args = append(args, "--cpu-list", s.cpus, "--bind-to", "cpu-list:ordered")
		} else {
			args = append(args, "--bind-to", "none")
		}
		all = append(all, settings...)
		for i := 0; i < len(all); i += 2 {
			args = append(args, "--mca", all[i], all[i+1])
		}
		return []job{{args: append(args, filepath.Join(s.bin, openMPI), s.dir, strconv.FormatUint(s.room, 10)), env: []string{"TMPDIR=" + s.dir}}}
	}
}

func runMPICH(s site) []job {
	args := []string{"mpirun.mpich", "-launcher", "fork", "-n", strconv.Itoa(s.ranks)}
	if s.pin {
		args = append(args, "-bind-to", "user:"+s.cpus)
	}
	return []job{{args: append(args, filepath.Join(s.bin, mpich), s.dir, strconv.FormatUint(s.room, 10)), env: []string{"TMPDIR=" + s.dir}}}
}

// runRingcli starts one process a rank, of this program.
func runRingcli(buffers, device string, a collective.Algorithm) func(site) []job {
	return func(s site) []job {
		if device != "" {
			s.device = device
		}
		var jobs []job
		for r := range s.ranks {
			jobs = append(jobs, job{args: s.inHost(s.hostOf(r), s.self, rankName, "--algorithm", a.String(),
				"--dir", s.dir, "--index", strconv.Itoa(r), "--list", s.list, "--device", s.device, "--buffers", buffers,
				"--room", strconv.FormatUint(s.room, 10), "--limit", s.patience().String(), fmt.Sprintf("--pin=%t", s.pin))})
		}
		return jobs
	}
}

// runLimits starts the one process whose threads are the ranks.
func runLimits(s site) []job {
	pin := "0"
	if s.pin {
		pin = "1"
	}
	return []job{{args: []string{filepath.Join(s.bin, limits), s.dir, strconv.FormatUint(s.room, 10), strconv.Itoa(s.ranks), pin}}}
}
