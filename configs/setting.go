package configs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cast"
	"github.com/spf13/pflag"
)

// Setting is one thing that can be configured, by the flag --Name, by the
// environment variable RINGCLI_NAME, or by the key Name in a file.
type Setting struct {
	Name    string
	Default any    // its Go type is the setting's: string, int, time.Duration, or uint64, which is bytes
	Usage   string // of the flag; see FlagUsage
	// Comment is what Sample says; empty means Usage.
	Comment string
	// Section is the heading of Sample that begins with this setting.
	Section string
	// Guarded is what the value names ("a secret", "a file to write") where the
	// configuration file of the working directory cannot set it.
	Guarded string

	// OneOf, if set, lists all values (strings and ints).
	OneOf []any
	// Aliases are other names of some of them (strings).
	Aliases map[string]string
	// anyCase takes values and aliases whatever the case of their letters.
	anyCase bool
	// Completes is what a value completes to where OneOf does not say: a word of
	// cli's completion, and what that takes.
	Completes []string
	// Min and Max bound ints and bytes that OneOf does not list, and Min durations, in
	// nanoseconds. The default need not lie between them.
	Min, Max int64
	// check refuses texts; another package's, by Check.
	check func(text string) error
	// EnvToo are read when the setting's own variable is not set: the first that is. Those
	// without RINGCLI_ are other programs': see Config.CheckForeign.
	EnvToo []string
	// gives is the setting that has its value from this one where it has none of its own, and
	// give what that is, with so many slots.
	gives string
	give  func(value any, slots int) any
}

