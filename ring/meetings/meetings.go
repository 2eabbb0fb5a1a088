// Package meetings connects a rank to one other after the other, beside the ring's edges: to
// all of a thousand, with two queue pairs, as measurements of all pairs need it. Both ends take
// theirs to RTS by themselves, without a word to each other: what a peer must know was told
// once, and the PSNs follow from it and from the number of the meeting, so that no packet of an
// earlier meeting fits a later one.
package meetings

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring"
	"ringcli/ring/device"
	"ringcli/ring/diagnose"
	"ringcli/ring/edges"
	"ringcli/ring/locality"
	"ringcli/ring/watch"
	"ringcli/verbs"
)

// Meetings are those of one rank. They belong to one goroutine, and have completion queues of
// their own, which need no token.
type Meetings struct {
	r     *ring.Ring
	opts  ring.Options
	bytes int
	ways  [2]*way // by whether its device is of this host alone; nil where no peer is reached so
	peers []Report
	local []bool // by rank: it is reached on the device of this host
	last  int    // way that was polled last
}

// QPs is how many queue pairs a rank has on a device, and so how many meetings at once.
const QPs = 2

// way is a device and the queue pairs on it.
type way struct {
	device device.Device // the ring's, with a completion queue of its own
	places [QPs]place
	used   bool // by a meeting since Part
}

// place is one of a rank's queue pairs. The first half of its memory is written to, the second
// is written from.
type place struct {
	qp     verbs.QP
	memory verbs.Memory
	mr     verbs.MR
	own    edges.Data
}

// Report is what a rank tells all others, in two parts.
type Report struct {
	Locality *locality.Locality `json:"locality,omitempty"`
	Ways     [2][]edges.Data    `json:"ways"` // of the places; the PSN is that of no meeting, all follow from it
}

// Share tells all ranks what this one says, and hears all; or that it has a problem, which is an
// error on all ranks then.
type Share func(ctx context.Context, own Report, problem error) ([]Report, error)

const (
	// receives is how many are posted: for a few words, each of which is answered.
	receives = 32
	// words are requests besides those that the caller asked for: words between the tests.
	words = 16
)

// Open is collective. Each rank has room for so many bytes to be written to it, and for so many
// requests.
func Open(ctx context.Context, r *ring.Ring, bytes, requests int, share Share) (m *Meetings, err error) {
	m = &Meetings{r: r, opts: r.Options(), bytes: bytes, local: make([]bool, r.Size())}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	own := m.opts.Locality()
	if m.peers, err = share(ctx, Report{Locality: &own}, nil); err != nil {
		return m, err
	}
	err = m.make(ctx, requests+words)
	told := Report{}
	for i, w := range m.ways {
		if w != nil {
			for k := range w.places {
				told.Ways[i] = append(told.Ways[i], w.places[k].own)
			}
		}
	}
	m.peers, err = share(ctx, told, err)
	return m, err
}

// make makes the queue pairs, on the devices that peers are reached on.
func (m *Meetings) make(ctx context.Context, requests int) error {
	chosen, peers := [2]locality.Choice{}, [2][]int{}
	for rank, p := range m.peers {
		if rank == m.r.Rank() {
			continue
		}
		if p.Locality == nil {
			return fmt.Errorf("%s does not say where it is: do all ranks run the same version?", m.name(rank))
		}
		c, err := locality.Choose(*m.peers[m.r.Rank()].Locality, *p.Locality, [2]string{m.name(m.r.Rank()), m.name(rank)})
		if err != nil {
			return err
		}
		m.local[rank] = c.HostLocal
		at := index(c.HostLocal)
		chosen[at], peers[at] = c, append(peers[at], rank)
	}
	for i := range chosen {
		if len(peers[i]) == 0 {
			continue
		}
		d, err := m.r.Host().Device(ctx, chosen[i], peers[i]...)
		if err != nil {
			return err
		}
		w := &way{device: *d}
		w.device.CQ, w.device.Channel = nil, nil
		m.ways[i] = w
		if err := w.device.CreateCQ(QPs * (requests + receives)); err != nil {
			return err
		}
		for k := range w.places {
			if err := m.prepare(&w.places[k], &w.device, requests); err != nil {
				return err
			}
		}
	}
	return nil
}

