//go:build !nodl

package buffers

import (
	"fmt"
	"sync"

	"github.com/ebitengine/purego"

	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
)

// libc is the C library's aligned_alloc and free.
var libc = sync.OnceValues(func() (l struct{ alloc, free uintptr }, err error) {
	handle, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err == nil {
		l.alloc, err = purego.Dlsym(handle, "aligned_alloc")
	}
	if err == nil {
		l.free, err = purego.Dlsym(handle, "free")
	}
	if err != nil {
		err = fmt.Errorf("the C library cannot be loaded: %w: expected glibc", err)
	}
	return l, err
})

// alignedAlloc has the C library allocate whole pages.
func alignedAlloc(n uint64) (addr uint64, free func() error, err error) {
	l, err := libc()
	if err != nil {
		return 0, nil, err
	}
	size, _ := memory.RoundUp(n)
	got, _, _ := purego.SyscallN(l.alloc, uintptr(unix.Getpagesize()), uintptr(size))
	if got == 0 {
		return 0, nil, fmt.Errorf("aligned_alloc: %w: use a smaller size", unix.ENOMEM)
	}
	return uint64(got), func() error {
		_, _, _ = purego.SyscallN(l.free, got)
		return nil
	}, nil
}
