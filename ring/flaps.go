package ring

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/trace"
	"ringcli/verbs"
)

const (
	// flapSettles is how long after a carrier has come back packets are counted that were lost
	// meanwhile: the longest pause between two attempts of a queue pair of the default timeout.
	flapSettles = 500 * time.Millisecond
	// linkPoll is how often the kernel is asked for the state of a link. It reports changes at most once
	// a second for all interfaces of the machine, those of other network namespaces included, and then
	// the state that it finds: a carrier that is away for less is in no message (Linux 6.18,
	// net/core/link_watch.c).
	linkPoll = 250 * time.Millisecond
)

// link is an interface under a device of the ring.
type link struct {
	device *Device
	netdev string
	index  int
	asked  time.Time // when its state was known last
	losses uint32    // of its carrier, as the kernel counts them
	down   time.Time // when it lost its carrier; zero while it has one
	back   time.Time // when it had it again; zero once that was told
	resent uint64    // by then
}

// linkWatch watches the interfaces under the devices of a ring.
type linkWatch struct {
	of      *membership
	host    *Host // keeps how long they had no carrier
	devices *devices
	life    context.Context
}

// run reports when an interface under a device loses its carrier and has it again, which the
// kernel says over rtnetlink(7), until the ring's life ends. A device in software has no events of its
// own: it gets those of a port.
func (w *linkWatch) run() {
	var links []*link
	for _, d := range w.devices.all() {
		port, err := d.Context.QueryPort(d.Port.Num)
		if err != nil || port.NetDev == "" {
			continue
		}
		if i, err := net.InterfaceByName(port.NetDev); err == nil && i.Flags&net.FlagLoopback == 0 {
			links = append(links, &link{device: d, netdev: i.Name, index: i.Index})
		}
	}
	if links == nil {
		return
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return // flaps are not reported
	}
	f := os.NewFile(uintptr(fd), "rtnetlink")
	defer func() { _ = f.Close() }()
	if unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_LINK}) != nil {
		return
	}
	ask := func() {
		for _, l := range links {
			_, _ = f.Write(linkRequest(l.index)) // without an answer the next one is asked for
		}
	}
	ask()
	_ = f.SetReadDeadline(time.Now().Add(linkPoll))
	defer context.AfterFunc(w.life, func() { _ = f.SetReadDeadline(time.Now()) })()
	for b := make([]byte, 32<<10); w.life.Err() == nil; {
		n, err := f.Read(b)
		now := time.Now()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			for _, l := range links {
				l.tell(w, now)
			}
			ask()
			_ = f.SetReadDeadline(now.Add(linkPoll))
			continue // and ends if the ring's life did while the deadline was set anew
		case err != nil && !errors.Is(err, unix.ENOBUFS): // which is that messages were missed
			return
		}
		messages, _ := syscall.ParseNetlinkMessage(b[:max(n, 0)])
		for _, m := range messages {
			if index, s, ok := linkStateOf(&m); ok {
				if i := slices.IndexFunc(links, func(l *link) bool { return l.index == index }); i >= 0 {
					links[i].changed(w, s, now)
				}
			}
		}
	}
}

// linkRequest is an RTM_GETLINK of an interface: struct nlmsghdr and struct ifinfomsg.
func linkRequest(index int) []byte {
	b := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.RTM_GETLINK)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(b[unix.SizeofNlMsghdr+4:], uint32(index))
	return b
}

// linkState is what an RTM_NEWLINK says of a carrier.
type linkState struct {
	carrier bool
	losses  uint32 // of it, since the interface exists
}

// linkStateOf reads an RTM_NEWLINK. The flags of struct ifinfomsg follow a carrier late, the attribute
// does not; notices of bridges and of wireless interfaces lack it.
func linkStateOf(m *syscall.NetlinkMessage) (index int, s linkState, ok bool) {
	if m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
		return 0, s, false
	}
	attributes, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return 0, s, false
	}
	index, s.carrier = int(binary.NativeEndian.Uint32(m.Data[4:])), binary.NativeEndian.Uint32(m.Data[8:])&unix.IFF_UP != 0
	for _, a := range attributes {
		switch {
		case a.Attr.Type == unix.IFLA_CARRIER && len(a.Value) > 0:
			s.carrier, ok = s.carrier && a.Value[0] != 0, true
		case a.Attr.Type == unix.IFLA_CARRIER_DOWN_COUNT && len(a.Value) >= 4:
			s.losses = binary.NativeEndian.Uint32(a.Value)
		}
	}
	return index, s, ok
}

// changed records a state of the link. The end of a flap is reported later, by tell; a flap before that
// stays in the kernel's count and is reported next.
func (l *link) changed(w *linkWatch, s linkState, now time.Time) {
	before, lost := l.asked, !l.asked.IsZero() && s.losses != l.losses
	l.asked = now
	if !l.back.IsZero() {
		return
	}
	l.losses = s.losses
	if l.down.IsZero() {
		switch {
		case !s.carrier:
			l.down, l.resent = now, l.retransmitted()
		case lost: // and back since then; what was resent by then is not known
			// A process that stood still has not looked for longer, which is no time without a carrier.
			l.down, l.resent = now.Add(-min(now.Sub(before), 2*linkPoll)), math.MaxUint64
		default:
			return
		}
		l.event(w, verbs.EventPortErr)
	}
	if s.carrier {
		l.back = now
		w.host.noCarrier.Add(int64(now.Sub(l.down)))
		l.event(w, verbs.EventPortActive)
	}
}

func (l *link) event(w *linkWatch, what verbs.EventType) {
	if l.device.Attr.UDPSocket {
		w.devices.event(l.device.Name, verbs.AsyncEvent{Type: what, Port: l.device.Port.Num})
	}
}

// tell says how long the carrier was away, once what was lost meanwhile was sent again.
func (l *link) tell(w *linkWatch, now time.Time) {
	if l.back.IsZero() || now.Sub(l.back) < flapSettles {
		return
	}
	resent := ""
	if n := l.retransmitted(); n >= l.resent {
		resent = fmt.Sprintf("; %d packets were sent again", n-l.resent)
	}
	trace.Warn(trace.Ring, fmt.Sprintf("%s of rank %d had no carrier for about %s from %s on%s: look at the cable, the switch's port and its counters",
		l.netdev, w.of.rank, l.back.Sub(l.down).Round(time.Millisecond), l.down.Format("15:04:05.000"), resent))
	l.down, l.back = time.Time{}, time.Time{}
}

// retransmitted is how many requests the device has sent again; 0 where it does not count that.
func (l *link) retransmitted() uint64 {
	list, _ := l.device.Counters()
	for _, c := range list {
		if c.Name == "retransmitted_requests" {
			return c.Value
		}
	}
	return 0
}
