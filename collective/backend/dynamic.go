//go:build !nodl

package backend

import (
	"fmt"
	"sync"

	"github.com/ebitengine/purego"

	"ringcli/verbs/memory"
)

// packages are what brings a library.
var packages = map[string]string{
	"libnccl.so.2": "to use NCCL install it (NVIDIA's package libnccl2, or the wheel nvidia-nccl-cu12, whose folder LD_LIBRARY_PATH must name)",
	"librccl.so.1": "to use RCCL install ROCm's package rccl (LD_LIBRARY_PATH must name its folder, such as /opt/rocm/lib, if ldconfig does not know it)",
}

// open loads the library and finds its functions.
func (l *library) open() error {
	handle, err := purego.Dlopen(l.soname, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return fmt.Errorf("%s cannot be loaded (%w): %s", l.soname, err, packages[l.soname])
	}
	for _, s := range l.symbols() {
		if *s.fn, err = purego.Dlsym(handle, s.name); err != nil && !s.optional {
			return fmt.Errorf("%s has no %s (%w): expected NCCL's interface of version 2.4 or later", l.soname, s.name, err)
		}
	}
	return nil
}

// call calls a C function. What its arguments point to is never on a goroutine's stack,
// which may move.
func call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}

// findSetenv finds the C library's setenv.
var findSetenv = sync.OnceValues(func() (uintptr, error) { return purego.Dlsym(purego.RTLD_DEFAULT, "setenv") })

// setenv sets a variable in the environment that the C library's getenv reads: without cgo,
// os.Setenv changes Go's own copy alone.
func setenv(name, value string) error {
	fn, err := findSetenv()
	if err != nil {
		return fmt.Errorf("the C library has no setenv: %w", err)
	}
	text, err := memory.Alloc(uint64(len(name) + len(value) + 2))
	if err != nil {
		return err
	}
	defer func() { _ = text.Free() }()
	copy(text.Bytes(), name+"\x00"+value+"\x00") // copied by setenv
	if r := call(fn, uintptr(text.Addr()), uintptr(text.Addr())+uintptr(len(name)+1), 1); int32(r) != 0 {
		return fmt.Errorf("%s cannot be set to %q: the C library's setenv failed", name, value)
	}
	return nil
}
