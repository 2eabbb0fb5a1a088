package gpu

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"ringcli/verbs"
)

// Stream is a queue of a device's work: what it is given runs in order, after the call has come
// back.
type Stream struct {
	device *Device
	handle uintptr
}

// nonBlocking is CU_STREAM_NON_BLOCKING, hipStreamNonBlocking: no order with the default stream.
const nonBlocking = 1

// NewStream makes a stream.
func (d *Device) NewStream() (*Stream, error) {
	handle, err := d.get(callStream, nonBlocking)
	if err != nil {
		return nil, fmt.Errorf("stream of %s: %w", d.Place, err)
	}
	return &Stream{device: d, handle: uintptr(handle)}, nil
}

// Close gives the stream back once what it holds is done. Closing twice is harmless.
func (s *Stream) Close() error {
	if s == nil || s.handle == 0 {
		return nil
	}
	handle := s.handle
	s.handle = 0
	return s.device.on(callStreamDestroy, handle)
}

// copyOf is what the three copies have in common. Addresses are of the host or of a device.
func (s *Stream) copyOf(c call, dst, src uint64, n int) error {
	if n == 0 {
		return nil
	}
	if err := s.device.on(c, uintptr(dst), uintptr(src), uintptr(n), s.handle); err != nil {
		return fmt.Errorf("copy %d bytes from %#x to %#x on %s: %w", n, src, dst, s.device.Place, err)
	}
	return nil
}

// ToDevice copies n bytes of the host's to a device; what is not pinned may be read before the
// call comes back.
func (s *Stream) ToDevice(dst, src uint64, n int) error { return s.copyOf(callToDevice, dst, src, n) }

// FromDevice copies n bytes of a device's to the host.
func (s *Stream) FromDevice(dst, src uint64, n int) error {
	return s.copyOf(callFromDevice, dst, src, n)
}

// OnDevice copies n bytes of devices' memory.
func (s *Stream) OnDevice(dst, src uint64, n int) error { return s.copyOf(callOnDevice, dst, src, n) }

// Fill sets n bytes of the device's.
func (s *Stream) Fill(dst uint64, value byte, n int) error {
	if n == 0 {
		return nil
	}
	return s.device.on(callFill, uintptr(dst), uintptr(value), uintptr(n), s.handle)
}

// Done tells whether all that it was given has run. The error is that of any of it.
func (s *Stream) Done() (bool, error) {
	err := s.device.on(callStreamQuery, s.handle)
	if is(err, codeNotReady) {
		return false, nil
	}
	return true, err
}

// How Wait waits: spin, then give other goroutines the processor, then sleep for as long as a
// launch takes.
const (
	spins  = 64
	yields = 1024
	nap    = 50 * time.Microsecond
)

// Wait waits until all has run, or for the context.
func (s *Stream) Wait(ctx context.Context) error { return s.wait(ctx, 0) }

// wait is Wait, for a limit if that is above zero.
func (s *Stream) wait(ctx context.Context, limit time.Duration) error {
	begun := time.Now()
	for i := 0; ; i++ {
		if done, err := s.Done(); done {
			return err
		}
		switch {
		case i < spins:
		case ctx.Err() != nil:
			return fmt.Errorf("awaited work on %s: %w", s.device.Place, context.Cause(ctx))
		case limit > 0 && time.Since(begun) > limit:
			return fmt.Errorf("awaited work on %s: %w after %s, and no part of it is known to be done", s.device.Place, verbs.ErrTimeout, limit)
		case i < yields:
			runtime.Gosched()
		default:
			time.Sleep(nap)
		}
	}
}
