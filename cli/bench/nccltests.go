package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"ringcli/cli/about"
	"ringcli/cli/bench/corruption"
	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/collective"
	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs/pcie"
)

// The text of nccl-tests 2.19.6, as its src/util.cu writes it (writeDeviceReport,
// writeResultHeader, writeBenchmarkLineBody, writeResultFooter), blanks at the ends of
// lines included.

// ncclTestsVersion is the version whose text it is.
const ncclTestsVersion = "2.19.6"

const ncclTestsColumns = `#
#                                                              out-of-place                       in-place          ` + `
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ` + `
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         ` + `
`

// ncclTestsTypes are the types that nccl-tests calls by other names.
var ncclTestsTypes = map[reduce.Type]string{reduce.Float16: "half", reduce.Float32: "float", reduce.Float64: "double"}

// checkNCCLTests refuses what nccl-tests' table has no place for.
func checkNCCLTests(s *session.Session, op string, call command.Call) error {
	switch window := command.Value[time.Duration](call.Flags, "window"); {
	case s.Out.Format() != render.NCCLTests:
		return nil
	case op == benchP2P, op == collective.OpBarrier.String():
		return exit.Usagef("bench %s: --output %s is the table of a collective that moves data: expected table, json or csv, or another operation, such as bench all-reduce", op, render.NCCLTests)
	case window > 0:
		return exit.Usagef("bench %s: --window %s with --output %s, whose table has no windows: expected one of them", op, window, render.NCCLTests)
	}
	return nil
}

// nodeOfRank is where a rank runs, as the head of nccl-tests' table says it.
type nodeOfRank struct {
	Pid    int    `json:"pid"`
	Host   string `json:"host"` // up to its first dot
	Number int    `json:"number"`
	Device string `json:"device"`
	PCI    string `json:"pci"` // address of the device; "-" if it is on no PCIe
}

func thisNode(m *session.Member) nodeOfRank {
	name, _ := os.Hostname() // or it is empty
	host, _, _ := strings.Cut(name, ".")
	n := nodeOfRank{Pid: os.Getpid(), Host: host, Number: m.Comm.Hosts().Place(m.Comm.Rank()), Device: "none"}
	for _, e := range []*ring.Edge{m.Ring.Left(), m.Ring.Right()} {
		if d := e.Device(); d != nil {
			n.Device = d.Name
		}
	}
	_, device, _ := strings.Cut(n.Device, ":")
	n.PCI = cmp.Or(pcie.Find(os.DirFS("/"), "sys/class/infiniband/"+device).Card, "-")
	return n
}

// ncclTestsHead prints what stands above nccl-tests' rows. All ranks call it, whatever
// their own --output is.
func (b sweep) ncclTestsHead(ctx context.Context) error {
	nodes, err := session.Share(ctx, b.s.Member, thisNode(b.s.Member))
	if err != nil || b.s.Out.Format() != render.NCCLTests {
		return err
	}
	factor, validation := uint64(benchFactor), 0
	if len(b.sizes) > 1 {
		factor = b.sizes[1] / b.sizes[0]
	}
	if b.o.check {
		validation = 1
	}
	var t strings.Builder
	fmt.Fprintf(&t, "# ringcli %s: the table of nccl-tests %s\n", about.Version(), ncclTestsVersion)
	fmt.Fprintf(&t, "# Collective test starting: %s\n", ncclTestsName(b.o.op))
	fmt.Fprintf(&t, "# nThread 1 nGpus 1 minBytes %d maxBytes %d step: %d(factor) warmup iters: %d iters: %d agg iters: %d validation: %d graph: 0 unalign: 0\n",
		b.sizes[0], b.sizes[len(b.sizes)-1], factor, b.o.Warmup, b.o.Iters, max(b.o.aggregate, 1), validation)
	fmt.Fprintf(&t, "# %s; a row: %s\n#\n# Using devices\n", b.title, b.o.often())
	for rank, n := range nodes {
		fmt.Fprintf(&t, "#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] %s\n", rank, 0, n.Pid, n.Host, n.Number, n.PCI, n.Device)
	}
	return b.s.Out.Text(t.String() + ncclTestsColumns)
}

// ncclTestsName is the program of nccl-tests that measures an operation.
func ncclTestsName(op collective.Operation) string {
	return strings.ReplaceAll(op.String(), "-", "_") + "_perf"
}

// NCCLTests implements render.NCCLTester. Its count is that of a call of NCCL: of an
// all-gather and a reduce-scatter what one rank has, rounded down where ranks have parts of
// different lengths.
func (b BenchRow) NCCLTests() string {
	m, count, root, op := b.Out, b.Out.Count, -1, cmp.Or(b.Out.Op, "none")
	if m.Command == collective.OpAllGather.String() || m.Command == collective.OpReduceScatter.String() {
		count /= uint64(m.Ranks)
	}
	if m.Root != nil {
		root = *m.Root
	}
	name := m.Type
	if t, err := reduce.ParseType(m.Type); err == nil {
		name = cmp.Or(ncclTestsTypes[t], name)
	}
	return fmt.Sprintf("%12d  %12d  %8s  %6s  %6d%s%s\n", m.Bytes, count, name, op, root, b.Out.ncclTestsBody(), b.In.ncclTestsBody())
}

func (m Measurement) ncclTestsBody() string {
	wrong := "    N/A"
	if m.Wrong != nil {
		wrong = fmt.Sprintf("  %6.6g", float64(*m.Wrong))
	}
	return fmt.Sprintf("  %s  %s  %s%s", ncclTestsFigure(m.Time.Mean, 7), ncclTestsFigure(m.AlgBW, 6), ncclTestsFigure(m.BusBW, 6), wrong)
}

// ncclTestsFigure writes a number with as many of two decimals as there is room for.
func ncclTestsFigure(v float64, width int) string {
	for decimals := 2; decimals >= 0; decimals-- {
		if text := fmt.Sprintf("%*.*f", width, decimals, v); len(text) <= width {
			return text
		}
	}
	exponent := 0 // decimals, as nccl-tests has them in such a column
	if width >= 7 {
		exponent = 1
	}
	return fmt.Sprintf("%*.*e", width, exponent, v)
}

// countFailed counts a measurement in nccl-tests' way: by the ranks that have wrong data.
func (b *BenchSummary) countFailed(m Measurement) {
	for _, r := range m.PerRank {
		if !corruption.IsRight(r.Wrong) {
			b.failed++
		}
	}
}

// NCCLTests implements render.NCCLTester.
func (b BenchSummary) NCCLTests() string {
	bounds, average := "OK", ""
	if b.failed > 0 {
		bounds = "FAILED"
	}
	switch {
	case b.Floor == 0:
	case b.BusBW < b.Floor:
		average = "FAILED"
	default:
		average = "OK"
	}
	_, word, _ := strings.Cut(b.Command, " ")
	name := word
	if op, err := plan.ParseOperation(word); err == nil {
		name = ncclTestsName(op)
	}
	return fmt.Sprintf("# %-20s : %d %s\n# %-20s : %.6g %s\n#\n# Collective test concluded: %s\n#\n\n",
		"Out of bounds values", b.failed, bounds, "Avg bus bandwidth", b.BusBW, average, name)
}