// Settings is the table of all settings, and the only place where their defaults
// and ranges are: flags, variables, files, help, completion, the sample, and the
// structs that Complete and Config.Fill fill in have them from here. Defaults of
// the queue pair's attributes are those of rdma-core's examples, but for retry-cnt.
var Settings = []Setting{
	{Name: "list", Default: "", Completes: []string{"hosts"},
		Section: "Who is in the ring",
		Usage:   "the ring's hosts in order: host, host:port or [v6]:port, node[0-3,7], comma or space separated, or @FILE",
		Comment: "The ring's hosts in order: host, host:port, [v6]:port or node[0-3,7], as a sequence,\nas one string separated by commas or spaces, or \"@FILE\" to read them from a file,\nsuch as a host file of Open MPI (host slots=8); \"@mpich:FILE\": a machine file of MPICH.\nNot given: what has started the ranks says who they are (help launchers)."},
	{Name: "index", Default: -1, Min: -1, Max: maxRanks - 1, Completes: []string{"ranks"},
		EnvToo: []string{"RANK", "OMPI_COMM_WORLD_RANK", "WORLD_RANK", "PALS_RANKID", "MV2_COMM_WORLD_RANK", "JSM_NAMESPACE_RANK",
			"PMI_RANK", "FLUX_TASK_RANK", "SLURM_PROCID"},
		Usage:   "this rank's place in the list, from 0 (-1: not given; also RANK and what launchers set)",
		Comment: "This rank's place in the list, from 0. It differs on every node, so it is better\ngiven as a flag or as RINGCLI_INDEX; RANK and the variables of launchers are read\nafter that (help launchers). -1: not given."},
	{Name: "world-size", Default: 1, Min: 1, Max: maxRanks,
		EnvToo: []string{"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PALS_SIZE", "MV2_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE",
			"PMI_SIZE", "FLUX_JOB_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
		Usage:   "how many ranks there are, where no list says so (also WORLD_SIZE and what launchers set)",
		Comment: "How many ranks there are, where no list says so. 1 asks for a ring of one rank.\nWORLD_SIZE and the variables of launchers are read after RINGCLI_WORLD_SIZE."},
	{Name: "launcher", Default: "auto", OneOf: []any{"auto", "master", "pmix", "pmi", "slurm", "hostfile"},
		Usage:   "how the ranks find each other where there is no list: %s (auto: by the variables that are set)",
		Comment: "How the ranks find each other where there is no list: master (master-addr), pmix\n(Open MPI, Slurm), pmi (MPICH, Slurm), slurm (its variables alone) or hostfile (of PBS,\nLSF or Grid Engine). auto: by the variables that are set, in this order."},
	{Name: "master-addr", Default: "", EnvToo: []string{"MASTER_ADDR"}, Completes: []string{"hosts"},
		Usage:   "host of rank 0, at which the ranks find each other where there is no list (also MASTER_ADDR)",
		Comment: "Host of rank 0, at which the ranks find each other where there is no list.\nMASTER_ADDR, which torchrun sets, is read after RINGCLI_MASTER_ADDR."},
	{Name: "master-port", Default: 0, Min: 1, Max: 65535, EnvToo: []string{"MASTER_PORT"},
		Usage:   "TCP port there, or one of the 7 after it (0: not given; also MASTER_PORT)",
		Comment: "TCP port there, or one of the 7 after it. MASTER_PORT, which torchrun sets, is read\nafter RINGCLI_MASTER_PORT. 0: not given."},
	{Name: "advertise", Default: "auto", Completes: []string{"words", "auto"},
		Usage:   "host name, address or network (10.9.0.0/24) by which the others reach this rank where there is no list (auto: the address of its connection to rank 0)",
		Comment: "Host name, address or network (10.9.0.0/24) by which the others reach this rank where\nthere is no list. auto: the address of its connection to rank 0, else one of a network\nthat all hosts have."},
	{Name: "tcp-port", Default: 18600, Min: 1, Max: 65535,
		Usage:   "TCP port of the exchange, for hosts listed without one",
		Comment: "TCP port of the exchange, for hosts that are listed without one."},
	{Name: "token-file", Default: "", Guarded: "a secret", Completes: []string{"files"},
		Usage:   "`file` with the secret that all ranks share, readable by its owner alone (or the secret in RINGCLI_TOKEN)",
		Comment: "File with a secret that all ranks share; its owner alone may read it. The secret\nitself may be in RINGCLI_TOKEN instead. See `ringcli help security`."},
	{Name: "timeout", Default: 30 * time.Second,
		Usage:   "deadline of each wait",
		Comment: "Deadline of each wait, with its unit."},
	{Name: "cpus", Default: "auto", Completes: []string{"words", "auto", "none"},
		Usage:   "CPUs that the ranks of this host poll on, in turn, as in 0-3,8 (auto: close ones that no other ring has, none: wherever the kernel puts them)",
		Comment: "The CPUs that the ranks of this host poll on, in turn, as in 0-3,8. auto: close ones\nthat no other ring has; none: wherever the kernel puts them."},
	{Name: "hosts", Default: "auto", Completes: []string{"words", "auto"},
		Usage:   "ranks of each host in turn, for --algorithm hierarchical, as in 3,1 or 4x2 (auto: those that have a kernel and a network namespace in common)",
		Comment: "The ranks of each host in turn, for algorithm hierarchical, as in 3,1 or 4x2 (four\nhosts of two). auto: those that have a kernel and a network namespace in common."},

	// Less than several time slices of a busy machine would tell of the living.
	{Name: "death", Default: 1500 * time.Millisecond, Min: int64(200 * time.Millisecond),
		Usage:   "how long until a host or a network that is down is told of",
		Comment: "How long until a host or a network that is down is told of, with its unit. A\nprocess that dies is told of at once."},
	{Name: "silence", Default: 5 * time.Second, Min: int64(500 * time.Millisecond),
		Usage:   "how long a rank may stand still whose host answers",
		Comment: "How long a rank may stand still whose host answers: stopped, or stuck."},

	{Name: "device", Default: "auto", Completes: []string{"devices"},
		Section: "The device and the queue pair",
		Usage:   "provider:device, such as soft:lo or ibv:mlx5_0 (auto: shm:0 to neighbours on this host, else the RDMA device that has the local address, else soft); several, as in soft:eth0,soft:eth1, carry --channels by turns",
		Comment: "provider:device, such as soft:lo or ibv:mlx5_0. auto: chosen per neighbour. Several,\nseparated by commas, carry the channels by turns."},
	{Name: "port", Default: 1, Min: 1, Max: 255,
		Usage: "port of the RDMA device"},
	{Name: "gid-index", Default: -1, Min: -1, Max: 255, Completes: []string{"gids"},
		Usage:   "index in the port's GID table (-1: chosen by the route to the neighbour)",
		Comment: "Index in the port's GID table. -1: chosen by the route to the neighbour."},
	{Name: "mtu", Default: 0, OneOf: []any{0, 256, 512, 1024, 2048, 4096},
		Usage:   "path MTU in bytes (0: the port's active MTU)",
		Comment: "Path MTU in bytes: 256, 512, 1024, 2048 or 4096. 0: the port's active MTU."},
	{Name: "sl", Default: 0, Min: 0, Max: 15,
		Usage:   "service level",
		Comment: "Service level, 0 to 15."},
	{Name: "traffic-class", Default: 0, Min: 0, Max: 255,
		Usage:   "traffic class: DSCP and ECN bits of RoCEv2",
		Comment: "Traffic class, 0 to 255: the six bits of the DSCP, then two of ECN."},
	{Name: "qp-timeout", Default: 14, Min: 0, Max: 31,
		Usage:   "local ACK timeout, 4.096 us times 2 to this power (0: wait for ever)",
		Comment: "Local ACK timeout: 4.096 us times 2 to this power; 14 is 67 ms. 0: none."},
	{Name: "retry-cnt", Default: 6, Min: 0, Max: 7,
		Usage:   "retries after an ACK timeout or a sequence error (rdma_rxe takes 7 for ever)",
		Comment: "Retries after an ACK timeout or a sequence error. Linux's rdma_rxe takes 7\nfor ever, so that a lost peer would never be reported."},
	{Name: "rnr-retry", Default: 7, Min: 0, Max: 7,
		Usage:   "retries while the peer has no receive posted (7: for ever)",
		Comment: "Retries while the peer has no receive posted. 7: for ever."},
	{Name: "min-rnr-timer", Default: 12, Min: 0, Max: 31,
		Usage:   "delay asked of a peer while no receive is posted, as a code of the specification (12: 0.64 ms)",
		Comment: "The delay asked of a peer while no receive is posted, as a code of the\nInfiniBand specification. 12: 0.64 ms."},
	{Name: "inject", Default: "off", Completes: []string{"words", "off", "soft: loss 1%", "soft: delay 2ms", "soft: down 2s every 10s"},
		Usage:   "faults that soft devices inject into their packets on purpose, as in 'soft: loss 1%, corrupt 0.1%, delay 2ms' (help inject; off: none)",
		Comment: "Faults that soft devices inject into their packets on purpose, as in\n\"soft: loss 1%, delay 2ms to 2\" (ringcli help inject). off: none."},

	{Name: "algorithm", Default: "auto", OneOf: []any{"auto", "ring", "recursive-doubling", "tree", "inbox", "hierarchical"},
		Aliases: map[string]string{"rd": "recursive-doubling", "doubling": "recursive-doubling", "hier": "hierarchical"},
		Section: "How collectives move their data",
		Usage:   "algorithm of collectives: %s (auto: by size and by the table)",
		Comment: "auto (by size and by the table), ring, recursive-doubling (or rd), tree, inbox or hierarchical (or hier)."},
	{Name: "protocol", Default: "auto", OneOf: []any{"auto", "eager", "rendezvous", "rendezvous-write", "rendezvous-read", "receiver-initiated", "direct"},
		Usage:   "protocol of collectives: %s (auto: by size and by the table; direct: through memory that ranks of one host share)",
		Comment: "auto (by size and by the table), eager, rendezvous, rendezvous-write,\nrendezvous-read, receiver-initiated (all-reduce only) or direct."},
	{Name: "segment", Default: uint64(0), Min: 256, Max: 1 << 30,
		Usage:   "bytes of a segment, the unit of pipelining (0: by the size of the vector)",
		Comment: "Bytes of a segment, the unit of pipelining. Sizes take K, M and G (1024).\n0: by the size of the vector."},
	{Name: "depth", Default: 4, Min: 1, Max: 16,
		Usage: "segments in flight"},
	{Name: "table", Default: "auto", Completes: []string{"files", "json"},
		Usage:   "file of tables by which auto chooses algorithm and protocol; rank 0's counts (auto: what tune has saved for such a ring; none: the built-in choice)",
		Comment: "File of tables by which auto chooses algorithm and protocol, as `ringcli tune`\nsaves them. Rank 0's counts. auto: the user's ringcli/table.json, if it has a table\nfor such a ring; none: the built-in choice."},
	{Name: "channels", Default: 1, Min: 1, Max: 16,
		Usage:   "queue pairs to each neighbour, which take segments by turns (the same on all ranks)",
		Comment: "Queue pairs to each neighbour, which take segments by turns. All ranks need the\nsame."},
	// 16 slots hold four pipelines of the default depth, and take 4 MiB a neighbour.
	{Name: "slots", Default: 16, Min: 1, Max: 1024,
		Usage: "slots to receive into, per channel to a neighbour, for eager"},
	{Name: "slot-size", Default: uint64(256 << 10), Min: 256, Max: 1 << 30,
		Usage: "bytes of a slot"},

	// Those of a specification of a backend of RCCL (RCCLConfig), under its names and with its
	// defaults, by which the others stay as they are.
	{Name: "use-ring-all-reduce", Default: "auto", OneOf: []any{"auto", "true", "false"},
		Section: "RCCL's names",
		Usage:   "all-reduce round the ring where auto chooses: %s (auto: by size and by the table, or true beside use-tree-all-reduce)",
		Comment: "All-reduce goes round the ring where auto chooses: true or false. auto: by size and\nby the table, or true if use-tree-all-reduce is given. Rank 0's counts."},
	{Name: "use-tree-all-reduce", Default: "auto", OneOf: []any{"auto", "true", "false"},
		Usage:   "all-reduce by the tree up to tree-threshold-bytes: %s (auto: by size and by the table, or false beside use-ring-all-reduce)",
		Comment: "All-reduce goes by the tree up to tree-threshold-bytes, and at any size if\nuse-ring-all-reduce is false: true or false. auto: by size and by the table, or false\nif use-ring-all-reduce is given. Rank 0's counts."},
	{Name: "tree-threshold-bytes", Default: uint64(1 << 20), Min: 1, Max: 1 << 40,
		Usage:   "longest vector, in bytes, that use-tree-all-reduce sends by the tree where the ring is used, too",
		Comment: "The longest vector, in bytes, that use-tree-all-reduce sends by the tree where the\nring is used, too."},
	{Name: "num-channels", Default: 1, Min: 1, Max: 16, EnvToo: []string{"RCCL_NCHANNELS"}, gives: "channels",
		give:    func(value any, _ int) any { return value },
		Usage:   "channels, unless those are given (also RCCL_NCHANNELS)",
		Comment: "channels, unless those are given. RCCL_NCHANNELS sets it too."},
	{Name: "enable-debug", Default: "false", OneOf: []any{"false", "true"}, EnvToo: []string{"RCCL_DEBUG", "NCCL_DEBUG"}, gives: "trace",
		anyCase: true, // as NCCL, which compares with strcasecmp
		Aliases: map[string]string{"INFO": "true", "TRACE": "true", "WARN": "false", "VERSION": "false", "ABORT": "false", "NONE": "false"},
		give: func(value any, _ int) any {
			if value == "true" {
				return "info"
			}
			return "warn"
		},
		Usage:   "trace at info (true) or warn (false), unless that is given: %s (also RCCL_DEBUG or NCCL_DEBUG, as INFO or WARN)",
		Comment: "trace at info (true) or warn (false), unless that is given. RCCL_DEBUG and\nNCCL_DEBUG set it too, as INFO or WARN."},
	{Name: "buffer-size", Default: uint64(4 << 20), Min: 4 << 10, Max: 1 << 30, EnvToo: []string{"RCCL_BUFFSIZE"}, gives: "slot-size",
		give:    func(value any, slots int) any { return value.(uint64) / uint64(slots) },
		Usage:   "bytes of all slots of a channel, which make slot-size unless that is given (also RCCL_BUFFSIZE)",
		Comment: "Bytes of all slots of a channel, which make slot-size unless that is given.\nRCCL_BUFFSIZE sets it too."},

	{Name: "output", Default: "table", OneOf: []any{"table", "json", "csv", "nccl-tests"}, Completes: []string{"formats"},
		Section: "What is printed",
		Usage:   "format of results: %s (the last for bench of a collective only)",
		Comment: "Format of results: table, json or csv, or for bench of a collective alone\nnccl-tests."},
	{Name: "csv-table", Default: "auto", Completes: []string{"tables"},
		Usage:   "table of --output csv, by its name in ringcli schema (auto: that of the first row; all: each, after an empty line)",
		Comment: "The table that csv has, by its name in ringcli schema. auto: that of the first row,\nor the verdict of a self-check. all: each, after an empty line."},
	{Name: "trace", Default: "warn", EnvToo: []string{"RINGCLI_DEBUG"}, Completes: []string{"levels"},
		Usage:   "trace levels: a level for all (debug, info, warn, error, off) or a list such as wire=debug,ring=info",
		Comment: "Trace levels: debug, info, warn, error or off for all, or a list such as\nwire=debug,ring=info of the subsystems bootstrap, verbs, wire, ring,\ncollective and repl. RINGCLI_DEBUG sets it too."},
	{Name: "trace-format", Default: "auto", OneOf: []any{"auto", "text", "json"},
		Usage:   "format of traces: %s (auto: text on a terminal, JSON otherwise)",
		Comment: "Format of traces: auto (text on a terminal, JSON otherwise), text or json."},
	{Name: "junit", Default: "", Guarded: "a file to write", Completes: []string{"files", "xml"},
		Section: "For machines",
		Usage:   "write what was checked to this file, as JUnit XML: a test case per check, link and rank (%r in its name: this rank)",
		Comment: "A file for what was checked, as JUnit XML: a test case per check, link and rank.\n%r in its name stands for this rank, whose own file it is then."},
	{Name: "metrics", Default: "", Guarded: "a file to write", Completes: []string{"files", "prom"},
		Usage:   "write what was measured to this file, for node_exporter's textfile collector (%r in its name: this rank)",
		Comment: "A file for what was measured, which node_exporter's textfile collector takes, such\nas /var/lib/prometheus/node-exporter/ringcli.prom. %r stands for this rank. The\nfile's name is the label ring: give each ring of a node a name that stays."},
	{Name: "log-file", Default: "", Guarded: "a file to write", Completes: []string{"files", "log"},
		Usage:   "write results, failures and the trace's events to this file as they come, as JSON (%r in its name: each rank writes its own)",
		Comment: "A file for results, failures and the trace's events as they come, a line of JSON\neach. %r in its name stands for this rank. What is there is kept."},
	{Name: "log-size", Default: uint64(16 << 20), Min: 1 << 20, Max: 1 << 40,
		Usage:   "bytes after which the log file is put aside under another name, of which 5 are kept",
		Comment: "Bytes after which the log file is put aside, under a name with the time in it. Five\nof these are kept."},
	{Name: "report-on-failure", Default: "", Guarded: "a file to write", Completes: []string{"files", "gz"},
		Usage:   "if the ring does not come up, write the report of this node to this file (%r in its name: each rank writes its own)",
		Comment: "A file for the report of this node (help report) if the ring does not come up. %r\nstands for this rank."},
	{Name: "good-hosts", Default: "", Guarded: "a file to write", Completes: []string{"files"},
		Usage:   "write the hosts that nothing was found about to this file, one a line",
		Comment: "A file for the hosts of connect's ring that nothing was found about, one a line."},
	{Name: "bad-hosts", Default: "", Guarded: "a file to write", Completes: []string{"files"},
		Usage:   "write the hosts that are at fault to this file, one a line; of a pair that is at fault neither is in either file",
		Comment: "A file for those that are at fault, one a line. Of a pair that is at fault neither\nis in either file."},
}

// Check has a setting's texts looked at by the package that they are for. It is for package
// initialisation.
func Check(name string, check func(text string) error) {
	Settings[slices.IndexFunc(Settings, func(s Setting) bool { return s.Name == name })].check = check
}

// either is "a, b or c".
func either(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// maxRanks bounds index; a list of a million hosts is a mistake.
const maxRanks = 1 << 20

// Lookup returns the setting of that name.
func Lookup(name string) (Setting, bool) {
	for _, s := range Settings {
		if s.Name == name {
			return s, true
		}
	}
	return Setting{}, false
}

// Names returns the names of all settings, in the order of Settings.
func Names() []string {
	names := make([]string, len(Settings))
	for i, s := range Settings {
		names[i] = s.Name
	}
	return names
}

// Words are all values that OneOf lists.
func (s Setting) Words() []string {
	words := make([]string, len(s.OneOf))
	for i, v := range s.OneOf {
		words[i] = fmt.Sprint(v)
	}
	return words
}

const envPrefix = "RINGCLI_"

// FlagUsage is Usage, in which %s stands for all values.
func (s Setting) FlagUsage() string {
	if s.OneOf == nil {
		return s.Usage
	}
	return strings.Replace(s.Usage, "%s", either(s.Words()), 1)
}

// Env returns the environment variable of the setting: RINGCLI_GID_INDEX.
func (s Setting) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// ownVariables are ringcli's variables that the setting is taken from, in order: of any other
// value than the setting's they are an error.
func (s Setting) ownVariables() []string { return append([]string{s.Env()}, s.envToo(true)...) }

// foreignVariables are those of other programs, in order.
func (s Setting) foreignVariables() []string { return s.envToo(false) }

func (s Setting) envToo(own bool) (names []string) {
	for _, name := range s.EnvToo {
		if strings.HasPrefix(name, envPrefix) == own {
			names = append(names, name)
		}
	}
	return names
}

// AddFlags declares a flag for each named setting, or for all of them if none
// is named, with default and usage from the table. A flag of that name that the
// command has declared itself stays as it is: it may take more than the setting
// does, is the command's to read, and is none of Load's. A name that is not in
// the table is a programmer's error and panics.
func AddFlags(flags *pflag.FlagSet, names ...string) {
	if len(names) == 0 {
		names = Names()
	}
	for _, name := range names {
		s := mustLookup(name)
		if flags.Lookup(name) != nil {
			continue
		}
		switch d := s.Default.(type) {
		case string:
			flags.String(name, d, s.FlagUsage())
		case int:
			flags.Int(name, d, s.FlagUsage())
		case time.Duration:
			flags.Duration(name, d, s.Usage)
		case uint64:
			flags.Var(new(SizeValue(d)), name, s.Usage)
		}
		// The only error is a flag that does not exist.
		_ = flags.SetAnnotation(name, settingAnnotation, nil)
	}
}

// settingAnnotation marks the flags that AddFlags has declared.
const settingAnnotation = "ringcli_setting"

func mustLookup(name string) Setting {
	s, ok := Lookup(name)
	if !ok {
		panic("configs: no setting " + strconv.Quote(name))
	}
	return s
}

// Parse turns what a flag, a variable or a file holds into the setting's Go
// type, and checks it. Errors wrap ErrInvalid and name the setting, the value
// and what was expected.
func (s Setting) Parse(raw any) (any, error) {
	value, ok := s.convert(raw)
	if !ok || !s.allows(value) {
		return nil, fmt.Errorf("%w: %s is %s, expected %s", ErrInvalid, s.Name, display(raw), s.expected())
	}
	if s.check != nil {
		if err := s.check(value.(string)); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, s.Name, err)
		}
	}
	return value, nil
}

