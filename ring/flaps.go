package ring

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/trace"
	"ringcli/verbs"
)

// flapSettles is how long after a carrier has come back packets are counted that were lost meanwhile:
// the longest pause between two attempts of a queue pair of the default timeout.
const flapSettles = 500 * time.Millisecond

// link is an interface under a device of the ring.
type link struct {
	device *Device
	netdev string
	index  int
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

// run tells when an interface under a device loses its carrier and has it again, which the
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
		return // flaps are not told
	}
	f := os.NewFile(uintptr(fd), "rtnetlink")
	defer func() { _ = f.Close() }()
	if unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_LINK}) != nil {
		return
	}
	defer context.AfterFunc(w.life, func() { _ = f.SetReadDeadline(time.Now()) })()
	for b := make([]byte, 32<<10); w.life.Err() == nil; {
		n, err := f.Read(b)
		now := time.Now()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			_ = f.SetReadDeadline(time.Time{})
			for _, l := range links {
				l.tell(w, now)
			}
			if w.life.Err() != nil { // it ended while the deadline was set anew
				return
			}
			continue
		case err != nil && !errors.Is(err, unix.ENOBUFS): // which is that messages were missed
			return
		}
		messages, _ := syscall.ParseNetlinkMessage(b[:max(n, 0)])
		for _, m := range messages {
			if m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
				continue
			}
			// struct ifinfomsg: the index is at 4, and the flags are at 8.
			index, flags := int(binary.NativeEndian.Uint32(m.Data[4:])), binary.NativeEndian.Uint32(m.Data[8:])
			if i := slices.IndexFunc(links, func(l *link) bool { return l.index == index }); i >= 0 && links[i].changed(w, flags&unix.IFF_RUNNING != 0, now) {
				_ = f.SetReadDeadline(now.Add(flapSettles))
			}
		}
	}
}

// changed takes note of a carrier, and tells whether a flap is over, which is told later.
func (l *link) changed(w *linkWatch, carrier bool, now time.Time) (over bool) {
	switch {
	case !carrier && l.down.IsZero():
		l.down, l.back, l.resent = now, time.Time{}, l.retransmitted()
		l.event(w, verbs.EventPortErr)
	case carrier && !l.down.IsZero() && l.back.IsZero():
		l.back = now
		w.host.noCarrier.Add(int64(now.Sub(l.down)))
		l.event(w, verbs.EventPortActive)
		return true
	}
	return false
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
	trace.Warn(trace.Ring, fmt.Sprintf("%s of rank %d had no carrier for %s from %s on%s: look at the cable, the switch's port and its counters",
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
