// Package p2p measures a queue pair from rank 0 of a ring to its right neighbour.
package p2p

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/bench/batch"
	"ringcli/cli/bench/corruption"
	"ringcli/cli/bench/page"
	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/timing"
	"ringcli/configs"
	"ringcli/verbs"
	"ringcli/verbs/pair"
)

const (
	outstanding = 16
	// Largest is the longest message of a reliable connection (InfiniBand specification 1.4,
	// volume 1, 9.7.2: 2^31 bytes), less a margin that keeps lengths within an int32.
	Largest = 1 << 30
	warmups = 10
	// windowsInBatch are what the batches of a bandwidth test have at least.
	windowsInBatch = 8
)

// Flags are those of a p2p bench alone.
func Flags(fs *pflag.FlagSet) {
	command.NumberFlag(fs, "outstanding", "", outstanding, 1, pair.Queue, "the messages in flight", "p2p: messages in flight in a bandwidth test")
	verbsFlag(fs)
}

// measured is an operation that is measured.
type measured verbs.Opcode

var all = []measured{measured(verbs.OpWrite), measured(verbs.OpRead), measured(verbs.OpSend)}

func (o measured) String() string {
	return strings.ToLower(strings.TrimPrefix(verbs.Opcode(o).String(), "RDMA_"))
}

// verbsFlag is --verbs: which operations are measured, in the order given.
func verbsFlag(fs *pflag.FlagSet) *command.Parsed[[]measured] {
	words := render.Words(all)
	p := command.ListOf(words, "", func(word string) (measured, error) {
		if i := slices.Index(words, strings.ToLower(word)); i >= 0 {
			return all[i], nil
		}
		return 0, fmt.Errorf("expected %s, or several of them separated by commas", strings.Join(words, ", "))
	})
	p.Value = &all
	fs.Var(p, "verbs", "p2p: what to measure, separated by commas")
	return p
}

// Run measures from rank 0 to its right neighbour, on a queue pair of its own, and checks what has
// arrived if it is to. The other ranks take part in what is told between batches.
func Run(ctx context.Context, s *session.Session, call command.Call, sizes []uint64, check bool, file page.File) (err error) {
	m := s.Member
	if m.Ring.Size() < 2 {
		return exit.Usagef("bench p2p: the ring has %d rank: expected 2 or more, such as -n 2", m.Ring.Size())
	}
	window := command.NumberOf(call.Flags, "outstanding")
	path, openErr := open(m, sizes[len(sizes)-1], window)
	defer func() { err = errors.Join(err, path.close()) }()
	if err := m.Agree(ctx, openErr); err != nil {
		return err
	}
	if err := m.Agree(ctx, path.connect(ctx, m)); err != nil {
		return err
	}
	title := fmt.Sprintf("rank 0 to rank 1 by %s%s, MTU %d, %d messages in flight", m.Ring.Right().Local.Device, m.Conditions(), m.Ring.Right().Local.MTU, window)
	if err := s.Out.Notes(render.Faint, title, "latency is half a round trip, of READ all of it"); err != nil {
		return err
	}
	t := test{window: window, check: check, Repetition: batch.Of(s, call.Flags)}
	if !call.Flags.Changed("warmup") {
		t.Warmup = warmups // a queue pair's first messages are the slowest
	}
	return each(ctx, s, command.Value[[]measured](call.Flags, "verbs"), sizes, path, t, title, file)
}

// each measures every operation at every size.
func each(ctx context.Context, s *session.Session, ops []measured, sizes []uint64, path *end, t test, title string, file page.File) error {
	var worst error
	curves := make([]page.Series, len(ops))
	for i, op := range ops {
		curves[i].Name = strings.ToUpper(op.String())
		for j, size := range sizes {
			t.name, t.op, t.bytes = curves[i].Name, verbs.Opcode(op), uint32(size)
			result, err := measure(ctx, s, path, t)
			switch {
			case batch.IsStopped(err):
				return cmp.Or(worst, batch.Stopped("%d of %d measurements", i*len(sizes)+j, len(ops)*len(sizes)))
			case err != nil:
				return err
			}
			worst = cmp.Or(worst, result.verdict())
			curves[i].Points = append(curves[i].Points, page.Point{Bytes: size, Time: result.Time.P50, BW: result.BW, Wrong: result.Wrong})
			if err := s.Out.Print(result); err != nil {
				return err
			}
		}
	}
	err := file.Write(ctx, s.Member, page.Page{Title: title, Time: "half a round trip, of READ all (us)", BW: "bandwidth (GB/s)", Series: curves})
	return errors.Join(err, worst)
}

// test is one operation at one size.
type test struct {
	batch.Repetition
	name   string // WRITE, READ or SEND
	op     verbs.Opcode
	bytes  uint32
	window int // messages in flight
	check  bool
}

// measure measures bandwidth, then latency, and checks what has arrived. All
// ranks get the same result, which is rank 0's with what both ends have checked.
func measure(ctx context.Context, s *session.Session, p *end, t test) (P2PResult, error) {
	m := s.Member
	result := P2PResult{Command: "bench p2p", OK: true, Op: t.name, Bytes: uint64(t.bytes), CPUs: s.Member.CPUs}
	defer s.Progress.Clock("p2p %s %s", result.Op, configs.FormatSize(result.Bytes))()
	m.Checks++
	if t.check {
		p.fill(t.bytes, m.Checks)
	}
	// What a rank fills no message may have arrived in: what is told before the first
	// batch sees to it.
	var took time.Duration
	// The first and the last messages of a batch have the way to themselves: a batch
	// of several windows measures what a stream of messages gets.
	stream := t.Repetition
	stream.Least = windowsInBatch * t.window
	b, err := batch.Run(ctx, m, s, stream, func(warm, n int) (float64, error) {
		d, err := p.streams(ctx, t.op, t.bytes, warm, n)
		took += d
		return float64(d) / float64(time.Microsecond) / float64(max(n, 1)), m.Agree(ctx, err)
	})
	if err != nil {
		return result, err
	}
	w := timing.New()
	_, err = batch.Run(ctx, m, s, t.Repetition, func(warm, n int) (float64, error) {
		return 0, m.Agree(ctx, p.bounces(ctx, t.op, t.bytes, warm, n, w))
	})
	if err != nil {
		return result, err
	}
	result.Iters = b.Done
	us := float64(took) / float64(time.Microsecond) / float64(max(b.Done, 1))
	if t.Span > 0 {
		us = timing.Median(b.Means)
	}
	if us > 0 {
		result.BW, result.MsgRate = timing.SixPlaces(float64(t.bytes)/us/1e3), timing.SixPlaces(1/us)
	}
	if w.Count() > 0 {
		times := w.Times()
		result.Time = P2PTimes{Min: times.Min, P50: times.P50, P99: times.P99, P999: w.At(99.9), Max: times.Max}
	}
	if t.check {
		if checked, wrong, at, got, want := p.verify(t.op, t.bytes, m.Checks); checked {
			result.Wrong = &wrong
			if wrong > 0 {
				result.First = &corruption.WrongElement{Rank: m.Ring.Rank(), Offset: at, Got: fmt.Sprintf("0x%02x", got), Want: fmt.Sprintf("0x%02x", want)}
			}
		}
	}
	each, err := session.Share(ctx, m, result)
	if err != nil {
		return result, err
	}
	return merge(each), nil
}
