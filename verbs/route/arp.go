package route

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// arpRounds and arpPause are how often each address is asked for: one request may be lost.
	arpRounds, arpPause = 3, 200 * time.Millisecond
	// arpLength is the length of a packet of ARP for IPv4 on Ethernet (RFC 826).
	arpLength = 28
)

// Owners asks an Ethernet for IPv4 addresses and returns the MAC addresses that answer for each,
// in the order of the answers. It sends ARP probes (RFC 5227), which no cache learns from and no
// proxy answers: who answers has the address. Two MAC addresses are two hosts, or one host that
// answers by two interfaces (arp_ignore 0). Owners takes 0.6 s and needs CAP_NET_RAW.
func Owners(ctx context.Context, netdev string, addrs []netip.Addr) (map[netip.Addr][]net.HardwareAddr, error) {
	i, err := net.InterfaceByName(netdev)
	if err != nil {
		return nil, err
	}
	if len(i.HardwareAddr) != 6 || i.Flags&net.FlagLoopback != 0 {
		return nil, fmt.Errorf("%s is no Ethernet", netdev)
	}
	protocol := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ARP))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(protocol))
	if err != nil {
		return nil, fmt.Errorf("a socket for ARP: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	to := &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: i.Index, Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: i.Index}); err != nil {
		return nil, fmt.Errorf("ARP on %s: %w", netdev, err)
	}
	owners := map[netip.Addr][]net.HardwareAddr{}
	for range arpRounds {
		for _, a := range addrs {
			if err := unix.Sendto(fd, arpProbe(i.HardwareAddr, a), 0, to); err != nil && !errors.Is(err, unix.ENOBUFS) {
				return nil, fmt.Errorf("ARP on %s: %w", netdev, err)
			}
		}
		for end := time.Now().Add(arpPause); ; {
			left := time.Until(end)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if left <= 0 {
				break
			}
			ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
			if err != nil && !errors.Is(err, unix.EINTR) {
				return nil, fmt.Errorf("ARP on %s: %w", netdev, err)
			}
			if ready <= 0 {
				continue
			}
			var b [64]byte
			n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT)
			if err != nil {
				continue
			}
			a, mac := arpSender(b[:n])
			if slices.Contains(addrs, a) && !slices.ContainsFunc(owners[a], func(m net.HardwareAddr) bool { return bytes.Equal(m, mac) }) {
				owners[a] = append(owners[a], mac)
			}
		}
	}
	return owners, nil
}

// arpProbe is a request for an address by a sender that names none of its own.
func arpProbe(mac net.HardwareAddr, of netip.Addr) []byte {
	b := append(make([]byte, 0, arpLength), 0, 1, 8, 0, 6, 4, 0, 1) // Ethernet, IPv4, their lengths, request
	b = append(append(b, mac...), 0, 0, 0, 0)
	return append(append(b, 0, 0, 0, 0, 0, 0), of.AsSlice()...)
}

// arpSender is who says in a packet that it has an address: in a reply, and in an announcement,
// which is a request. Of anything else the address is invalid.
func arpSender(b []byte) (netip.Addr, net.HardwareAddr) {
	if len(b) < arpLength || !bytes.Equal(b[:6], []byte{0, 1, 8, 0, 6, 4}) {
		return netip.Addr{}, nil
	}
	a, _ := netip.AddrFromSlice(b[14:18])
	return a, bytes.Clone(b[8:14])
}
