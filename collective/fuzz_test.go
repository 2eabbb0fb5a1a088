package collective

import (
	"context"
	"testing"
	"time"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/ring/message"
)

// lastKind is the last of the kinds that package exec has.
const lastKind = message.User + 5

// FuzzMessage has the neighbour of a rank that runs an operation send it messages of any
// kind, near to those that it waits for: the operation ends with an error in time, as it has
// no other end, and nothing breaks.
func FuzzMessage(f *testing.F) {
	for kind := message.User; kind <= lastKind; kind++ {
		f.Add(byte(kind), byte(kind), uint32(0), uint32(1024), uint64(0), uint32(0), uint64(1), byte(0xff))
	}
	f.Add(byte(4), byte(lastKind), uint32(1<<31), ^uint32(0), ^uint64(0), ^uint32(0), ^uint64(0), byte(0xff))
	f.Add(byte(0), byte(0), uint32(0), uint32(0), uint64(0), uint32(0), uint64(0), byte(0))
	f.Fuzz(func(t *testing.T, way, kind byte, segment, length uint32, addr uint64, sum uint32, arg uint64, right byte) {
		w := newWorld(t, 2, ring.Options{Timeout: 5 * time.Second}, nil)
		const count = 16 << 10
		send, recv := w.comms[0].mustAlloc(t, count*4), w.comms[0].mustAlloc(t, count*4)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		h := message.Header{Kind: message.Kind(kind), Segment: segment, Length: length, Addr: addr, Sum: sum, Arg: arg, Sender: 1}
		if right&1 != 0 {
			h.Epoch = w.rings[0].Epoch()
		}
		if right&2 != 0 {
			h.Seq = w.comms[0].watch.Seq + 1
		}
		if right&4 != 0 {
			h.RKey = w.comms[0].exec.Nonce
		}
		var b [message.HeaderSize]byte
		h.Encode(b[:])
		for side := range ring.EdgeID(2) {
			for range 1 + right>>6 {
				if err := w.rings[1].Edge(side).SendMessage(b[:]); err != nil {
					t.Fatal(err)
				}
			}
		}
		o := CallOptions{Protocol: []Protocol{Eager, RendezvousWrite, RendezvousRead}[way%3], Verify: way/3%2 == 1}
		begun := time.Now()
		if err := w.comms[0].AllReduce(ctx, send.Addr(), recv.Addr(), count, reduce.Float32, reduce.Sum, o); err == nil {
			t.Error("an operation that the neighbour has not called is done")
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("it ended after %s", took)
		}
	})
}

func (c *Comm) mustAlloc(t *testing.T, n uint64) *Buffer {
	t.Helper()
	b, err := c.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
