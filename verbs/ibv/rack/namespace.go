//go:build linux

package rack

import (
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
	net   *os.File // the namespace, for nsenter(1)
}

func newNamespace() (*namespace, error) {
	n := &namespace{calls: make(chan func())}
	made := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine, since no other must
		// get one that is in another network.
		runtime.LockOSThread()
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
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("no network namespace can be made (this needs root): %w", err)
	}
	return n, nil
}

// do calls f on the namespace's thread.
func (n *namespace) do(f func() error) error {
	done := make(chan error)
	n.calls <- func() { done <- f() }
	return <-done
}

// close ends the thread, and the namespace when nothing else is in it.
func (n *namespace) close() error {
	close(n.calls)
	return n.net.Close()
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
func (n *namespace) makeBridge(mtu int) error {
	return n.run(fmt.Sprintf(`link set lo up
link add %[1]s mtu %[2]d type bridge mcast_snooping 0
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
