//go:build linux

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/collective"
	"ringcli/collective/plan"
	"ringcli/configs"
)

// options are the command's flags.
type options struct {
	sizeTexts, operationTexts, contenders []string
	rankNumbers                           []int
	sizes                                 []uint64 // bytes of the whole vector
	operations                            []collective.Operation
	rounds, retakes                       int
	hosts                                 int // 0 for none: all ranks are on this machine's loopback
	rate                                  string
	isolated                              bool // this process is in namespaces of its own
	device                                string
	inPlace, noPin, quick                 bool
	window, limit                         time.Duration
	json                                  string
	baseline                              string // another build of this program; empty for none
}

var operations = plan.AllOperations()

func operationNames() (names []string) {
	for _, op := range operations {
		names = append(names, op.String())
	}
	return names
}

const (
	// mostBytes is far beyond the caches of a machine. What does not fit into the memory is
	// left out (fitting).
	mostBytes = 256 << 20
	// mostRanks is that of limits.c.
	mostRanks = 128
	elemSize  = 4 // float32
)

func (o *options) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.sizeTexts, "sizes", []string{"8", "64", "512", "4K", "32K", "256K", "1M", "4M", "16M", "64M"}, "bytes of the whole vector")
	f.IntSliceVar(&o.rankNumbers, "ranks", []int{2, 4}, "numbers of ranks, such as 2,4,8,16,32, those of all hosts together (with --hosts 4 a host unless said otherwise); sizes that do not fit into the memory are left out")
	f.StringSliceVar(&o.operationTexts, "operations", operationNames(), "collectives; of those that have one rank 0 is the root; a barrier has no sizes")
	f.StringSliceVar(&o.contenders, "contenders", nil, "who is measured, of "+strings.Join(contenderNames(false), ", ")+"; with --hosts of "+strings.Join(contenderNames(true), ", ")+" (default: all that are a fair reference)")
	f.StringVar(&o.baseline, "baseline", "", "another build of this program, such as of an older commit: its ringcli is measured beside ours in the same rounds, for each of which both start anew, as "+strings.Join(names(baselines("")), ", ")+" (those whose counterparts are), and a table has the baseline's time by ours")
	f.IntVar(&o.hosts, "hosts", 0, "ranks on so many hosts, which are network namespaces on one Ethernet segment, as many on each; as root (0: all ranks are on one host, this machine)")
	f.StringVar(&o.rate, "rate", "1gbit", "of each host's link, both ways, with --hosts")
	f.BoolVar(&o.isolated, isolatedName, false, "this process is in namespaces of its own")
	_ = f.MarkHidden(isolatedName) // it is there
	f.IntVar(&o.rounds, "rounds", 7, "interleaved rounds, of which the medians are printed")
	f.IntVar(&o.retakes, "retakes", 2, "how often a cell is measured again in a round, if others had some of the CPUs meanwhile; the quietest counts")
	f.StringVar(&o.device, "device", "auto", "ringcli's device, but for contender soft")
	f.BoolVar(&o.inPlace, "in-place", false, "in place instead of out of place")
	f.BoolVar(&o.noPin, "no-pin", false, "leave it to the kernel where ranks run, also where they fit the CPUs")
	f.BoolVar(&o.quick, "quick", false, "3 rounds of 8, 4K, 256K and 4M, unless other flags say otherwise: a look, not a result")
	f.DurationVar(&o.window, "window", 15*time.Millisecond, "how long one measurement of small vectors takes")
	f.DurationVar(&o.limit, "limit", 30*time.Minute, "end the rounds after this long, and print what was measured")
	f.StringVar(&o.json, "json", "", "write every figure of every round to this file, an object a line")
}

