//go:build linux

package rack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	bridgeName = "br0"
	prefixLen4 = 24
	prefixLen6 = 64
)

// namespace is a network of its own, in which the virtual machines and the host's
// leg meet on a bridge. It has no name: it lives as long as something is in it, so
// that nothing is left of it when this process is killed, and it needs no name to
// be told from other racks'. It is one thread, which is in the namespace and which
// starts what shall be there: QEMU dies when the thread that has started it does
// (prctl(2), PR_SET_PDEATHSIG), so this one lives until close.
type namespace struct {
	calls chan func()
	tid   int
	net   *os.File // the namespace, for nsenter(1)
}

func newNamespace() (*namespace, error) {
	n := &namespace{calls: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			n.serve(made)
			return
		}
		// The main thread stands for the process, in /proc/self for one, and must
		// stay where it is. While it is locked here, another goroutine is elsewhere.
		begun := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(begun)
			n.serve(made)
		}()
		<-begun
		runtime.UnlockOSThread()
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("no network namespace can be made (this needs root): %w", err)
	}
	return n, nil
}

// serve makes the namespace and runs what do is given. Its goroutine's thread is
// never unlocked, so that it ends with the goroutine: no other must get one that is
// in another network.
func (n *namespace) serve(made chan<- error) {
	n.tid = unix.Gettid()
	err := unix.Unshare(unix.CLONE_NEWNET)
	if err == nil {
		n.net, err = os.Open("/proc/thread-self/ns/net")
	}
	made <- err
	if err != nil {
		return
	}
	for call := range n.calls {
		call()
	}
}

// do calls f on the namespace's thread.
func (n *namespace) do(f func() error) error {
	done := make(chan error)
	n.calls <- func() { done <- f() }
	return <-done
}

// threadDeadline is for a thread with nothing left to do.
const threadDeadline = 10 * time.Second

// close ends the thread, and the namespace when nothing else is in it.
func (n *namespace) close() error {
	close(n.calls)
	ctx, cancel := context.WithTimeoutCause(context.Background(), threadDeadline, fmt.Errorf("the namespace's thread has not ended after %v", threadDeadline))
	defer cancel()
	return errors.Join(n.net.Close(), poll(ctx, func() (bool, error) {
		return errors.Is(unix.Tgkill(unix.Getpid(), n.tid, 0), unix.ESRCH), nil
	}))
}

// path names the namespace to other processes.
func (n *namespace) path() string {
	return filepath.Join("/proc", strconv.Itoa(os.Getpid()), "fd", strconv.Itoa(int(n.net.Fd())))
}

// run runs a program of iproute2 in the namespace.
func (n *namespace) run(stdin, name string, args ...string) error {
	cmd := exec.Command(sbin(name), args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return n.do(func() error {
		out, err := cmd.CombinedOutput()
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("%s is not here: install iproute2", name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
		}
		return nil
	})
}

// makeBridge makes the bridge, and the host's leg on it.
//
// Its MAC address is given: a bridge without one takes the lowest of its ports', and
// another one when a machine is booted again, which the others' ARP tables miss.
func (n *namespace) makeBridge(mtu int) error {
	return n.run(fmt.Sprintf(`link set lo up
link add %[1]s mtu %[2]d address 52:54:00:77:00:fe type bridge mcast_snooping 0
addr add %[3]v/%[4]d dev %[1]s
addr add %[5]v/%[6]d dev %[1]s nodad
link set %[1]s up
`, bridgeName, mtu, HostAddress(), prefixLen4, HostAddress6(), prefixLen6), "ip", "-batch", "-")
}

func (n *namespace) addAddress(p netip.Prefix) error {
	args := []string{"addr", "add", p.String(), "dev", bridgeName}
	if p.Addr().Is6() {
		args = append(args, "nodad")
	}
	return n.run("", "ip", args...)
}

func tapName(k int) string { return "tap" + strconv.Itoa(k) }

// makeTap makes a virtual machine's port of the bridge. It goes when the file and
// its copies are closed, so with its QEMU.
func (n *namespace) makeTap(k, mtu int) (*os.File, error) {
	name := tapName(k)
	var tap *os.File
	err := n.do(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("/dev/net/tun: %w", err)
		}
		tap = os.NewFile(uintptr(fd), name)
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		// VNET_HDR lets checksums and segments stay unfinished between the machines.
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			return fmt.Errorf("making %s: %w", name, err)
		}
		return nil
	})
	if err == nil {
		err = n.run("", "ip", "link", "set", name, "mtu", strconv.Itoa(mtu), "master", bridgeName, "up")
	}
	if err != nil {
		if tap != nil {
			_ = tap.Close()
		}
		return nil, err
	}
	return tap, nil
}

// forward lets the bridge carry a machine's packets, or drop them without a word.
func (n *namespace) forward(k int, on bool) error {
	state := "0" // disabled
	if on {
		state = "3" // forwarding
	}
	return n.run("", "bridge", "link", "set", "dev", tapName(k), "state", state)
}
