package racktest

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() { helpers["deafen"] = deafen }

// One packet in deafness is dropped.
const deafness = 100

// Of include/uapi/linux/bpf.h.
const (
	getRandom = 7 // BPF_FUNC_get_prandom_u32
	xdpDrop   = 1
	xdpPass   = 2
)

// deafen drops some of the packets that a network interface receives until it is killed. It is
// what tc's netem on the other side would do; but the host's kernel may lack that.
func deafen(args []string) error {
	dev, err := net.InterfaceByName(args[0])
	if err != nil {
		return err
	}
	// An XDP program (Documentation/bpf/standardization/instruction-set.rst).
	type instruction struct {
		code      uint8
		_         uint8 // the registers: R0 throughout
		offset    int16
		immediate int32
	}
	program := []instruction{
		{code: unix.BPF_JMP | unix.BPF_CALL, immediate: getRandom},
		{code: unix.BPF_ALU | unix.BPF_AND, immediate: 1<<16 - 1},
		{code: unix.BPF_JMP | unix.BPF_JGE, offset: 2, immediate: (1 << 16) / deafness},
		{code: unix.BPF_ALU64 | unix.BPF_MOV, immediate: xdpDrop},
		{code: unix.BPF_JMP | unix.BPF_EXIT},
		{code: unix.BPF_ALU64 | unix.BPF_MOV, immediate: xdpPass},
		{code: unix.BPF_JMP | unix.BPF_EXIT},
	}
	license := []byte("GPL\x00")
	var pinned runtime.Pinner
	defer pinned.Unpin()
	address := func(p any) uint64 {
		pinned.Pin(p)
		return uint64(reflect.ValueOf(p).Pointer())
	}
	// The first members of union bpf_attr (bpf(2)).
	load := struct {
		kind, count    uint32
		insns, license uint64
		rest           [96]byte
	}{kind: unix.BPF_PROG_TYPE_XDP, count: uint32(len(program)), insns: address(&program[0]), license: address(&license[0])}
	fd, err := bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&load), unsafe.Sizeof(load))
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	// The link ends with its descriptor, and so with this process.
	attach := struct {
		program, device, kind, flags uint32
		rest                         [96]byte
	}{uint32(fd), uint32(dev.Index), unix.BPF_XDP, unix.XDP_FLAGS_SKB_MODE, [96]byte{}}
	if _, err := bpf(unix.BPF_LINK_CREATE, unsafe.Pointer(&attach), unsafe.Sizeof(attach)); err != nil {
		return fmt.Errorf("attach to %s: %w", dev.Name, err)
	}
	fmt.Println("dropping")
	time.Sleep(10 * deadline)
	return errors.New("nobody has killed this")
}

func bpf(command uintptr, attr unsafe.Pointer, size uintptr) (fd uintptr, err error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attr), size)
	if errno != 0 {
		return 0, errno
	}
	return fd, nil
}
