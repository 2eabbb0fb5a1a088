package udp

import (
	"encoding/binary"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxAdmitted is how many senders Admit takes: a filter of a few hundred instructions.
const MaxAdmitted = 64

// Classic BPF, as of linux/filter.h. For a UDP socket the packet begins with the UDP
// header, at whose start the source port stands; the IP header is found by netOff.
const (
	bpfLoadWord = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	bpfLoadHalf = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
	bpfIfEqual  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	bpfReturn   = unix.BPF_RET | unix.BPF_K
	netOff      = 0xfff00000 // SKF_NET_OFF, -0x100000

	v4Source, v6Source = 12, 8
)

// Admit lets the kernel drop what does not come from one of these, so that a flood of it
// fills no buffer and costs the receiver nothing. A port of 0 stands for any. More than
// MaxAdmitted lets everything in again.
func (c *Conn) Admit(senders []netip.AddrPort) error {
	if len(senders) > MaxAdmitted {
		return c.AdmitAll()
	}
	if !c.use() {
		return ErrClosed
	}
	defer c.done()
	program := admitting(senders)
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: unsafe.SliceData(program)}
	return os.NewSyscallError("setsockopt SO_ATTACH_FILTER", unix.SetsockoptSockFprog(c.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &filter))
}

// AdmitAll lets everything in again.
func (c *Conn) AdmitAll() error {
	if !c.use() {
		return ErrClosed
	}
	defer c.done()
	err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
	if err == unix.ENOENT { // an errno as it is
		return nil
	}
	return os.NewSyscallError("setsockopt SO_DETACH_FILTER", err)
}

func admitting(senders []netip.AddrPort) (program []unix.SockFilter) {
	for _, from := range senders {
		at, address := uint32(v6Source), from.Addr().AsSlice()
		if v4 := from.Addr().Unmap(); v4.Is4() {
			at, address = v4Source, v4.AsSlice()
		}
		words := len(address) / 4
		left := 2*words + 1 // instructions of this sender
		if from.Port() != 0 {
			left += 2
		}
		test := func(code uint16, offset, value uint32) {
			left -= 2
			program = append(program, unix.SockFilter{Code: code, K: offset}, unix.SockFilter{Code: bpfIfEqual, Jf: uint8(left), K: value})
		}
		for i := range words {
			test(bpfLoadWord, netOff+at+uint32(4*i), binary.BigEndian.Uint32(address[4*i:]))
		}
		if from.Port() != 0 {
			test(bpfLoadHalf, 0, uint32(from.Port()))
		}
		program = append(program, unix.SockFilter{Code: bpfReturn, K: 1<<32 - 1})
	}
	return append(program, unix.SockFilter{Code: bpfReturn, K: 0})
}