func (s Setting) convert(raw any) (any, bool) {
	switch s.Default.(type) {
	case string:
		// A list in a file reads well as a YAML sequence.
		switch raw.(type) {
		case []any, []string:
			return strings.Join(cast.ToStringSlice(raw), ","), true
		case map[string]any:
			return nil, false
		}
		text, err := cast.ToStringE(raw)
		if s.anyCase {
			text = s.spelled(text)
		}
		if name, ok := s.Aliases[text]; ok {
			text = name
		}
		return text, err == nil
	case int:
		// Not cast.ToInt, which takes true for 1 and cuts fractions off.
		n, err := strconv.Atoi(strings.TrimSpace(fmt.Sprint(raw)))
		return n, err == nil
	case time.Duration:
		// A bare number would leave open whether it means seconds.
		d, err := time.ParseDuration(strings.TrimSpace(fmt.Sprint(raw)))
		return d, err == nil
	case uint64:
		size, err := ParseSize(fmt.Sprint(raw))
		return size, err == nil
	}
	return nil, false
}

// spelled is a value or an alias as the table has it; any other text stays as it is.
func (s Setting) spelled(text string) string {
	for _, word := range slices.Concat(s.Words(), slices.Collect(maps.Keys(s.Aliases))) {
		if strings.EqualFold(word, text) {
			return word
		}
	}
	return text
}

