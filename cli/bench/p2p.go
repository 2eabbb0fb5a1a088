package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

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
	// p2pQueue is the length of the send and receive queues of a p2p bench.
	p2pQueue = 128
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
	path, openErr := openP2P(m, sizes[len(sizes)-1], command.NumberOf(call.Flags, "outstanding"))
	defer func() { err = errors.Join(err, path.Close()) }()
	if err := m.Agree(ctx, openErr); err != nil {
		return err
	}
	if err := m.Agree(ctx, connectP2P(ctx, m, path)); err != nil {
		return err
	}
	title := fmt.Sprintf("rank 0 to rank 1 by %s%s, MTU %d, %d messages in flight", m.Ring.Right().Local.Device, m.Conditions(), m.Ring.Right().Local.MTU, path.window)
	if err := s.Out.Notes(render.Faint, title, "latency is half a round trip, of READ all of it"); err != nil {
		return err
	}
	return benchP2PSizes(ctx, s, call, sizes, path, title, file)
}

// benchP2PSizes measures every operation at every size.
func benchP2PSizes(ctx context.Context, s *session.Session, call command.Call, sizes []uint64, path *p2pQP, title string, file pageFile) error {
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
func measureP2P(ctx context.Context, s *session.Session, p *p2pQP, t p2pTest) (P2PResult, error) {
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
	stream := t.repetition
	stream.least = windowsInBatch * p.window
	b, err := inBatches(ctx, m, s, stream, func(warm, n int) (float64, error) {
		d, err := p.streams(ctx, t, warm, n)
		took += d
		return float64(d) / float64(time.Microsecond) / float64(max(n, 1)), m.Agree(ctx, err)
	})
	if err != nil {
		return result, err
	}
	w := timing.New()
	_, err = inBatches(ctx, m, s, t.repetition, func(warm, n int) (float64, error) {
		return 0, m.Agree(ctx, p.bounces(ctx, t, warm, n, w))
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
		result.Wrong, result.First = p.verify(t, m.Checks)
	}
	all, err := session.Share(ctx, m, result)
	if err != nil {
		return result, err
	}
	return mergeP2P(all), nil
}

// streams is a batch of a bandwidth test.
func (p *p2pQP) streams(ctx context.Context, t p2pTest, warm, n int) (took time.Duration, err error) {
	if p.role == bystander {
		return 0, nil
	}
	if warm > 0 {
		if _, err := p.stream(ctx, t.op, t.bytes, warm); err != nil {
			return 0, err
		}
	}
	if n > 0 {
		took, err = p.stream(ctx, t.op, t.bytes, n)
	}
	return took, err
}

// bounces is a batch of a latency test. Its first round trip is not measured: it
// is as long as one end begins later than the other.
func (p *p2pQP) bounces(ctx context.Context, t p2pTest, warm, n int, w *timing.Stopwatch) error {
	if p.role == bystander {
		return nil
	}
	if err := p.bounce(ctx, t.op, t.bytes, warm+1, nil); err != nil || n == 0 {
		return err
	}
	return p.bounce(ctx, t.op, t.bytes, n, w)
}

// stream sends n messages with a window of them in flight and returns how long
// it took until the last was acknowledged. A last message tells the passive side
// that it is over.
func (p *p2pQP) stream(ctx context.Context, op verbs.Opcode, bytes uint32, n int) (time.Duration, error) {
	if p.role == passive {
		if op == verbs.OpSend {
			return 0, p.receive(ctx, n+1)
		}
		return 0, p.rest(ctx)
	}
	begun := time.Now()
	for posted := 0; posted < n || p.inFlight > 0; {
		if room := min(p.window-p.inFlight, n-posted); room > 0 {
			if err := p.send(op, bytes, room); err != nil {
				return 0, err
			}
			posted += room
		}
		if err := p.progress(ctx); err != nil {
			return 0, err
		}
	}
	took := time.Since(begun)
	if err := p.send(verbs.OpSend, 0, 1); err != nil {
		return 0, err
	}
	return took, p.drain(ctx)
}

// bounce measures latency: n messages to and fro, each side sending when it has
// received, a WRITE with immediate data so that its arrival makes a completion.
// A READ is a round trip by itself. times may be nil.
func (p *p2pQP) bounce(ctx context.Context, op verbs.Opcode, bytes uint32, n int, times *timing.Stopwatch) error {
	if op == verbs.OpRead {
		return p.fetch(ctx, bytes, n, times)
	}
	if op == verbs.OpWrite {
		op = verbs.OpWriteImm
	}
	for range n {
		if p.role == passive {
			if err := p.receive(ctx, 1); err != nil {
				return err
			}
		}
		begun := time.Now()
		if err := p.send(op, bytes, 1); err != nil {
			return err
		}
		if p.role == passive {
			continue
		}
		if err := p.receive(ctx, 1); err != nil {
			return err
		}
		if times != nil {
			times.Add(time.Since(begun) / 2)
		}
	}
	return p.drain(ctx)
}

// fetch measures the latency of READ.
func (p *p2pQP) fetch(ctx context.Context, bytes uint32, n int, times *timing.Stopwatch) error {
	if p.role == passive {
		return p.receive(ctx, 1)
	}
	for range n {
		begun := time.Now()
		if err := p.send(verbs.OpRead, bytes, 1); err != nil {
			return err
		}
		if err := p.drain(ctx); err != nil {
			return err
		}
		if times != nil {
			times.Add(time.Since(begun))
		}
	}
	if err := p.send(verbs.OpSend, 0, 1); err != nil {
		return err
	}
	return p.drain(ctx)
}
