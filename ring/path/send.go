package path

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Sender sends probes from an address to a target. One goroutine at a time uses it.
type Sender struct {
	conn *net.UDPConn
	to   Target
	tos  uint8
	buf  [Most]byte
}

// option is one of a socket.
type option struct{ level, name, value int }

// bound opens a socket with those options that are of the address' family.
func bound(local netip.AddrPort, options ...option) (*net.UDPConn, error) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(local))
	if err != nil {
		return nil, err
	}
	for _, o := range options {
		if (o.level == unix.IPPROTO_IP) != local.Addr().Is4() {
			continue
		}
		if err := set(conn, o); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", local, os.NewSyscallError(fmt.Sprintf("setsockopt %d of level %d", o.name, o.level), err)), conn.Close())
		}
	}
	return conn, nil
}

func set(conn *net.UDPConn, o option) (err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	if failed := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), o.level, o.name, o.value) }); failed != nil {
		return failed
	}
	return err
}

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }

// NewSender opens a socket of a source port; 0 takes any. Its packets have DF set, whatever
// the kernel has learnt of the path (IP_PMTUDISC_PROBE), so that the path is asked and not
// the memory of it.
func NewSender(local netip.Addr, port uint16, to Target) (*Sender, error) {
	conn, err := bound(netip.AddrPortFrom(local, port),
		option{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE}, option{unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE},
		option{unix.IPPROTO_IP, unix.IP_RECVERR, 1}, option{unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1})
	if err != nil {
		return nil, fmt.Errorf("send probes: %w", err)
	}
	return &Sender{conn: conn, to: to}, nil
}

// Close gives the socket back.
func (s *Sender) Close() error { return s.conn.Close() }

// Port is the source port.
func (s *Sender) Port() uint16 { return s.conn.LocalAddr().(*net.UDPAddr).AddrPort().Port() }

// Send sends a probe of so many bytes, headers included, with a traffic class, numbered below
// MostEach. That the kernel does not take it is no error: it does not arrive.
func (s *Sender) Send(p Probe, number, length int, tos uint8) error {
	if tos != s.tos {
		o := option{unix.IPPROTO_IP, unix.IP_TOS, int(tos)}
		if s.to.Addr.Addr().Is6() {
			o = option{unix.IPPROTO_IPV6, unix.IPV6_TCLASS, int(tos)}
		}
		if err := set(s.conn, o); err != nil {
			return fmt.Errorf("traffic class %d: %w", tos, err)
		}
		s.tos = tos
	}
	b := s.buf[:max(probeLen, length-Headers(s.to.Addr.Addr()))]
	p.encode(b, s.to.Key, number)
	// An error may be that of an earlier packet, which a router answered.
	for range 3 {
		if _, err := s.conn.WriteToUDPAddrPort(b, s.to.Addr); err == nil || isClosed(err) {
			return err
		}
	}
	return nil
}

// TooLong is what a router says of packets that are too long for its next link.
type TooLong struct {
	By  netip.Addr
	MTU int
}

// Complaint returns the last that came, if any: ICMP's "fragmentation needed" and "packet too
// big", from the socket's error queue (ip(7), IP_RECVERR).
func (s *Sender) Complaint() (last *TooLong) {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return nil
	}
	b, oob := make([]byte, 256), make([]byte, 512)
	_ = raw.Control(func(fd uintptr) {
		for {
			_, n, _, _, err := unix.Recvmsg(int(fd), b, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if err != nil {
				return
			}
			list, err := unix.ParseSocketControlMessage(oob[:n])
			for _, m := range list {
				if t := tooLong(m.Data); err == nil && t != nil {
					last = t
				}
			}
		}
	})
	return last
}

