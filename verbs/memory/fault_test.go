package memory_test

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
)

// errNowhere is of a fault without an address, as qemu-aarch64 reports a SIGBUS: Go takes it
// for a nil pointer.
var errNowhere = errors.New("a fault at no address")

// guarded runs f, and returns what it panics with as an error.
func guarded(f func()) (err error) {
	defer memory.Guard()()
	defer func() {
		r := recover()
		_, placed := r.(interface{ Addr() uintptr })
		if _, is := r.(runtime.Error); is && !placed && runtime.GOARCH == "arm64" {
			err = errNowhere
			return
		}
		err = memory.Fault(r)
	}()
	f()
	return nil
}

// TestGuard: memory beyond the end of a file that was made shorter is an error and not the
// end of the process; what else panics goes on.
func TestGuard(t *testing.T) {
	size, _ := memory.RoundUp(1)
	fd := memfd(t, 2*size)
	b := mapFile(t, fd, 2*size, true)
	touch := func() { b.Bytes()[size] = 1 }
	if err := guarded(touch); err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		t.Fatal(err)
	}
	if err := guarded(touch); errors.Is(err, errNowhere) {
		t.Skip("the emulator of this CPU tells a SIGBUS no address")
	}
	var fault *memory.FaultError
	if err := guarded(touch); !errors.As(err, &fault) || fault.Addr != b.Addr()+size {
		t.Errorf("%v, want a fault at %#x", err, b.Addr()+size)
	}
	defer func() {
		if recover() == nil {
			t.Error("a panic that is no fault was swallowed")
		}
	}()
	_ = guarded(func() { panic("another") })
}
