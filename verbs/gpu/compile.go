package gpu

import (
	"bytes"
	"fmt"

	"ringcli/verbs/memory"
)

// compilers are libhiprtc's names, the newest first. Before version 5 of ROCm its functions were
// the runtime's own.
var compilers = []string{"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so", "/opt/rocm/lib/libhiprtc.so"}

// compiler is hiprtc: the addresses of its functions.
type compiler struct {
	create, compile, codeSize, code, logSize, log, destroy, describe uintptr
}

func (r *Runtime) compiler() (*compiler, error) {
	var why error // of the first that will not do, a library that is there before those that are not
	for _, name := range compilers {
		l, err := openLibrary(name)
		if err == nil {
			c, lacks := functionsOf(l)
			if lacks == "" {
				return c, nil
			}
			why = fmt.Errorf("%s has no %s", name, lacks)
			break
		}
		if why == nil {
			why = err
		}
	}
	if c, lacks := functionsOf(r.library); lacks == "" {
		return c, nil
	}
	return nil, unavailable(HIP, "libhiprtc, which compiles code for AMD's GPUs, cannot be used (%s): ROCm brings it (Debian, Ubuntu: libhiprtc-builtins5 and libamdhip64-5, or AMD's hiprtc)", oneLine(why))
}

// functionsOf finds hiprtc's functions in a library, or the first that it lacks.
func functionsOf(l *library) (c *compiler, lacks string) {
	c = &compiler{}
	for _, f := range []struct {
		name string
		at   *uintptr
	}{
		{"hiprtcCreateProgram", &c.create}, {"hiprtcCompileProgram", &c.compile}, {"hiprtcGetCodeSize", &c.codeSize}, {"hiprtcGetCode", &c.code},
		{"hiprtcGetProgramLogSize", &c.logSize}, {"hiprtcGetProgramLog", &c.log}, {"hiprtcDestroyProgram", &c.destroy}, {"hiprtcGetErrorString", &c.describe},
	} {
		if *f.at = l.find(f.name); *f.at == 0 {
			return nil, f.name
		}
	}
	return c, ""
}

// Compile makes a code object of a source in HIP for the device (hiprtc), for Module. CUDA's
// driver compiles PTX itself.
func (d *Device) Compile(name, source string) ([]byte, error) {
	runtime := d.runtime
	c, err := runtime.compiler()
	if err != nil {
		return nil, err
	}
	text, err := memory.Alloc(uint64(len(source) + len(name) + 2))
	if err != nil {
		return nil, err
	}
	defer func() { _ = text.Free() }()
	b := text.Bytes()
	copy(b, source)
	copy(b[len(source)+1:], name)
	f := runtime.frame()
	defer runtime.release(f)
	said := func(code uintptr) string { return cString(uint64(invoke(c.describe, code))) }
	if code := invoke(c.create, f.at(0), uintptr(text.Addr()), uintptr(text.Addr())+uintptr(len(source)+1), 0, 0, 0); int32(code) != 0 {
		return nil, fmt.Errorf("compile %s: hiprtcCreateProgram: %s", name, said(code))
	}
	program := uintptr(f.words(0, 1)[0])
	defer func() {
		f.words(0, 1)[0] = uint64(program)
		invoke(c.destroy, f.at(0))
	}()
	arguments := []uintptr{program, 0, 0}
	if d.Arch != "" {
		o := f.Bytes()[64:]
		o[copy(o, "--offload-arch="+d.Arch)] = 0
		f.words(8, 1)[0] = uint64(f.at(64))
		arguments = []uintptr{program, 1, f.at(8)}
	}
	if code := invoke(c.compile, arguments...); int32(code) != 0 {
		return nil, fmt.Errorf("compile %s for %s (%s): hiprtcCompileProgram: %s: %s", name, d.Place, d.Arch, said(code), bytes.Trim(result(f, c.logSize, c.log, program), "\x00\n "))
	}
	object := result(f, c.codeSize, c.code, program)
	if len(object) == 0 {
		return nil, fmt.Errorf("compile %s for %s: hiprtc made no code", name, d.Place)
	}
	return object, nil
}

// result is what a program has: as many bytes as one function tells, which another one writes.
func result(f frame, size, get, program uintptr) []byte {
	if int32(invoke(size, program, f.at(0))) != 0 {
		return nil
	}
	n := f.words(0, 1)[0]
	b, err := memory.Alloc(n)
	if err != nil {
		return nil
	}
	defer func() { _ = b.Free() }()
	if int32(invoke(get, program, uintptr(b.Addr()))) != 0 {
		return nil
	}
	return bytes.Clone(b.Bytes()[:n])
}
