package ring

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"ringcli/ring/bootstrap"
	"ringcli/trace"
	"ringcli/verbs"
)

// PingResult is what one rank measured to its right neighbour: whole round
// trips, verified at both ends.
type PingResult struct {
	Peer  int           `json:"peer"`
	Count int           `json:"count"` // round trips measured
	Bytes int           `json:"bytes"` // of a message, its header included
	Min   time.Duration `json:"min"`
	P50   time.Duration `json:"p50"`
	P99   time.Duration `json:"p99"`
	Max   time.Duration `json:"max"`
}

// Ping sends a test message to the right neighbour count times, one after the
// other, over the queue pair. The receiver verifies its bytes and sends them
// back; the sender verifies them again. All ranks ping at the same time and must
// give the same count. One more round trip goes ahead unmeasured: it waits for
// the neighbour to begin. Options.Timeout limits the time without any message, not
// that of all. The ring is Ready afterwards.
func (r *Ring) Ping(ctx context.Context, count int) (PingResult, error) {
	if err := checkCount(count); err != nil {
		return PingResult{}, err
	}
	var result PingResult
	err := r.untimedStep(ctx, StateReady, Values{}, func(ctx context.Context, t Token) error {
		if err := r.Usable(); err != nil {
			return err
		}
		r.pings++
		p := &pinger{r: r, token: t, total: uint32(count) + 1, trips: newTrips()}
		if err := p.run(ctx); err != nil {
			r.spoil(err)
			if r.opts.ByHand {
				err = fmt.Errorf("%w; reset on all ranks", err)
			}
			return err
		}
		r.mu.Lock()
		r.edges[Left].pinged, r.edges[Right].pinged = true, true
		r.mu.Unlock()
		result = p.trips.result(r.neighbour(Right), count)
		return nil
	})
	if err == nil {
		trace.Debug(trace.Ring, "ping", slog.Int("neighbour", result.Peer), slog.Int("count", count), slog.Duration("p50", result.P50))
	}
	return result, err
}

// checkCount refuses counts that the header has no room for.
func checkCount(count int) error {
	const most = 1 << 24
	if count < 1 || count > most {
		return bootstrap.Usagef("ping count %d: expected 1 to %d", count, most)
	}
	return nil
}

// trips are the times of round trips, but for the first of each ping.
type trips struct {
	least, most time.Duration
	histogram   *hdrhistogram.Histogram
}

func newTrips() trips {
	// Nanosecond to minute, to three digits.
	return trips{histogram: hdrhistogram.New(1, int64(time.Minute), 3)}
}

// add notes how long a round took.
func (t *trips) add(round uint32, trip time.Duration) {
	if round == 0 {
		return
	}
	if t.least == 0 || trip < t.least {
		t.least = trip
	}
	t.most = max(t.most, trip)
	// A trip beyond a minute is beyond the histogram, not beyond Max.
	_ = t.histogram.RecordValue(min(int64(trip), int64(time.Minute)))
}

func (t *trips) result(peer, count int) PingResult {
	return PingResult{
		Peer: peer, Count: count, Bytes: MessageSize, Min: t.least, Max: t.most,
		P50: time.Duration(t.histogram.ValueAtQuantile(50)), P99: time.Duration(t.histogram.ValueAtQuantile(99)),
	}
}

// pinger plays both parts: it pings the right neighbour and answers the left.
type pinger struct {
	r        *Ring
	token    Token
	total    uint32 // round trips, the unmeasured one included
	pongs    uint32 // of ours that came back
	answered uint32 // the left neighbour's
	unsent   int    // messages posted, not completed
	at       time.Time
	trips    trips
	buf      [MessageSize]byte
}

func (p *pinger) run(ctx context.Context) error {
	moved := time.Now()
	waiter := p.r.NewWaiter()
	var wc [16]verbs.Completion
	p.token.recall()
	if err := p.send(); err != nil {
		return err
	}
	for p.pongs < p.total || p.answered < p.total || p.unsent > 0 {
		n, err := p.token.Poll(wc[:])
		if err != nil {
			return err
		}
		for i := range wc[:n] {
			if err := p.take(&wc[i]); err != nil {
				return err
			}
		}
		if n > 0 {
			waiter.Reset()
			moved = time.Now()
			continue
		}
		if p.r.Failed() {
			return p.r.Err()
		}
		if ctx.Err() != nil {
			return p.late(context.Cause(ctx), time.Since(moved))
		}
		if quiet := time.Since(moved); quiet > p.r.opts.Timeout {
			return p.late(context.DeadlineExceeded, quiet)
		}
		if err := waiter.Wait(); err != nil {
			return err
		}
	}
	_, err := p.token.poll(nil) // sends the ACKs that are owed
	return err
}

// late says what was awaited, from whom, and what had arrived.
func (p *pinger) late(cause error, quiet time.Duration) error {
	r := p.r
	return fmt.Errorf("the right neighbour, %s, has answered %d of %d pings, and %d of %d have come from the left neighbour, %s; nothing moved for %s; "+
		"TCP reaches them, so %s, or has a rank not begun to ping? %w",
		r.nodeName(r.neighbour(Right)), p.pongs, p.total, p.answered, p.total, r.nodeName(r.neighbour(Left)), quiet.Round(time.Millisecond),
		r.Right().doubt(), cause)
}

