package kernel

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// What is looked up on each beat costs no memory for each socket of the host: strangers open many.
func TestSocketsInLittleMemory(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	const callers = 200
	for range callers {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	port := netip.MustParseAddrPort(listener.Addr().String()).Port()
	found := 0
	if allocs := testing.AllocsPerRun(5, func() { found = len(Sockets(Listen, port)) }); allocs > callers || found != 1 {
		t.Errorf("%.0f allocations and %d listeners found beside %d connections, expected at most one allocation for each, and one listener", allocs, found, callers)
	}
}

// A process at work is runnable, whether it has a CPU or not; one that sleeps is not.
func TestRunnable(t *testing.T) {
	runtime.LockOSThread() // on another thread, each could be asleep at the moment that it is read
	defer runtime.UnlockOSThread()
	if !Runnable(os.Getpid()) {
		t.Error("this process reads it, and is not runnable")
	}
	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait() // killed
	}()
	for begun := time.Now(); Runnable(sleeper.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("a process that sleeps is runnable")
		}
	}
}