// check refuses what would measure nothing, before anything is installed or started.
func (o *options) check(f *pflag.FlagSet) error {
	if o.quick {
		if !f.Changed("sizes") {
			o.sizeTexts = []string{"8", "4K", "256K", "4M"}
		}
		if !f.Changed("rounds") {
			o.rounds = 3
		}
	}
	if o.hosts > 0 && !f.Changed("ranks") {
		o.rankNumbers = []int{4 * o.hosts}
	}
	switch {
	case o.rounds < 1 || o.rounds > 1000:
		return fmt.Errorf("--rounds %d: expected 1 to 1000", o.rounds)
	case o.retakes < 0 || o.retakes > 100:
		return fmt.Errorf("--retakes %d: expected 0 to 100", o.retakes)
	case o.window < time.Millisecond || o.window > time.Second:
		return fmt.Errorf("--window %s: expected 1ms to 1s", o.window)
	case o.limit <= 0:
		return fmt.Errorf("--limit %s: expected a duration above 0", o.limit)
	case len(o.sizeTexts) == 0:
		return errors.New("--sizes: expected one size or several, such as 64,64K")
	case len(o.rankNumbers) == 0:
		return errors.New("--ranks: expected one number or several, such as 2,4")
	case len(o.operationTexts) == 0:
		return fmt.Errorf("--operations: expected some of %s", strings.Join(operationNames(), ", "))
	}
	for _, text := range o.sizeTexts {
		size, err := configs.ParseSize(text)
		if err != nil {
			return fmt.Errorf("--sizes %s: %w", text, err)
		}
		if size < elemSize || size > mostBytes || size%elemSize != 0 {
			return fmt.Errorf("--sizes %s: expected 4 to 256M, a multiple of %d: the elements are float32", text, elemSize)
		}
		o.sizes = append(o.sizes, size)
	}
	slices.Sort(o.sizes)
	o.sizes = slices.Compact(o.sizes)
	for _, n := range o.rankNumbers {
		if n < 2 || n > mostRanks {
			return fmt.Errorf("--ranks %d: expected 2 to %d", n, mostRanks)
		}
	}
	slices.Sort(o.rankNumbers)
	o.rankNumbers = slices.Compact(o.rankNumbers)
	for _, text := range o.operationTexts {
		i := slices.IndexFunc(operations, func(op collective.Operation) bool { return op.String() == text })
		if i < 0 {
			return fmt.Errorf("--operations %s: expected some of %s", text, strings.Join(operationNames(), ", "))
		}
		o.operations = append(o.operations, operations[i])
	}
	for _, name := range o.contenders {
		if names := contenderNames(o.hosts > 0); !slices.Contains(names, name) {
			return fmt.Errorf("--contenders %s: expected some of %s", name, strings.Join(names, ", "))
		}
	}
	if o.baseline != "" {
		path, err := exec.LookPath(o.baseline)
		if errors.Is(err, exec.ErrDot) {
			err = nil // it was named, whatever the PATH
		}
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return fmt.Errorf("--baseline %s: %w: expected what `go -C collective/peersbench build` has made", o.baseline, err)
		}
		o.baseline = path
	}
	return o.checkHosts()
}

// cell is what one figure is of.
type cell struct {
	op    collective.Operation
	ranks int
	bytes uint64 // of the whole vector, as it was asked for
}

// count is the number of elements. MPI_Reduce_scatter_block and MPI_Allgather want as
// many for each rank: what the ranks cannot share evenly is made longer, on both sides
// (8 bytes on 4 ranks become 16). The others take what they are given.
func (c cell) count() int {
	n := int(c.bytes / elemSize)
	if c.op == collective.OpAllReduce || c.op.Rooted() {
		return n
	}
	return (n + c.ranks - 1) / c.ranks * c.ranks
}

// letters are those of the operations in an order, by the operations' numbers, as in c/*.c.
const letters = "argwbd"

func (c cell) letter() byte { return letters[c.op] }

func (c cell) String() string {
	of := ""
	if c.op.OnVectors() {
		of = " of " + configs.FormatSize(c.bytes)
	}
	return fmt.Sprintf("%s%s on %d ranks", c.op, of, c.ranks)
}

// cells are all that are measured with so many ranks.
func (o options) cells(ranks int) []cell {
	var cells []cell
	for _, op := range o.operations {
		sizes := o.sizes
		if !op.OnVectors() {
			sizes = []uint64{0}
		}
		for _, bytes := range sizes {
			cells = append(cells, cell{op, ranks, bytes})
		}
	}
	return cells
}

// room is the number of bytes that every buffer has.
func (o options) room(ranks int) uint64 {
	most := uint64(elemSize) // of a barrier alone
	for _, c := range o.cells(ranks) {
		most = max(most, uint64(c.count())*elemSize)
	}
	return most
}

// fitting are the sizes whose buffers, two a rank of each contender, leave a quarter of
// the memory to the libraries and to the machine.
func fitting(sizes []uint64, contenders, ranks int, memory uint64) []uint64 {
	most := memory / 4 * 3 / uint64(max(1, 2*contenders*ranks))
	n := 0
	for n < len(sizes) && sizes[n] <= most {
		n++
	}
	return sizes[:n]
}
