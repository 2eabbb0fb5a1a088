package gpu

import (
	"fmt"
	"strings"
	"sync"
)

// Device is a GPU.
type Device struct {
	Place  Place
	Name   string // as its vendor has it
	Memory uint64 // bytes
	PCI    string // such as 0000:3b:00.0
	UUID   string // "" where the runtime does not tell
	// Arch is what code is compiled for, such as sm_90; "" if not known.
	Arch string

	runtime *Runtime
	handle  uintptr // the runtime's: a number
	// retain makes the device's context at its first use, which is kept, and returns what callCurrent
	// takes: CUDA's primary context, HIP's device.
	retain func() (uintptr, error)
}

// The attributes of a device that are asked for (CUdevice_attribute).
const (
	attributeMajor = 75 // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
	attributeMinor = 76 // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
)

// nameSize is room for a name with its zero.
const nameSize = 256

// device asks for all that is told of a device.
func (r *Runtime) device(i int) (*Device, error) {
	f := r.frame()
	defer r.release(f)
	if err := r.do(callDevice, f.at(0), uintptr(i)); err != nil {
		return nil, err
	}
	d := &Device{Place: Place{Kind: r.kind, Index: i}, runtime: r, handle: uintptr(f.int32s(0, 1)[0])}
	d.retain = sync.OnceValues(func() (uintptr, error) {
		defer keepHandlers(d.Place.String())() // a context starts threads and more, as the runtime does
		if r.kind == HIP {
			err := r.do(callCurrent, d.handle)
			if err == nil {
				_ = r.do(callFree, 0) // HIP makes a context when something asks for one, as this does
			}
			return d.handle, err
		}
		f := r.frame()
		defer r.release(f)
		err := r.do(callRetain, f.at(0), d.handle)
		return uintptr(f.words(0, 1)[0]), err
	})
	if err := r.do(callName, f.at(0), nameSize, d.handle); err != nil {
		return nil, err
	}
	d.Name = cString(f.Addr())
	if err := r.do(callTotal, f.at(0), d.handle); err != nil {
		return nil, err
	}
	d.Memory = f.words(0, 1)[0]
	if err := r.do(callPCI, f.at(0), nameSize, d.handle); err != nil {
		return nil, err
	}
	d.PCI = strings.ToLower(cString(f.Addr()))
	if r.do(callUUID, f.at(0), d.handle) == nil {
		b := f.Bytes()[:16]
		d.UUID = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	d.Arch = d.arch(f)
	return d, nil
}

// arch is of CUDA's compute capability. HIP's structs differ by version; the kernel tells it.
func (d *Device) arch(f frame) string {
	if d.Place.Kind == HIP {
		return gfx(system, d.PCI)
	}
	r := d.runtime
	if r.do(callAttribute, f.at(0), attributeMajor, d.handle) != nil || r.do(callAttribute, f.at(4), attributeMinor, d.handle) != nil {
		return ""
	}
	return fmt.Sprintf("sm_%d%d", f.int32s(0, 1)[0], f.int32s(4, 1)[0])
}
