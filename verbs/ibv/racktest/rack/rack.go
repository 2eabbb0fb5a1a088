//go:build linux

// Package rack boots small virtual machines whose Linux has a real kernel RDMA
// device, rdma_rxe (Soft-RoCE), and runs commands in them: real verbs on a machine
// without RDMA hardware, whose own kernel need not know RDMA and is left alone.
//
// A machine's root is the host's, read-only, under a layer in memory: every program
// and library of the host is there. Its eth0 is 10.77.0.K and fd77::K, and rxe0 is on
// top of it. The machines and the host's leg, 10.77.0.254 and fd77::fe, meet on a
// bridge in a network namespace without a name. KVM is used where the processor has
// it, else TCG, QEMU's emulation: then results are right, and no measure of speed.
//
// The kernel is Debian's own, downloaded once into the user's cache directory and
// not installed. Needs root, QEMU, iproute2, kmod, xz, util-linux, and the go command
// in PATH with this module as its working directory.
package rack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MaxNodes is how many machines a rack may have: their memory, and two digits of
// a MAC address, are the limit, not the addresses.
const MaxNodes = 16

// ErrDown is that a machine does not run: killed, ended, or the rack is down.
var ErrDown = errors.New("the virtual machine is down")

// Options say what Up boots. The zero value is one machine as an Ethernet host has it.
type Options struct {
	Nodes     int       // machines, numbered from 1; 0: 1
	CPUs      int       // of each; 0: 1. One CPU and two programs that poll: a scheduler's tick for each turn.
	MTU       int       // bytes, of eth0; 0: 1500, which gives rxe0 an active MTU of 1024; 9000 gives 4096
	MemoryMiB int       // of each; 0: 320
	Shares    []string  // directories of the host that the machines may write, at the same paths
	Plain     []int     // machines without the modules of RDMA, so without rxe0 and with UDP port 4791 free
	Log       io.Writer // what takes long is told here; nil: nowhere
}

// Rack is a rack that is up. Its methods may be called from several goroutines.
type Rack struct {
	options     Options
	kernel      kernel
	accelerator string
	dir         string // initramfs, consoles, QEMU's messages
	lock        *os.File
	namespace   *namespace

	mu       sync.Mutex // guards the rest; not held while a machine boots
	machines map[int]*machine
	impaired map[int]bool
	down     bool
}

// The deadlines are for a machine that does many other things meanwhile.
const (
	kernelDeadline = 10 * time.Minute // a download of 70 MB
	bootDeadline   = 3 * time.Minute
	nodeDeadline   = 30 * time.Second // for a command of our own in a machine
)

func (o *Options) fill() error {
	for _, f := range []struct {
		value    *int
		fallback int
	}{{&o.Nodes, 1}, {&o.CPUs, 1}, {&o.MTU, 1500}, {&o.MemoryMiB, 320}} {
		if *f.value == 0 {
			*f.value = f.fallback
		}
	}
	if o.Nodes < 1 || o.Nodes > MaxNodes {
		return fmt.Errorf("rack: %d nodes, expected are 1 to %d", o.Nodes, MaxNodes)
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	shares := make([]string, len(o.Shares))
	for i, dir := range o.Shares {
		absolute, err := filepath.Abs(dir)
		if err == nil {
			shares[i], err = filepath.EvalSymlinks(absolute)
		}
		if err != nil {
			return fmt.Errorf("rack: share: %w", err)
		}
	}
	o.Shares = shares
	return nil
}

// check names what is missing before anything is made.
func check() error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("rack: the virtual machines run the host's programs on an amd64 kernel, and this is %s", runtime.GOARCH)
	}
	if os.Geteuid() != 0 {
		return errors.New("rack: must be root, to make a network namespace and tap devices")
	}
	var missing []string
	for _, need := range [][2]string{{qemuName, "qemu-system-x86"}, {sbin("ip"), "iproute2"}, {sbin("depmod"), "kmod"},
		{"xz", "xz-utils"}, {"nsenter", "util-linux"}, {"rdma", "iproute2"}, {"go", "golang"}} {
		if _, err := exec.LookPath(need[0]); err != nil && !slices.Contains(missing, need[1]) {
			missing = append(missing, need[1])
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("rack: missing packages, install: %v", missing)
	}
	return nil
}

// Up boots a rack. After an error nothing is left of it.
func Up(ctx context.Context, o Options) (*Rack, error) {
	if err := check(); err != nil {
		return nil, err
	}
	if err := o.fill(); err != nil {
		return nil, err
	}
	r := &Rack{options: o, accelerator: pickAccelerator(), machines: map[int]*machine{}, impaired: map[int]bool{}}
	if err := r.up(ctx); err != nil {
		return nil, fmt.Errorf("rack: %w", errors.Join(err, r.Down()))
	}
	return r, nil
}

func (r *Rack) up(ctx context.Context) error {
	began := time.Now()
	kernelCtx, cancel := context.WithTimeoutCause(ctx, kernelDeadline, fmt.Errorf("no kernel after %v", kernelDeadline))
	defer cancel()
	var err error
	if r.kernel, err = findKernel(kernelCtx, r.options.Log); err != nil {
		return err
	}
	if r.dir, r.lock, err = tempDir(); err != nil {
		return err
	}
	guest := filepath.Join(r.dir, "guest")
	if err := buildGuest(guest); err != nil {
		return err
	}
	if err := writeInitramfs(filepath.Join(r.dir, "initramfs"), r.kernel, guest); err != nil {
		return err
	}
	if r.namespace, err = newNamespace(); err != nil {
		return err
	}
	if err := r.namespace.makeBridge(r.options.MTU); err != nil {
		return err
	}
	prepared := time.Now()
	errs := make([]error, r.options.Nodes)
	var booting sync.WaitGroup
	for i := range errs {
		booting.Go(func() { errs[i] = r.start(ctx, i+1) })
	}
	booting.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(r.options.Log, "rack: %d virtual machines up in %.1f s (and %.1f s to prepare), Linux %s, %s\n",
		r.options.Nodes, time.Since(prepared).Seconds(), prepared.Sub(began).Seconds(), r.Kernel(), r.Accelerator())
	return nil
}

