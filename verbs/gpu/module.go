package gpu

import (
	"fmt"

	"ringcli/verbs/memory"
)

// Module is code on a device.
type Module struct {
	device *Device
	handle uintptr
}

// Function is a kernel of a module's.
type Function struct {
	Name   string
	device *Device
	handle uintptr
}

// What CUDA's compiler of PTX says goes where these options tell (CUjit_option).
const (
	errorLog     = 5 // CU_JIT_ERROR_LOG_BUFFER
	errorLogSize = 6 // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
	logRoom      = 2048
)

// Module loads code: for CUDA a text in PTX, or a cubin; for HIP a code object, such as Compile
// makes.
func (d *Device) Module(image []byte) (*Module, error) {
	code, err := memory.Alloc(uint64(len(image)) + 1) // a text ends with zero
	if err != nil {
		return nil, err
	}
	defer func() { _ = code.Free() }()
	copy(code.Bytes(), image)
	r := d.runtime
	f := r.frame()
	defer r.release(f)
	args := []uintptr{f.at(0), uintptr(code.Addr()), 0, 0, 0}
	log := f.at(frameSize - logRoom)
	memory.Bytes(uint64(log), 1)[0] = 0
	if d.Place.Kind == CUDA {
		copy(f.int32s(64, 2), []int32{errorLog, errorLogSize})
		copy(f.words(128, 2), []uint64{uint64(log), logRoom})
		args = []uintptr{f.at(0), uintptr(code.Addr()), 2, f.at(64), f.at(128)}
	}
	if err := d.on(callModule, args...); err != nil {
		if said := cString(uint64(log)); said != "" {
			return nil, fmt.Errorf("load code on %s (%s): %w: %s", d.Place, d.Arch, err, said)
		}
		return nil, fmt.Errorf("load code on %s (%s): %w", d.Place, d.Arch, err)
	}
	return &Module{device: d, handle: uintptr(f.words(0, 1)[0])}, nil
}

// Function finds a kernel by its name.
func (m *Module) Function(name string) (*Function, error) {
	r := m.device.runtime
	f := r.frame()
	defer r.release(f)
	if len(name) >= nameSize {
		return nil, fmt.Errorf("kernel of %d letters: expected fewer than %d", len(name), nameSize)
	}
	b := f.Bytes()[64:]
	b[copy(b, name)] = 0
	if err := m.device.on(callFunction, f.at(0), m.handle, f.at(64)); err != nil {
		return nil, fmt.Errorf("kernel %s on %s: %w", name, m.device.Place, err)
	}
	return &Function{Name: name, device: m.device, handle: uintptr(f.words(0, 1)[0])}, nil
}

// Close takes the code from the device: nothing of it may run.
func (m *Module) Close() error {
	if m == nil || m.handle == 0 {
		return nil
	}
	handle := m.handle
	m.handle = 0
	return m.device.on(callUnload, handle)
}

// maxArguments is how many arguments of a kernel a frame has room for.
const maxArguments = 64

// Launch runs a kernel on grid blocks of block threads each, in one dimension. Arguments are the
// bits of addresses, integers and floats, from the lowest on. They are copied.
func (s *Stream) Launch(kernel *Function, grid, block int, args ...uint64) error {
	if len(args) > maxArguments {
		return fmt.Errorf("kernel %s: %d arguments: expected at most %d", kernel.Name, len(args), maxArguments)
	}
	r := s.device.runtime
	f := r.frame()
	defer r.release(f)
	pointers, values := f.words(0, len(args)), f.words(8*maxArguments, len(args))
	for i, a := range args {
		values[i] = a
		pointers[i] = uint64(f.at(8*maxArguments + 8*i))
	}
	if err := s.device.on(callLaunch, kernel.handle, uintptr(grid), 1, 1, uintptr(block), 1, 1, 0, s.handle, f.at(0), 0); err != nil {
		return fmt.Errorf("kernel %s on %s, %d blocks of %d threads: %w", kernel.Name, s.device.Place, grid, block, err)
	}
	return nil
}
