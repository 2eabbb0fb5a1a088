package ring

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"ringcli/ring/locality"
	"ringcli/ring/watch"
	"ringcli/verbs"
)

// Meetings connect this rank to one other after the other, beside the ring's edges: to all
// of a thousand, with two queue pairs. Both ends take theirs to RTS by themselves, without a
// word to each other: what a peer must know was told once, and the PSNs follow from it and
// from the number of the meeting, so that no packet of an earlier meeting fits a later one.
//
// They belong to one goroutine, and have a completion queue of their own, which needs no
// token.
type Meetings struct {
	r     *Ring
	bytes int
	ways  [2]*way // by whether its device is of this host alone; nil where no peer is reached so
	peers []meetingReport
	local []bool // by rank: it is reached on the device of this host
	last  int    // way that was polled last
}

// MeetingQPs is how many queue pairs a rank has on a device, and so how many meetings at once.
const MeetingQPs = 2

// way is a device and the queue pairs on it.
type way struct {
	device *Device // with a completion queue of its own
	edges  [MeetingQPs]*Edge
	used   bool // by a meeting since Part
}

// meetingReport is what a rank tells all others once.
type meetingReport struct {
	Locality *locality.Locality              `json:"locality,omitempty"`
	Seed     uint64                          `json:"seed,omitempty"` // of its PSNs
	Ways     [2]*[MeetingQPs]json.RawMessage `json:"ways"`           // connectionData
}

const (
	// meetingRecv is how many receives are posted: for a few messages of control, each
	// of which is answered.
	meetingRecv = 32
	// meetingWords are requests besides those that the caller asked for: words between the tests.
	meetingWords = 16
	// meetingFirst is the first ID of an edge to a meeting: no mesh has as many.
	meetingFirst EdgeID = 1 << 14
)

// OpenMeetings is collective. Each rank has room for so many bytes to be written to it, and
// for so many requests.
func (r *Ring) OpenMeetings(ctx context.Context, bytes, requests int) (m *Meetings, err error) {
	requests += meetingWords
	m = &Meetings{r: r, bytes: bytes, local: make([]bool, len(r.nodes))}
	err = r.between("meetings", r.Usable).take(ctx, func(ctx context.Context, _ Token) error {
		ctx, cancel := context.WithTimeout(ctx, r.Timeout())
		defer cancel()
		own := r.opts.locality()
		if err := m.share(ctx, "where all are", meetingReport{Locality: &own}); err != nil {
			return err
		}
		if err := m.choose(requests); err != nil {
			return err
		}
		mine := meetingReport{Seed: rand.Uint64()}
		for i, w := range m.ways {
			if w == nil {
				continue
			}
			mine.Ways[i] = new([MeetingQPs]json.RawMessage)
			for k, e := range w.edges {
				if mine.Ways[i][k], err = json.Marshal(e.connectionData()); err != nil {
					return err
				}
			}
		}
		return m.share(ctx, "queue pairs", mine)
	})
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Meetings) share(ctx context.Context, what string, own meetingReport) error {
	data, err := json.Marshal(own)
	if err != nil {
		return err
	}
	parts, err := m.r.control.Gather(ctx, Purpose{What: what + " of meetings", Do: "meet each other rank"}, data)
	if err != nil {
		return err
	}
	m.peers = make([]meetingReport, len(parts))
	for rank, part := range parts {
		if err := json.Unmarshal(part, &m.peers[rank]); err != nil {
			return fmt.Errorf("what %s says makes no sense: %w", m.r.nodeName(rank), err)
		}
	}
	return nil
}

