package gpu

import (
	"errors"
	"runtime"
)

// More codes that both runtimes have.
const (
	codeNotReady       = 600
	codeAlreadyEnabled = 704
)

// is tells whether a runtime's answer was this code.
func is(err error, code int) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// current makes the device the calling thread's, which is locked.
func (d *Device) current() error {
	context, err := d.retain()
	if err != nil {
		return err
	}
	return d.runtime.do(callCurrent, context)
}

// on calls a function on a device's behalf, current on this thread.
func (d *Device) on(c call, args ...uintptr) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.current(); err != nil {
		return err
	}
	return d.runtime.do(c, args...)
}

// get calls a function whose first argument is where it puts a word.
func (d *Device) get(c call, args ...uintptr) (uint64, error) {
	f := d.runtime.frame()
	defer d.runtime.release(f)
	if err := d.on(c, append([]uintptr{f.at(0)}, args...)...); err != nil {
		return 0, err
	}
	return f.words(0, 1)[0], nil
}

// Use calls a function on a thread on which the device is current, for other libraries' sake.
func (d *Device) Use(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.current(); err != nil {
		return err
	}
	return f()
}

// Raw is the runtime's own stream (CUstream, hipStream_t), for other libraries.
func (s *Stream) Raw() uintptr { return s.handle }