// index is that of a kind of device.
func index(hostLocal bool) int {
	if hostLocal {
		return 1
	}
	return 0
}

func (m *Meetings) name(rank int) string {
	return fmt.Sprintf("rank %d (%s)", rank, m.r.Nodes()[rank])
}

// prepare makes a queue pair and its memory, and says what a peer must know of them.
func (m *Meetings) prepare(p *place, d *device.Device, requests int) (err error) {
	if p.memory, err = d.Alloc(2 * uint64(m.bytes)); err != nil {
		return err
	}
	for at := range p.memory.Bytes() { // the first test must not measure the kernel's zeroing
		p.memory.Bytes()[at] = byte(at)
	}
	if p.mr, err = d.PD.RegMR(p.memory.Addr(), uint64(p.memory.Len()), diagnose.SlotAccess); err != nil {
		return fmt.Errorf("register %d bytes for meetings: %w", p.memory.Len(), err)
	}
	if p.qp, _, err = d.CreateQP(verbs.QPCap{MaxSendWR: requests, MaxRecvWR: receives, MaxSendSGE: 1, MaxRecvSGE: 1}, true); err != nil {
		return fmt.Errorf("create a queue pair for meetings: %w", err)
	}
	if err := m.toInit(p); err != nil { // a soft device has a UDP port once a queue pair is in INIT
		return err
	}
	if d.GID.Entry, err = d.GIDEntry(); err != nil {
		return err
	}
	active := d.Port.Attr.ActiveMTU.Bytes()
	if m.opts.MTU > active {
		return usage.Codedf(codes.MTU, "mtu %d: expected at most %d, the active MTU of %s", m.opts.MTU, active, d.Name)
	}
	p.own = edges.Data{Rank: m.r.Rank(), Size: m.r.Size(), MTUFixed: m.opts.MTU != 0, RDAtomic: d.ReadsAnswered()}
	p.own.Describe(d, d.GID.Entry, cmp.Or(m.opts.MTU, active), m.opts.SL)
	p.own.QPN, p.own.PSN = p.qp.Num(), verbs.RandomPSN()
	p.own.SlotCount, p.own.SlotSize = 1, m.bytes
	p.own.Slots = diagnose.MemoryInfo{Addr: p.memory.Addr(), RKey: p.mr.RKey(), Length: uint64(m.bytes)}
	return nil
}

func (m *Meetings) toInit(p *place) error {
	attr := m.opts.Attributes(verbs.StateInit)
	attr.Access = edges.AllAccess
	return verbs.Advance(p.qp, attr)
}

// Meeting is a queue pair to one rank, until the next Meet of its place.
type Meeting struct {
	Peer   int
	MTU    int // path MTU in bytes
	Device string
	Attr   verbs.DeviceAttr
	// Shared: it is on the device of this host.
	Shared bool
	p      *place
	remote diagnose.MemoryInfo
	id     uint64 // of its requests, but for the kind
	wr     []verbs.WorkRequest
	sge    [1]verbs.SGE
	recv   []verbs.WorkRequest
}

// Kind is what a request of a meeting was.
type Kind uint8

// The kinds.
const (
	Received Kind = iota // a word
	Said
	Wrote
	kinds
)