func (s Setting) allows(value any) bool {
	if s.OneOf != nil {
		return slices.Contains(s.OneOf, value)
	}
	if value == s.Default {
		return true
	}
	switch v := value.(type) {
	case string: // as of a variable that is not set
		return v != ""
	case int:
		return s.Min <= int64(v) && int64(v) <= s.Max
	case uint64:
		return uint64(s.Min) <= v && v <= uint64(s.Max)
	case time.Duration:
		return v > 0 && int64(v) >= s.Min
	}
	return true
}

func (s Setting) expected() string {
	if s.OneOf != nil {
		return either(s.Words())
	}
	switch s.Default.(type) {
	case int:
		return fmt.Sprintf("a whole number from %d to %d", s.Min, s.Max)
	case time.Duration:
		if s.Min > 0 {
			return fmt.Sprintf("a duration of at least %s with its unit", time.Duration(s.Min))
		}
		return "a duration above zero with its unit, such as 500ms or 30s"
	case uint64:
		such := "64K or 1MiB"
		if s.Min > 64<<10 {
			such = FormatSize(s.Default.(uint64))
		}
		text := fmt.Sprintf("a size from %s to %s, such as %s", FormatSize(uint64(s.Min)), FormatSize(uint64(s.Max)), such)
		if s.Default == uint64(0) {
			text = "0, or " + text
		}
		return text
	}
	return "a text that is not empty"
}

func display(raw any) string {
	if text, ok := raw.(string); ok {
		return strconv.Quote(text)
	}
	return fmt.Sprint(raw)
}
