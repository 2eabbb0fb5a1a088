package memfd

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
)

// probe is a word of this process by which a peer tries whether it can read this
// process's memory, and whether the PID it sees is this process's.
var probe = []uint64{rand.Uint64() | 1}

func hello() message {
	return message{kind: kindHello, length: memory.Addr(probe), value: probe[0], fd: -1}
}

// probeMemory says why the memory of the process that greeted with m cannot be
// read in place, nil if it can.
func probeMemory(c *conn, m message) error {
	if c.pid == 0 {
		return errors.New("it is in another PID namespace")
	}
	var word [1]uint64
	if err := readMemory(c.pid, memory.AsBytes(word[:]), m.length); err != nil {
		return fmt.Errorf("process_vm_readv: %w (kernel.yama.ptrace_scope or a container may forbid it)", err)
	}
	if word[0] != m.value {
		return errors.New("its PID here is another process's")
	}
	return nil
}

// CanReadMemory says whether ReadMemory works; it was tried when the peer was
// dialled. Yama and containers often forbid it.
func (p *Peer) CanReadMemory() bool { return p.why == nil }

// ReadMemory copies the peer's bytes at addr, in whatever memory they lie, into
// dst (process_vm_readv(2)). It needs nothing of the peer: it may be stopped.
// What dst holds after an error is not defined.
func (p *Peer) ReadMemory(dst []byte, addr uint64) error {
	if p.why != nil {
		return fmt.Errorf("read %d bytes of %s: %w", len(dst), p.conn.name(), p.why)
	}
	err := readMemory(p.conn.pid, dst, addr)
	// Only while the connection stands is the PID surely the peer's; numbers are
	// not used again so soon that one could be in the time of a copy.
	if p.Gone() {
		err = p.Err()
	}
	if err != nil {
		return fmt.Errorf("read %d bytes at %#x of %s: %w", len(dst), addr, p.conn.name(), err)
	}
	return nil
}

func readMemory(pid int, dst []byte, addr uint64) error {
	for len(dst) > 0 { // the kernel copies up to 2 GiB at a time, and up to a hole
		local := [1]unix.Iovec{{Base: &dst[0], Len: uint64(len(dst))}}
		remote := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(dst)}}
		n, err := unix.ProcessVMReadv(pid, local[:], remote[:], 0)
		if err != nil {
			return err
		}
		if n == 0 {
			return unix.EFAULT
		}
		dst, addr = dst[n:], addr+uint64(n)
	}
	return nil
}