// Meet connects a queue pair to a rank, which does the same with the same number, and with the
// places turned round. Nothing may be sent before it has, and it may meet somebody else once all
// is received and acknowledged at both ends: barriers are the caller's.
func (m *Meetings) Meet(peer int, number uint64, mine, theirs int) (*Meeting, error) {
	at := index(m.local[peer])
	w := m.ways[at]
	if w == nil || theirs >= len(m.peers[peer].Ways[at]) {
		return nil, fmt.Errorf("%s has no queue pair for meetings on that device: do all ranks run the same version?", m.name(peer))
	}
	p, remote := &w.places[mine], &m.peers[peer].Ways[at][theirs]
	x := &Meeting{Peer: peer, Device: w.device.Name, Attr: w.device.Attr, Shared: at == 1, p: p, remote: remote.Slots, id: number * QPs * uint64(kinds)}
	x.id += uint64(mine) * uint64(kinds)
	if err := m.connect(w, x, remote, number, mine, theirs); err != nil {
		return nil, fmt.Errorf("meet %s: %w", m.name(peer), err)
	}
	w.used = true
	return x, nil
}

func (m *Meetings) connect(w *way, x *Meeting, remote *edges.Data, number uint64, mine, theirs int) (err error) {
	p := x.p
	if x.MTU, err = edges.Agree(m.r.Nodes(), p.own, *remote, edges.Values{}); err != nil {
		return err
	}
	if err := p.qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState); err != nil {
		return err
	}
	if err := m.toInit(p); err != nil {
		return err
	}
	x.recv = make([]verbs.WorkRequest, receives)
	for i := range x.recv { // words come as immediate data, which needs no memory
		x.recv[i].ID = x.id + uint64(Received)
	}
	if _, err := p.qp.PostRecv(x.recv); err != nil {
		return fmt.Errorf("post %d receives: %w", receives, err)
	}
	attr := m.opts.Attributes(verbs.StateRTR)
	if attr.PathMTU, err = verbs.MTUFromBytes(x.MTU); err != nil {
		return err
	}
	if attr.AH, err = remote.Vector(&w.device, m.opts.Service(), 0); err != nil {
		return err
	}
	attr.DestQPN, attr.RQPSN, attr.MaxDestRDAtomic = remote.QPN, psn(remote.PSN, number, theirs), uint8(w.device.ReadsAnswered())
	if err := verbs.Advance(p.qp, attr); err != nil {
		return err
	}
	attr = m.opts.Attributes(verbs.StateRTS)
	attr.SQPSN, attr.MaxRDAtomic = psn(p.own.PSN, number, mine), uint8(w.device.ReadsInFlight(remote.RDAtomic))
	return verbs.Advance(p.qp, attr)
}

// psn is that from which the end that told a PSN sends in a meeting.
func psn(told uint32, number uint64, place int) uint32 {
	var text [24]byte
	binary.LittleEndian.PutUint64(text[:], uint64(told))
	binary.LittleEndian.PutUint64(text[8:], number)
	binary.LittleEndian.PutUint64(text[16:], uint64(place))
	h := fnv.New64a()
	_, _ = h.Write(text[:]) // a hash never fails
	return uint32(h.Sum64()>>20) & (1<<24 - 1)
}

// Say sends a word as immediate data of a WRITE of so many bytes.
func (x *Meeting) Say(bytes int, word uint32) error {
	return x.post(verbs.OpWriteImm, Said, bytes, 1, word)
}

// Write posts n WRITEs of so many bytes.
func (x *Meeting) Write(bytes, n int) error { return x.post(verbs.OpWrite, Wrote, bytes, n, 0) }

func (x *Meeting) post(op verbs.Opcode, kind Kind, bytes, n int, imm uint32) error {
	for len(x.wr) < n {
		x.wr = append(x.wr, verbs.WorkRequest{})
	}
	from := x.p.memory.Addr() + uint64(x.p.memory.Len())/2
	x.sge[0] = verbs.SGE{Addr: from, Length: uint32(bytes), LKey: x.p.mr.LKey()}
	for i := range x.wr[:n] {
		x.wr[i] = verbs.WorkRequest{
			ID: x.id + uint64(kind), SGL: x.sge[:], Opcode: op, Flags: verbs.FlagSignaled, RemoteAddr: x.remote.Addr, RKey: x.remote.RKey, Imm: imm,
		}
	}
	if _, err := x.p.qp.PostSend(x.wr[:n]); err != nil {
		return fmt.Errorf("post %s of %d bytes to rank %d: %w", op, bytes, x.Peer, err)
	}
	return nil
}