// send sends the next ping to the right.
func (p *pinger) send() error {
	h := Header{
		Kind: KindPing, Epoch: p.r.Epoch(), Seq: p.r.pings, Segment: p.pongs, Sender: uint32(p.r.rank),
		Length: MessageSize - HeaderSize, Arg: uint64(p.total),
	}
	h.Digest = uint64(fillPattern(p.buf[HeaderSize:], p.r.rank, p.pongs))
	h.Encode(p.buf[:])
	p.unsent++
	p.at = time.Now()
	return p.r.Right().SendMessage(p.buf[:])
}

// take handles one completion.
func (p *pinger) take(wc *verbs.Completion) error {
	if wc.Status != verbs.Success {
		return p.r.CompletionError(wc)
	}
	now := time.Now()
	side, kind, index := ParseWRID(wc.ID)
	if side >= FirstMesh {
		p.token.Defer(*wc) // its peer is done with the ping, and ahead
		return nil
	}
	switch kind {
	case WRMessage:
		p.unsent--
		return nil
	case WRRecv:
	default:
		return fmt.Errorf("ping met the completion of another operation (work request %#x): run one operation at a time", wc.ID)
	}
	e := p.r.Edge(side)
	if side == Left && p.answered == p.total || side == Right && p.pongs == p.total {
		p.token.Defer(*wc) // it is done, and ahead
		return nil
	}
	if wc.Opcode == verbs.WCRecvWriteImm {
		return fmt.Errorf("ping met data written by %s: expected a ping; all ranks must run the same operations in the same order", p.r.nodeName(e.Peer))
	}
	msg := e.Message(index, wc.ByteLen)
	var h Header
	if !h.Decode(msg) {
		return fmt.Errorf("%d bytes from %s are no message", len(msg), p.r.nodeName(e.Peer))
	}
	if err := p.check(&h, msg, e); err != nil {
		return err
	}
	if side == Right {
		return p.pong(e, index, now)
	}
	copy(p.buf[:], msg)
	h.Kind = KindPong
	h.Sender = uint32(p.r.rank)
	h.Encode(p.buf[:])
	p.answered++
	p.unsent++
	if err := e.Repost(index); err != nil {
		return err
	}
	return e.SendMessage(p.buf[:])
}

// pong notes the time of a round trip and begins the next.
func (p *pinger) pong(e *Edge, index uint64, now time.Time) error {
	p.trips.add(p.pongs, now.Sub(p.at))
	p.pongs++
	if err := e.Repost(index); err != nil {
		return err
	}
	if p.pongs == p.total {
		return nil
	}
	return p.send()
}

// check verifies a message from a neighbour: pings come from the left, and our
// own bytes come back from the right.
func (p *pinger) check(h *Header, msg []byte, e *Edge) error {
	want, origin, round := KindPing, e.Peer, p.answered
	if e.Side == Right {
		want, origin, round = KindPong, p.r.rank, p.pongs
	}
	switch {
	case h.Kind != want:
		return fmt.Errorf("ping met a %s from %s: expected a %s; all ranks must run the same operations in the same order", h.Kind, p.r.nodeName(e.Peer), want)
	case h.Epoch != p.r.Epoch() || h.Seq != p.r.pings || int(h.Sender) != e.Peer:
		return fmt.Errorf("%s from %s is number %d of epoch %d, sent by rank %d: expected number %d of epoch %d",
			h.Kind, p.r.nodeName(e.Peer), h.Seq, h.Epoch, h.Sender, p.r.pings, p.r.Epoch())
	case h.Arg != uint64(p.total):
		return bootstrap.Usagef("%s pings %d times and this rank, %d, pings %d times: give all ranks the same count",
			p.r.nodeName(e.Peer), h.Arg-1, p.r.rank, p.total-1)
	case h.Segment != round:
		return fmt.Errorf("%s from %s is of round %d: expected round %d", h.Kind, p.r.nodeName(e.Peer), h.Segment, round)
	}
	return p.r.checkPayload(h, msg, e.Peer, origin)
}

// checkPayload verifies what a message of a neighbour carries: the pattern of the
// rank that it comes from at first, and of its round.
func (r *Ring) checkPayload(h *Header, msg []byte, peer, origin int) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("%s of round %d from %s: %s", h.Kind, h.Segment, r.nodeName(peer), fmt.Sprintf(format, args...))
	}
	if len(msg) != MessageSize || h.Length != MessageSize-HeaderSize {
		return fault("%d bytes: expected %d", len(msg), MessageSize)
	}
	payload := msg[HeaderSize:]
	for i, b := range payload {
		if w := pattern(origin, h.Segment, i); b != w {
			return fault("wrong data: byte %d is %#02x, expected %#02x", i, b, w)
		}
	}
	if sum := uint64(Checksum(payload)); sum != h.Digest {
		return fault("checksum %#08x, expected %#08x", h.Digest, sum)
	}
	return nil
}

// fillPattern writes a round's payload and returns its checksum.
func fillPattern(payload []byte, rank int, round uint32) uint32 {
	for i := range payload {
		payload[i] = pattern(rank, round, i)
	}
	return Checksum(payload)
}

// pattern is byte i of a ping's payload: another for each rank and round, and in
// each place.
func pattern(rank int, round uint32, i int) byte {
	v := uint32(rank+1)*0x9e3779b1 + round*0x85ebca6b + uint32(i)*0xc2b2ae35
	v ^= v >> 15
	return byte(v * 0x2c1b3c6d >> 24)
}
