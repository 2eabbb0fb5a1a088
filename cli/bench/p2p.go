package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/bench/pair"
	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/timing"
	"ringcli/configs"
	"ringcli/verbs"
)

const (
	p2pOutstanding = 16
	// p2pLargest is the longest message of a reliable connection (InfiniBand
	// specification 1.4, volume 1, 9.7.2: 2^31 bytes), less a margin that keeps
	// lengths within an int32.
	p2pLargest = 1 << 30
	p2pWarmups = 10
	// windowsInBatch are what the batches of a bandwidth test have at least.
	windowsInBatch = 8
)

// p2pRepetition is how often each size is sent.
func p2pRepetition(fs *pflag.FlagSet) repetition {
	p := repetition{iters: command.NumberOf(fs, "iters"), warmup: command.NumberOf(fs, "warmup")}
	if !fs.Changed("warmup") {
		p.warmup = p2pWarmups // a queue pair's first messages are the slowest
	}
	if !fs.Changed("iters") {
		if p.span = Span; !fs.Changed("warmup") {
			p.warmSpan = Span
		}
	}
	return p
}

// runP2P measures from rank 0 to its right neighbour, on a queue pair of its
// own. The other ranks take part in what is told between batches.
func runP2P(ctx context.Context, s *session.Session, call command.Call, sizes []uint64, file pageFile) (err error) {
	m := s.Member
	if m.Ring.Size() < 2 {
		return exit.Usagef("bench p2p: the ring has %d rank: expected 2 or more, such as -n 2", m.Ring.Size())
	}
	path, openErr := pair.Open(m, sizes[len(sizes)-1], command.NumberOf(call.Flags, "outstanding"))
	defer func() { err = errors.Join(err, path.Close()) }()
	if err := m.Agree(ctx, openErr); err != nil {
		return err
	}
	if err := m.Agree(ctx, path.Connect(ctx, m)); err != nil {
		return err
	}
	title := fmt.Sprintf("rank 0 to rank 1 by %s%s, MTU %d, %d messages in flight", m.Ring.Right().Local.Device, m.Conditions(), m.Ring.Right().Local.MTU, path.Window)
	if err := s.Out.Notes(render.Faint, title, "latency is half a round trip, of READ all of it"); err != nil {
		return err
	}
	return benchP2PSizes(ctx, s, call, sizes, path, title, file)
}

// benchP2PSizes measures every operation at every size.
func benchP2PSizes(ctx context.Context, s *session.Session, call command.Call, sizes []uint64, path *pair.End, title string, file pageFile) error {
	var worst error
	ops := command.Value[[]p2pOp](call.Flags, "verbs")
	curves := make([]series, len(ops))
	for i, op := range ops {
		curves[i].Name = strings.ToUpper(op.String())
		for j, size := range sizes {
			t := p2pTest{
				name: curves[i].Name, op: verbs.Opcode(op), bytes: uint32(size), check: checks(call.Flags), repetition: p2pRepetition(call.Flags),
			}
			result, err := measureP2P(ctx, s, path, t)
			switch {
			case IsStopped(err):
				return cmp.Or(worst, errStopped("%d of %d measurements", i*len(sizes)+j, len(ops)*len(sizes)))
			case err != nil:
				return err
			}
			worst = cmp.Or(worst, result.verdict())
			curves[i].Points = append(curves[i].Points, point{Bytes: size, Iters: result.Iters, Time: result.Time.P50, BW: result.BW, Wrong: result.Wrong})
			if err := s.Out.Print(result); err != nil {
				return err
			}
		}
	}
	err := writePage(ctx, s.Member, file, page{Title: title, Time: "half a round trip, of READ all (us)", BW: "bandwidth (GB/s)", Series: curves})
	return errors.Join(err, worst)
}

// p2pTest is one operation at one size.
type p2pTest struct {
	name       string // WRITE, READ or SEND
	op         verbs.Opcode
	bytes      uint32
	repetition repetition
	check      bool
}

// measureP2P measures bandwidth, then latency, and checks what has arrived. All
// ranks get the same result, which is rank 0's with what both ends have checked.
func measureP2P(ctx context.Context, s *session.Session, p *pair.End, t p2pTest) (P2PResult, error) {
	m := s.Member
	result := P2PResult{Command: "bench p2p", OK: true, Op: t.name, Bytes: uint64(t.bytes), CPUs: s.Member.CPUs}
	defer s.Progress.Clock("p2p %s %s", result.Op, configs.FormatSize(result.Bytes))()
	m.Checks++
	if t.check {
		p.Fill(t.bytes, m.Checks)
	}
	// What a rank fills no message may have arrived in: what is told before the first
	// batch sees to it.
	var took time.Duration
	// The first and the last messages of a batch have the way to themselves: a batch
	// of several windows measures what a stream of messages gets.
	stream := t.repetition
	stream.least = windowsInBatch * p.Window
	b, err := inBatches(ctx, m, s, stream, func(warm, n int) (float64, error) {
		d, err := p.Streams(ctx, t.op, t.bytes, warm, n)
		took += d
		return float64(d) / float64(time.Microsecond) / float64(max(n, 1)), m.Agree(ctx, err)
	})
	if err != nil {
		return result, err
	}
	w := timing.New()
	_, err = inBatches(ctx, m, s, t.repetition, func(warm, n int) (float64, error) {
		return 0, m.Agree(ctx, p.Bounces(ctx, t.op, t.bytes, warm, n, w))
	})
	if err != nil {
		return result, err
	}
	result.Iters = b.done
	us := float64(took) / float64(time.Microsecond) / float64(max(b.done, 1))
	if t.repetition.span > 0 {
		us = timing.Median(b.means)
	}
	if us > 0 {
		result.BW, result.MsgRate = timing.SixPlaces(float64(t.bytes)/us/1e3), timing.SixPlaces(1/us)
	}
	if w.Count() > 0 {
		times := w.Times()
		result.Time = P2PTimes{Min: times.Min, P50: times.P50, P99: times.P99, P999: w.At(99.9), Max: times.Max}
	}
	if t.check {
		if checked, wrong, at, got, want := p.Verify(t.op, t.bytes, m.Checks); checked {
			result.Wrong = &wrong
			if wrong > 0 {
				result.First = &WrongElement{Rank: m.Ring.Rank(), Offset: at, Got: fmt.Sprintf("0x%02x", got), Want: fmt.Sprintf("0x%02x", want)}
			}
		}
	}
	all, err := session.Share(ctx, m, result)
	if err != nil {
		return result, err
	}
	return mergeP2P(all), nil
}