// Is tells whether a completion is one of this meeting, and of which kind.
func (x *Meeting) Is(wc *verbs.Completion) (kind Kind, ok bool) {
	return Kind(wc.ID % uint64(kinds)), wc.ID-wc.ID%uint64(kinds) == x.id
}

// Repost posts a receive for another word.
func (x *Meeting) Repost() error {
	_, err := x.p.qp.PostRecv(x.recv[:1])
	return err
}

// Prober probes the path of the meeting, if its device can.
func (x *Meeting) Prober() (verbs.Prober, bool) { return watch.Prober(x.p.qp) }

// Part is the end of the meetings that there are: what is polled are those to come.
func (m *Meetings) Part() {
	for _, w := range m.ways {
		if w != nil {
			w.used = false
		}
	}
}

// Poll polls for completions of all meetings.
func (m *Meetings) Poll(wc []verbs.Completion) (int, error) {
	for range m.ways {
		m.last = (m.last + 1) % len(m.ways)
		if w := m.ways[m.last]; w != nil && w.used {
			if n, err := w.device.CQ.Poll(wc); n > 0 || err != nil {
				return n, err
			}
		}
	}
	return 0, nil
}

// Waiter waits for completions of the meetings that there are.
func (m *Meetings) Waiter() verbs.Waiter {
	w := verbs.Waiter{Policy: m.opts.Wait, Affinity: m.r.Host().Affinity()}
	used := 0
	for _, x := range m.ways {
		if x != nil && x.used {
			used++
			w.CQ, w.Channel, w.MaxSpins = x.device.CQ, x.device.Channel, x.device.Attr.MaxSpins
		}
	}
	if used > 1 { // there is no one channel to block on
		w.CQ, w.Channel = nil, nil
	}
	return w
}

// Counters are those of the devices of the meetings that there are, summed by name.
func (m *Meetings) Counters() (map[string]uint64, error) {
	all := map[string]uint64{}
	for _, w := range m.ways {
		if w == nil || !w.used {
			continue
		}
		list, err := w.device.Counters()
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			all[c.Name] += c.Value
		}
	}
	return all, nil
}

// Close releases everything.
func (m *Meetings) Close() error {
	var errs []error
	for _, w := range m.ways {
		if w == nil {
			continue
		}
		for k := range w.places {
			errs = append(errs, w.places[k].close())
		}
		errs = append(errs, w.device.CloseCQ())
	}
	m.ways = [2]*way{}
	return errors.Join(errs...)
}

func (p *place) close() error {
	var errs []error
	if p.qp != nil {
		errs = append(errs, p.qp.Close())
	}
	if p.mr != nil {
		errs = append(errs, p.mr.Close())
	}
	if p.memory != nil {
		errs = append(errs, p.memory.Free())
	}
	return errors.Join(errs...)
}

// Patience is how long an end of a meeting waits for the other one at least: until retries
// have run out, which the timers of both say, and a rank that stands still is back; not for longer
// than the others wait for both.
func (m *Meetings) Patience() time.Duration {
	return min(2*m.Retries()+m.opts.Silence, m.r.Timeout()/3)
}

// Retries is how long a queue pair tries at least before it gives up; 0: it does not, since it has
// no timer.
func (m *Meetings) Retries() time.Duration {
	if *m.opts.QPTimeout == 0 {
		return 0
	}
	// InfiniBand specification 1.4, volume 1, 9.9.2.1.2; the timer may be longer than it says.
	const shortest = 4096 * time.Nanosecond
	return (time.Duration(*m.opts.RetryCnt) + 1) * (shortest << *m.opts.QPTimeout)
}
