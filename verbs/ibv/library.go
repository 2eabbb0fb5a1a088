//go:build !nodl

package ibv

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"

	"github.com/ebitengine/purego"

	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// soname is the library's name for the dynamic linker, unchanged since 2007.
const soname = "libibverbs.so.1"

// library is libibverbs: the addresses of its functions. Those that poll and post
// are not here but in each context (cOps).
type library struct {
	getDeviceList, freeDeviceList                uintptr
	openDevice, closeDevice                      uintptr
	queryDevice, queryPort, queryGID, queryGIDEx uintptr
	allocPD, deallocPD                           uintptr
	regMR, deregMR, regDMABufMR                  uintptr
	createCompChannel, destroyCompChannel        uintptr
	createCQ, destroyCQ, getCQEvent, ackCQEvents uintptr
	createQP, modifyQP, queryQP, destroyQP       uintptr
	getAsyncEvent, ackAsyncEvent, errnoLocation  uintptr
}

// load opens the library once in a process. It stays loaded: its drivers may
// have started threads of their own.
var load = sync.OnceValues(func() (*library, error) { return open(soname) })

// open loads a library of this name and finds its functions.
func open(name string) (*library, error) {
	handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be loaded (%w): to use RDMA devices install rdma-core's library and drivers (Debian, Ubuntu: libibverbs1 ibverbs-providers; Fedora, SUSE: libibverbs)", name, err)
	}
	dlvsym, err := purego.Dlsym(purego.RTLD_DEFAULT, "dlvsym")
	if err != nil {
		return nil, fmt.Errorf("%s: the C library has no dlvsym: %w; expected glibc", name, err)
	}
	names, err := memory.Alloc(256)
	if err != nil {
		return nil, err
	}
	defer func() { _ = names.Free() }()
	l := &library{}
	for _, s := range []struct {
		fn            *uintptr
		name, version string
		optional      bool
	}{
		{&l.getDeviceList, "ibv_get_device_list", "IBVERBS_1.1", false},
		{&l.freeDeviceList, "ibv_free_device_list", "IBVERBS_1.1", false},
		{&l.openDevice, "ibv_open_device", "IBVERBS_1.1", false},
		{&l.closeDevice, "ibv_close_device", "IBVERBS_1.1", false},
		{&l.queryDevice, "ibv_query_device", "IBVERBS_1.1", false},
		{&l.queryPort, "ibv_query_port", "IBVERBS_1.1", false},
		{&l.queryGID, "ibv_query_gid", "IBVERBS_1.1", false},
		{&l.queryGIDEx, "_ibv_query_gid_ex", "IBVERBS_1.11", true},
		{&l.allocPD, "ibv_alloc_pd", "IBVERBS_1.1", false},
		{&l.deallocPD, "ibv_dealloc_pd", "IBVERBS_1.1", false},
		{&l.regMR, "ibv_reg_mr", "IBVERBS_1.1", false},
		{&l.regDMABufMR, "ibv_reg_dmabuf_mr", "IBVERBS_1.12", true},
		{&l.deregMR, "ibv_dereg_mr", "IBVERBS_1.1", false},
		{&l.createCompChannel, "ibv_create_comp_channel", "IBVERBS_1.0", false},
		{&l.destroyCompChannel, "ibv_destroy_comp_channel", "IBVERBS_1.0", false},
		{&l.createCQ, "ibv_create_cq", "IBVERBS_1.1", false},
		{&l.destroyCQ, "ibv_destroy_cq", "IBVERBS_1.1", false},
		{&l.getCQEvent, "ibv_get_cq_event", "IBVERBS_1.1", false},
		{&l.ackCQEvents, "ibv_ack_cq_events", "IBVERBS_1.1", false},
		{&l.createQP, "ibv_create_qp", "IBVERBS_1.1", false},
		{&l.modifyQP, "ibv_modify_qp", "IBVERBS_1.1", false},
		{&l.queryQP, "ibv_query_qp", "IBVERBS_1.1", false},
		{&l.destroyQP, "ibv_destroy_qp", "IBVERBS_1.1", false},
		{&l.getAsyncEvent, "ibv_get_async_event", "IBVERBS_1.1", false},
		{&l.ackAsyncEvent, "ibv_ack_async_event", "IBVERBS_1.1", false},
	} {
		// Most of these exist twice, with the structs of IBVERBS_1.0 and of 1.1.
		*s.fn = call(dlvsym, handle, cstring(names.Bytes()[:128], s.name), cstring(names.Bytes()[128:], s.version))
		if *s.fn == 0 && !s.optional {
			return nil, fmt.Errorf("%s has no %s of version %s: expected the library of rdma-core (Debian: libibverbs1), not an older one", name, s.name, s.version)
		}
	}
	if l.errnoLocation, err = purego.Dlsym(purego.RTLD_DEFAULT, "__errno_location"); err != nil {
		return nil, fmt.Errorf("%s: the C library has no __errno_location: %w; expected glibc", name, err)
	}
	return l, nil
}

// call calls a C function. Its arguments are allocated: it is for the control
// path. What they point to is never on a goroutine's stack, which may move.
func call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}

// errno calls a C function that sets errno when it fails, and returns that, too.
// purego does not save errno on Linux; it belongs to the thread.
func (l *library) errno(fn uintptr, args ...uintptr) (uintptr, syscall.Errno) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	location := at[int32](call(l.errnoLocation))
	*location = 0
	r := call(fn, args...)
	return r, syscall.Errno(*location)
}

// result makes an error of what a function returns that reports errno itself.
// Some drivers negate it.
func result(r uintptr) syscall.Errno {
	n := int32(r)
	if n < 0 {
		n = -n
	}
	return syscall.Errno(n)
}

// destroyed makes an error of what closing an object returns. EIO is none: the
// device is gone, and the object with it (Linux drivers/infiniband/core/uverbs_main.c
// answers everything so once the device is disassociated).
func destroyed(r uintptr) syscall.Errno {
	if e := result(r); e != syscall.EIO {
		return e
	}
	return 0
}

// sentinel is the error of package verbs that an errno stands for.
func sentinel(e syscall.Errno) error {
	switch e {
	case syscall.ENOMEM, syscall.ENOSPC, syscall.EAGAIN:
		return verbs.ErrNoMemory
	case syscall.EBUSY:
		return verbs.ErrBusy
	case syscall.ENODEV, syscall.ENXIO, syscall.ENOENT:
		return verbs.ErrNoDevice
	case syscall.ETIMEDOUT:
		return verbs.ErrTimeout
	}
	return verbs.ErrInvalid
}

// failed is the error of a C function: what was tried, and what came back.
func failed(e syscall.Errno, format string, args ...any) error {
	if e == 0 {
		return fmt.Errorf("%s: the library gives no reason", fmt.Sprintf(format, args...))
	}
	return fmt.Errorf("%s: %w: %w", fmt.Sprintf(format, args...), sentinel(e), e)
}

// at views C memory as a T.
func at[T any](p uintptr) *T { return &memory.Slice[T](uint64(p), 1)[0] }

// cstring writes a string of C and returns its address.
func cstring(b []byte, s string) uintptr {
	b[copy(b, s)] = 0
	return uintptr(memory.Addr(b))
}
