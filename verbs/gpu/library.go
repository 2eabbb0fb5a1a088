//go:build !nodl

package gpu

import (
	"github.com/ebitengine/purego"
)

// library is a shared library. It stays loaded: it has started threads of its own.
type library struct{ handle uintptr }

// openLibrary loads a library. Other libraries look for its functions (NCCL takes libcuda's), so
// that they are for all to find.
func openLibrary(name string) (*library, error) {
	handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, err
	}
	return &library{handle}, nil
}

// find is where a function is, 0 if the library has none of that name.
func (l *library) find(name string) uintptr {
	fn, err := purego.Dlsym(l.handle, name)
	if err != nil {
		return 0
	}
	return fn
}

// invoke calls a C function. What its arguments point to is never on a goroutine's stack, which
// may move.
func invoke(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
