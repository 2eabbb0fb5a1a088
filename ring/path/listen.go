package path

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Seen is what came of a probe.
type Seen struct {
	Probe
	Came int   `json:"came"`          // how many of those that are alike
	TOS  uint8 `json:"traffic_class"` // DSCP and ECN of the last
	// Later is the median of when it came by the receiver's clock and when it left by the
	// sender's, in nanoseconds: it compares probes of one sender with each other alone.
	Later int64 `json:"later_ns"`
}

// Listener takes probes at an address, and sends those back that are for a source port.
type Listener struct {
	conn *net.UDPConn
	key  uint64
	done chan struct{} // closed when the goroutine has ended

	mu   sync.Mutex
	seen map[Probe]*heard // guarded by mu
}

type heard struct {
	numbers uint64 // a bit for each that came
	tos     uint8
	later   []int64
}

// Listen opens one; port 0 takes any.
func Listen(local netip.Addr, port uint16) (*Listener, error) {
	conn, err := bound(netip.AddrPortFrom(local, port), option{unix.IPPROTO_IP, unix.IP_RECVTOS, 1}, option{unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1})
	if err != nil {
		return nil, fmt.Errorf("listen for probes: %w", err)
	}
	_ = conn.SetReadBuffer(4 << 20) // what the limit allows: each size is sent several times
	l := &Listener{conn: conn, key: rand.Uint64(), done: make(chan struct{}), seen: make(map[Probe]*heard)}
	go l.take()
	return l, nil
}

// Target is where to send to.
func (l *Listener) Target() Target {
	at := l.conn.LocalAddr().(*net.UDPAddr).AddrPort()
	return Target{netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), l.key}
}

// Close ends it.
func (l *Listener) Close() error {
	err := l.conn.Close()
	<-l.done
	return err
}

// take reads until Close. Other errors are of single packets: what goes back may be refused.
func (l *Listener) take() {
	defer close(l.done)
	b, oob := make([]byte, 1<<16), make([]byte, 128)
	for {
		n, on, _, from, err := l.conn.ReadMsgUDPAddrPort(b, oob)
		if err != nil {
			if isClosed(err) {
				return
			}
			continue
		}
		p, number, sent, ok := decode(b[:n], l.key)
		if !ok {
			continue
		}
		if p.Kind == Port {
			_, _ = l.conn.WriteToUDPAddrPort(b[:n], from)
		}
		l.mu.Lock()
		h := l.seen[p]
		if h == nil {
			h = &heard{}
			l.seen[p] = h
		}
		if h.numbers&(1<<number) == 0 {
			h.numbers |= 1 << number
			h.tos = trafficClass(oob[:on], h.tos)
			h.later = append(h.later, clock()-sent)
		}
		l.mu.Unlock()
	}
}

// trafficClass reads the byte that holds DSCP and ECN from control messages (ip(7), ipv6(7)).
func trafficClass(oob []byte, otherwise uint8) uint8 {
	list, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return otherwise
	}
	for _, m := range list {
		switch h := m.Header; {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TOS && len(m.Data) >= 1:
			return m.Data[0]
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_TCLASS && len(m.Data) >= 4:
			return uint8(binary.NativeEndian.Uint32(m.Data))
		}
	}
	return otherwise
}

const (
	// tick is the pause between two looks.
	tick = time.Millisecond
	// late is how long after the deadline the last look is: if this process had no CPU until then,
	// what came waits at the socket for the reader, which takes microseconds for a packet.
	late = 20 * time.Millisecond
)

// Await returns what came of some probes, of which each is sent so many times: when all have
// come, or after so long and a last look.
func (l *Listener) Await(ctx context.Context, probes []Probe, each int, within time.Duration) []Seen {
	over := false
	for begun := time.Now(); ; time.Sleep(tick) {
		list, whole := make([]Seen, len(probes)), true
		l.mu.Lock()
		for i, p := range probes {
			list[i].Probe = p
			if h := l.seen[p]; h != nil {
				list[i].Came, list[i].TOS = bits.OnesCount64(h.numbers), h.tos
				list[i].Later = Median(h.later)
			}
			whole = whole && list[i].Came == each
		}
		l.mu.Unlock()
		if whole || over || ctx.Err() != nil {
			return list
		}
		if over = time.Since(begun) > within; over {
			time.Sleep(late)
		}
	}
}

// Median is the middle of some times, or 0 of none.
func Median(list []int64) int64 {
	if len(list) == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
