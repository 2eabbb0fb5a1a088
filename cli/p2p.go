package cli

import (
	"context"
	"fmt"
	"time"

	"ringcli/cli/render"
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
	// p2pVolume bounds the iterations at large sizes, and p2pMost at small ones,
	// so that a size takes a fraction of a second.
	p2pVolume  = 256 << 20
	p2pMost    = 2000
	p2pFewest  = 10
	p2pWarmups = 10
)

// p2pIters is how often a size is sent if --iters does not say.
func p2pIters(bytes uint64) int {
	return int(min(max(p2pVolume/max(bytes, 1), p2pFewest), p2pMost))
}

// p2pOps are the operations of a p2p bench, in its order.
var p2pOps = []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpSend}

var p2pNames = map[verbs.Opcode]string{verbs.OpWrite: "WRITE", verbs.OpRead: "READ", verbs.OpSend: "SEND"}

// benchP2P measures from rank 0 to its right neighbour, on a queue pair of its
// own. The other ranks wait.
func (s *Session) benchP2P(ctx context.Context, call Call, sizes []uint64, page *pageFile) (err error) {
	m := s.member
	if m.ring.Size() < 2 {
		return usageError("bench p2p: the ring has %d rank: expected 2 or more, such as -n 2", m.ring.Size())
	}
	rounds := int(value[number](call.Flags, "raw-udp").value)
	if rounds > 0 {
		if !isSoft(m.ring.Right()) {
			return usageError("bench p2p --raw-udp: device %s: expected a soft device, whose packets go through a UDP socket too", m.ring.Right().Local.Device)
		}
		sizes = []uint64{rawStreamBytes}
	}
	path, openErr := m.openPath(sizes[len(sizes)-1], int(value[number](call.Flags, "outstanding").value))
	defer closeWith(&err, path)
	if err := m.agree(ctx, openErr); err != nil {
		return err
	}
	if err := m.agree(ctx, m.connectPath(ctx, path)); err != nil {
		return err
	}
	for _, note := range []string{
		fmt.Sprintf("rank 0 to rank 1 by %s, MTU %d, %d messages in flight", m.ring.Right().Local.Device, m.ring.Right().Local.MTU, path.window),
		"latency is half a round trip, of READ all of it",
	} {
		if err := s.Out.Note(render.Faint, "%s", note); err != nil {
			return err
		}
	}
	if rounds > 0 {
		return s.compareRawUDP(ctx, path, rounds)
	}
	for _, op := range p2pOps {
		for _, size := range sizes {
			iters, warmup := p2pIters(size), min(p2pWarmups, p2pIters(size))
			if call.Flags.Changed("iters") {
				iters = int(value[number](call.Flags, "iters").value)
			}
			if call.Flags.Changed("warmup") {
				warmup = int(value[number](call.Flags, "warmup").value)
			}
			end := s.Progress.Clock("p2p %s %s", p2pNames[op], configs.FormatSize(size))
			mine, err := path.test(ctx, op, uint32(size), iters, warmup)
			end()
			if err := m.agree(ctx, err); err != nil {
				return err
			}
			// The leader measured.
			all, err := shareOut(ctx, m, mine)
			if err != nil {
				return err
			}
			if err := s.Out.Print(all[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

// test measures one operation at one size: bandwidth, then latency.
func (p *p2pPath) test(ctx context.Context, op verbs.Opcode, bytes uint32, iters, warmup int) (P2PResult, error) {
	result := P2PResult{Command: "bench p2p", OK: true, Op: p2pNames[op], Bytes: uint64(bytes), Iters: iters}
	if p.role == bystander {
		return result, nil
	}
	if _, err := p.stream(ctx, op, bytes, warmup); err != nil {
		return result, err
	}
	took, err := p.stream(ctx, op, bytes, iters)
	if err != nil {
		return result, err
	}
	if s := took.Seconds(); s > 0 {
		result.BW = sixPlaces(float64(bytes) * float64(iters) / s / 1e9)
		result.MsgRate = sixPlaces(float64(iters) / s / 1e6)
	}
	w := newStopwatch()
	if err := p.bounce(ctx, op, bytes, warmup, nil); err != nil {
		return result, err
	}
	if err := p.bounce(ctx, op, bytes, iters, w); err != nil {
		return result, err
	}
	t := w.times()
	result.Time = P2PTimes{Min: t.Min, P50: t.P50, P99: t.P99, P999: w.at(99.9), Max: t.Max}
	return result, nil
}

// stream sends n messages with a window of them in flight and returns how long
// it took until the last was acknowledged. A last message tells the passive side
// that it is over.
func (p *p2pPath) stream(ctx context.Context, op verbs.Opcode, bytes uint32, n int) (time.Duration, error) {
	if p.role == passive {
		want := 1 // the last message
		if op == verbs.OpSend {
			want += n
		}
		return 0, p.receive(ctx, want)
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
func (p *p2pPath) bounce(ctx context.Context, op verbs.Opcode, bytes uint32, n int, times *stopwatch) error {
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
			times.add(time.Since(begun) / 2)
		}
	}
	return p.drain(ctx)
}

// fetch measures the latency of READ.
func (p *p2pPath) fetch(ctx context.Context, bytes uint32, n int, times *stopwatch) error {
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
			times.add(time.Since(begun))
		}
	}
	if err := p.send(verbs.OpSend, 0, 1); err != nil {
		return err
	}
	return p.drain(ctx)
}