// choose makes the queue pairs on the devices that peers are reached on.
func (m *Meetings) choose(requests int) error {
	r := m.r
	chosen, peers := [2]locality.Choice{}, [2][]int{}
	for rank, p := range m.peers {
		if rank == r.rank {
			continue
		}
		c, err := locality.Choose(*m.peers[r.rank].Locality, *p.Locality, bothNames(r, rank))
		if err != nil {
			return err
		}
		m.local[rank] = c.HostLocal
		chosen[index(c.HostLocal)], peers[index(c.HostLocal)] = c, append(peers[index(c.HostLocal)], rank)
	}
	for i := range chosen {
		if len(peers[i]) == 0 {
			continue
		}
		on, err := r.devices.chosen(chosen[i], peers[i]...)
		if err != nil {
			return err
		}
		w := &way{device: new(Device)}
		*w.device = *on.device
		w.device.CQ, w.device.Channel = nil, nil
		m.ways[i] = w
		if err := w.device.CreateCQ(MeetingQPs * (requests + meetingRecv)); err != nil {
			return err
		}
		// One slot is written to, one is written from.
		has := room{slots: 2, slotSize: (m.bytes+SlotHeader-1)/SlotHeader*SlotHeader + SlotHeader, recv: meetingRecv, send: requests}
		for k := range w.edges {
			id := meetingFirst + EdgeID(i*MeetingQPs+k)
			if w.edges[k], err = newEdge(r, id, peers[i][0], edgeDevice{w.device, on.why}, has); err != nil {
				return err
			}
			e := w.edges[k]
			if q, watched := e.QP.(*watch.QP); watched {
				e.QP = q.QP // nobody looks at it meanwhile
			}
			// The first round must not measure the kernel's zeroing.
			for at := range e.slots.Bytes() {
				e.slots.Bytes()[at] = byte(at)
			}
			if err := e.describe(); err != nil {
				return err
			}
			// A soft device has a UDP port once a queue pair is in INIT.
			if err := e.toInit(Values{}); err != nil {
				return err
			}
			if err := e.describe(); err != nil {
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

// Meeting is a queue pair to one rank, until the next Meet of its place.
type Meeting struct {
	*Edge
	// Shared: it is on the device of this host.
	Shared bool
	wr     []verbs.WorkRequest
	sge    [1]verbs.SGE
}

// Meet connects a queue pair to a rank, which does the same with the same number, and with the
// places turned round. Nothing may be sent before it has, and it may meet somebody else once all
// is received and acknowledged at both ends: barriers are the caller's.
func (m *Meetings) Meet(peer int, number uint64, mine, theirs int) (*Meeting, error) {
	r := m.r
	at := index(m.local[peer])
	w := m.ways[at]
	if w == nil || m.peers[peer].Ways[at] == nil {
		return nil, fmt.Errorf("%s has no queue pair for meetings on that device: do all ranks run the same version?", r.nodeName(peer))
	}
	e := w.edges[mine]
	var remote connectionData
	if err := json.Unmarshal(m.peers[peer].Ways[at][theirs], &remote); err != nil {
		return nil, fmt.Errorf("what %s says makes no sense: %w", r.nodeName(peer), err)
	}
	remote.PSN = m.psn(peer, number, theirs)
	if err := e.QP.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState); err != nil {
		return nil, fmt.Errorf("reset a queue pair for meetings: %w", err)
	}
	r.change(func() { e.Peer, e.Remote, e.Local.PSN = peer, remote, m.psn(r.rank, number, mine) })
	e.nextBuf = 0
	for _, step := range []func(Values) error{e.toInit, e.toRTR, e.toRTS} {
		if err := step(Values{}); err != nil {
			return nil, fmt.Errorf("connect to %s: %w", r.nodeName(peer), err)
		}
	}
	w.used = true
	return &Meeting{Edge: e, Shared: at == 1}, nil
}

// psn is that from which a rank sends in a meeting.
func (m *Meetings) psn(rank int, number uint64, place int) uint32 {
	var text [24]byte
	binary.LittleEndian.PutUint64(text[:], m.peers[rank].Seed)
	binary.LittleEndian.PutUint64(text[8:], number)
	binary.LittleEndian.PutUint64(text[16:], uint64(place))
	h := fnv.New64a()
	_, _ = h.Write(text[:]) // a hash never fails
	return uint32(h.Sum64()>>20) & (1<<24 - 1)
}

// Write posts n WRITEs, or WRITEs with immediate data, of so many bytes. Their IDs are of kind
// WRUser, with the value 0 of those with immediate data, and 1 of others.
func (x *Meeting) Write(op verbs.Opcode, bytes, n int, imm uint32) error {
	for len(x.wr) < n {
		x.wr = append(x.wr, verbs.WorkRequest{})
	}
	addr, rkey := x.RemoteSlot(0)
	x.sge[0] = verbs.SGE{Addr: x.slots.Addr() + uint64(x.Local.SlotSize), Length: uint32(bytes), LKey: x.slotMR.LKey()}
	value := uint64(1)
	if op == verbs.OpWriteImm {
		value = 0
	}
	for i := range x.wr[:n] {
		x.wr[i] = verbs.WorkRequest{
			ID: WRID(x.ID, WRUser, value), SGL: x.sge[:], Opcode: op, Flags: verbs.FlagSignaled, RemoteAddr: addr, RKey: rkey, Imm: imm,
		}
	}
	if _, err := x.QP.PostSend(x.wr[:n]); err != nil {
		return fmt.Errorf("post %s of %d bytes to rank %d: %w", op, bytes, x.Peer, err)
	}
	return nil
}

// Is tells whether a completion is one of this meeting.
func (x *Meeting) Is(wc *verbs.Completion) bool {
	id, _, _ := ParseWRID(wc.ID)
	return id == x.ID
}

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

// Waiter waits for completions of the meetings that there are. blocks: the CPU is left to
// whoever moves the data.
func (m *Meetings) Waiter(blocks bool) verbs.Waiter {
	w := verbs.Waiter{Policy: m.r.opts.Wait, Affinity: m.r.Affinity()}
	used, software := 0, false
	for _, x := range m.ways {
		if x != nil && x.used {
			used++
			w.CQ, w.Channel, w.MaxSpins = x.device.CQ, x.device.Channel, x.device.Attr.MaxSpins
			software = software || x.device.Attr.Software
		}
	}
	if used > 1 {
		w.CQ, w.Channel = nil, nil
	}
	if blocks && !software {
		w.Policy = verbs.WaitBlock
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
		if w != nil {
			errs = append(errs, closeAll(w.edges[:]), w.device.CloseCQ())
		}
	}
	m.ways = [2]*way{}
	return errors.Join(errs...)
}

// Patience is how long an end of a meeting waits for the other one at least: until retries
// have run out, which the timers of both say, and not for longer than the others wait for both.
func (m *Meetings) Patience() time.Duration {
	o := &m.r.opts
	// The timer may be four times as long as it says (InfiniBand specification 1.4, volume 1, 9.9.2.1.2).
	const shortest = 4096 * time.Nanosecond
	return min(2*(time.Duration(*o.RetryCnt)+1)*(shortest<<*o.QPTimeout)+time.Second, m.r.Timeout()/3)
}