// tooLong reads a struct sock_extended_err, which the address of who complains follows
// (linux/errqueue.h).
func tooLong(b []byte) *TooLong {
	const length = 16 // of the struct; before the address' host part stand 4 or 8 bytes
	if len(b) < length+8 || unix.Errno(binary.NativeEndian.Uint32(b)) != unix.EMSGSIZE {
		return nil
	}
	t := &TooLong{MTU: int(binary.NativeEndian.Uint32(b[8:]))}
	switch origin, at := b[4], b[length:]; {
	case origin == unix.SO_EE_ORIGIN_ICMP:
		t.By, _ = netip.AddrFromSlice(at[4:8])
	case origin == unix.SO_EE_ORIGIN_ICMP6 && len(at) >= 24:
		t.By, _ = netip.AddrFromSlice(at[8:24])
	default:
		return nil // this machine itself
	}
	return t
}

// Echoes is what a source port's probes came to.
type Echoes struct {
	Port uint16
	Sent int
	Back int           // how many came back
	RTT  time.Duration // median; 0: none came back
}

const (
	// firstEcho is how long the first round waits, and no later one longer; leastEcho is
	// enough for a thread that waits for its turn.
	firstEcho, leastEcho = 300 * time.Millisecond, 10 * time.Millisecond
	// patient is how many rounds wait for ports that do not answer.
	patient = 3
	// echoLength keeps packets short: latency is asked for.
	echoLength = 64
)

// Ports sends rounds of echoes by several source ports, one of each port in a round, and each
// round begins with another port. It ends with the rounds, or after so long.
func Ports(ctx context.Context, from uint16, senders []*Sender, rounds int, within time.Duration) ([]Echoes, error) {
	type echo struct {
		port, number int
		rtt          int64
	}
	came := make(chan echo, len(senders)*rounds)
	var reading sync.WaitGroup
	for i, s := range senders {
		reading.Go(func() {
			b := make([]byte, echoLength)
			var known uint64
			for {
				n, _, err := s.conn.ReadFromUDPAddrPort(b)
				if err != nil {
					if isClosed(err) || errors.Is(err, os.ErrDeadlineExceeded) {
						return
					}
					continue
				}
				_, number, sent, ok := decode(b[:n], s.to.Key)
				if ok && number < rounds && known&(1<<number) == 0 {
					known |= 1 << number
					came <- echo{i, number, clock() - sent}
				}
			}
		})
	}
	defer func() {
		for _, s := range senders {
			_ = s.conn.SetReadDeadline(time.Now())
		}
		reading.Wait()
	}()
	list, rtts := make([]Echoes, len(senders)), make([][]int64, len(senders))
	begun, slowest := time.Now(), time.Duration(0)
	for round := range rounds {
		if ctx.Err() != nil || time.Since(begun) > within {
			break
		}
		for k := range senders {
			i := (k + round) % len(senders)
			if err := senders[i].Send(Probe{from, Port, uint16(i)}, round, echoLength, 0); err != nil {
				return nil, err
			}
			list[i].Sent++
		}
		wait := firstEcho
		if slowest > 0 {
			wait = min(firstEcho, max(leastEcho, 4*slowest))
		}
		timer := time.After(wait)
		missing := len(senders)
		if round >= patient { // nobody waits for a port that has never answered
			missing = 0
			for _, answers := range rtts {
				missing += min(1, len(answers))
			}
		}
		for missing > 0 {
			select {
			case e := <-came:
				rtts[e.port] = append(rtts[e.port], e.rtt)
				if e.number == round && (round < patient || len(rtts[e.port]) > 1) {
					missing--
				}
				slowest = max(slowest, time.Duration(e.rtt))
			case <-timer:
				missing = 0
			}
		}
	}
	for len(came) > 0 { // of ports that nobody waited for
		e := <-came
		rtts[e.port] = append(rtts[e.port], e.rtt)
	}
	for i, s := range senders {
		list[i].Port, list[i].Back, list[i].RTT = s.Port(), len(rtts[i]), time.Duration(Median(rtts[i]))
	}
	return list, nil
}
