package gpu

import (
	"fmt"
	"runtime"
)

// Handle names an allocation for other processes of this host (CUipcMemHandle, hipIpcMemHandle_t).
type Handle [64]byte

// Handle names the allocation in which the memory lies, which must stay until those who opened it
// have let go.
func (m *Memory) Handle() (h Handle, _ error) {
	r := m.device.runtime
	f := r.frame()
	defer r.release(f)
	if err := m.device.on(callIPCHandle, f.at(0), uintptr(m.addr)); err != nil {
		return h, fmt.Errorf("share %d bytes of %s: %w", m.n, m.device.Place, err)
	}
	copy(h[:], f.Bytes())
	return h, nil
}

// ipcPeerAccess is CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, and hipIpcMemLazyEnablePeerAccess of HIP 6, which
// refuses another one. It was 0 before.
const ipcPeerAccess = 1

// OpenHandle maps another process's allocation of n bytes, of this device or of one that it can
// access. Free lets go of it. A process cannot open what is its own.
func (d *Device) OpenHandle(h Handle, n int) (*Memory, error) {
	r := d.runtime
	f := r.frame()
	defer r.release(f)
	copy(f.Bytes()[64:], h[:])
	// A struct of 64 bytes by value: amd64 has it on the stack behind the registers of the others
	// (System V ABI, class MEMORY), arm64 a copy and its address (AAPCS64, B.4).
	open := func(flags uintptr) error {
		args := []uintptr{f.at(0), f.at(64), flags}
		if runtime.GOARCH == "amd64" {
			args = []uintptr{f.at(0), flags, 0, 0, 0, 0}
			for _, word := range f.words(64, 8) {
				args = append(args, uintptr(word))
			}
		}
		return d.on(callIPCOpen, args...)
	}
	err := open(ipcPeerAccess)
	if d.Place.Kind == HIP && is(err, codeInvalid) {
		err = open(0)
	}
	if err != nil {
		return nil, fmt.Errorf("open %d bytes of another process on %s: %w", n, d.Place, err)
	}
	return &Memory{device: d, addr: f.words(0, 1)[0], n: n, opened: true}, nil
}

// Allocation is where the allocation begins in which an address of the device's lies, and its
// bytes: what a Handle of existing memory is of.
func (d *Device) Allocation(addr uint64) (start uint64, n int, err error) {
	r := d.runtime
	f := r.frame()
	defer r.release(f)
	if err := d.on(callRange, f.at(0), f.at(8), uintptr(addr)); err != nil {
		return 0, 0, fmt.Errorf("memory at %#x of %s: %w", addr, d.Place, err)
	}
	return f.words(0, 1)[0], int(f.words(8, 1)[0]), nil
}

// View is existing memory of a device, which stays its owner's.
func (d *Device) View(addr uint64, n int) *Memory { return &Memory{device: d, addr: addr, n: n} }

// Device is whose it is, or who has opened it.
func (m *Memory) Device() *Device { return m.device }