func (r *Rack) start(ctx context.Context, k int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootDeadline, fmt.Errorf("not booted after %v", bootDeadline))
	defer cancel()
	m, err := r.boot(ctx, k)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.machines[k] = m
	r.impaired[k] = false
	return nil
}

// Down ends the machines and removes all that Up has made. It may be called again.
func (r *Rack) Down() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return nil
	}
	r.down = true
	var errs []error
	for _, m := range r.machines {
		m.kill()
	}
	for _, m := range r.machines {
		<-m.dead // killed, so without a deadline
	}
	if r.namespace != nil {
		errs = append(errs, r.namespace.close())
	}
	if r.dir != "" {
		errs = append(errs, os.RemoveAll(r.dir), r.lock.Close())
	}
	return errors.Join(errs...)
}

// Kernel is the release of the machines' kernel, such as 6.1.0-56-amd64.
func (r *Rack) Kernel() string { return r.kernel.version }

// Accelerator is kvm or tcg.
func (r *Rack) Accelerator() string { return r.accelerator }

// Dir is the rack's directory for temporary files; Down removes it.
func (r *Rack) Dir() string { return r.dir }

// Address is the IPv4 address of machine k, 10.77.0.k.
func (r *Rack) Address(k int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, byte(k)}) }

// Address6 is the IPv6 address of machine k, fd77::k.
func (r *Rack) Address6(k int) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x77, 15: byte(k)})
}

// HostAddress is the host's leg, 10.77.0.254.
func HostAddress() netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, 254}) }

// HostAddress6 is the host's leg, fd77::fe.
func HostAddress6() netip.Addr { return netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x77, 15: 0xfe}) }

// AddHostAddress gives the host's leg another address.
func (r *Rack) AddHostAddress(p netip.Prefix) error { return r.namespace.addAddress(p) }

// Command is a command in machine k. The context's end kills it.
func (r *Rack) Command(ctx context.Context, k int, name string, args ...string) *Cmd {
	m, err := r.machine(k)
	return &Cmd{Args: append([]string{name}, args...), ctx: ctx, m: m, err: err}
}

// Host is a command of the host, on its leg of the rack's network.
func (r *Rack) Host(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + r.namespace.path(), "--", name}, args...)...)
}

func (r *Rack) plain(k int) bool { return slices.Contains(r.options.Plain, k) }

// machine returns machine k if it runs.
func (r *Rack) machine(k int) (*machine, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.machines[k]
	if m == nil {
		return nil, fmt.Errorf("rack: no machine %d, there are 1 to %d", k, r.options.Nodes)
	}
	select {
	case <-m.dead:
		return nil, fmt.Errorf("vm %d: %w", k, ErrDown)
	default:
		return m, nil
	}
}

// LinkState is what can be made of a machine's link.
type LinkState string

const (
	LinkUp   LinkState = "up"
	LinkDown LinkState = "down" // the carrier is lost: the port goes down, and the machine knows
	LinkCut  LinkState = "cut"  // packets vanish, and the port stays up
)

// Link changes the link of machine k.
func (r *Rack) Link(k int, to LinkState) error {
	m, err := r.machine(k)
	if err != nil {
		return err
	}
	carrier := func(up bool) error {
		return m.qmp.execute("set_link", map[string]any{"name": "nic", "up": up})
	}
	switch to {
	case LinkDown:
		return carrier(false)
	case LinkCut:
		return r.namespace.forward(k, false)
	}
	return errors.Join(carrier(true), r.namespace.forward(k, true))
}

// Impair changes what machine k sends, in the words of tc-netem(8): loss 1%, or
// delay 2ms reorder 10%. No words: nothing more.
func (r *Rack) Impair(k int, netem ...string) error {
	r.mu.Lock()
	was := r.impaired[k]
	r.impaired[k] = len(netem) > 0
	r.mu.Unlock()
	args := []string{"qdisc", "replace", "dev", "eth0", "root", "netem"}
	if len(netem) == 0 {
		if !was {
			return nil
		}
		args = []string{"qdisc", "del", "dev", "eth0", "root"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), nodeDeadline)
	defer cancel()
	_, err := r.Command(ctx, k, "tc", append(args, netem...)...).Output()
	return err
}

// Pause stops machine k in its tracks; Resume lets it go on.
func (r *Rack) Pause(k int) error { return r.signal(k, unix.SIGSTOP) }

// Resume lets a paused machine go on.
func (r *Rack) Resume(k int) error { return r.signal(k, unix.SIGCONT) }

func (r *Rack) signal(k int, sig syscall.Signal) error {
	m, err := r.machine(k)
	if err != nil {
		return err
	}
	return m.qemu.Process.Signal(sig)
}

// Kill ends machine k as pulling its plug would.
func (r *Rack) Kill(k int) error {
	m, err := r.machine(k)
	if err != nil {
		return err
	}
	m.kill()
	<-m.dead
	return nil
}

// Start boots machine k again after Kill.
func (r *Rack) Start(ctx context.Context, k int) error {
	if _, err := r.machine(k); !errors.Is(err, ErrDown) {
		if err == nil {
			err = fmt.Errorf("rack: vm %d is up", k)
		}
		return err
	}
	return r.start(ctx, k)
}

// poll asks until the answer is yes, an error, or the context ends.
func poll(ctx context.Context, ask func() (bool, error)) error {
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
