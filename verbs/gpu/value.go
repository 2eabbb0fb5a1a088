package gpu

import "fmt"

// Values order the work of streams that belong to different processes or devices: a stream writes
// one where another waits for it, with neither host between. (cuStreamWriteValue32,
// cuStreamWaitValue32; both are the driver's since CUDA 11.7, and HIP's.)

// Write sets a word of 32 bits of a device's once all that the stream was given has run, and been
// seen by whoever sees the word.
func (s *Stream) Write(addr uint64, value uint32) error {
	if err := s.device.on(callWriteValue, s.handle, uintptr(addr), uintptr(value), 0); err != nil {
		return fmt.Errorf("write a value at %#x on %s: %w", addr, s.device.Place, err)
	}
	return nil
}

// Await lets what the stream is given next wait until a word of 32 bits is value or more. It has
// no deadline: who gives up writes the word.
func (s *Stream) Await(addr uint64, value uint32) error {
	const atLeast, mask = 0, 0xffffffff // CU_STREAM_WAIT_VALUE_GEQ, hipStreamWaitValueGte; CUDA has no mask
	if err := s.device.on(callWaitValue, s.handle, uintptr(addr), uintptr(value), atLeast, mask); err != nil {
		return fmt.Errorf("await a value at %#x on %s: %w", addr, s.device.Place, err)
	}
	return nil
}

// Pin keeps n bytes of the host's at an address in memory and lets all devices reach them, as
// AllocPinned's are, until Unpin.
func (d *Device) Pin(addr uint64, n int) error {
	if err := d.on(callHostRegister, uintptr(addr), uintptr(n), pinnedFlags); err != nil {
		return fmt.Errorf("pin %d bytes of host memory for %s: %w", n, d.Place, err)
	}
	return nil
}

// Unpin undoes Pin: no copy may be under way.
func (d *Device) Unpin(addr uint64) error { return d.on(callHostUnregister, uintptr(addr)) }
