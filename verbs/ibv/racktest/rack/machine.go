//go:build linux

package rack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/ibv/racktest/rack/wire"
)

// machine is one boot of a virtual machine: QEMU's process, and the connection to
// the agent in it.
type machine struct {
	k       int
	qemu    *exec.Cmd
	qmp     *qmp
	port    net.Conn
	w       *wire.Writer
	console string        // the file that has what the kernel prints
	dead    chan struct{} // closed when QEMU has ended and all commands know

	mu     sync.Mutex // guards the rest
	lastID uint32
	cmds   map[uint32]*Cmd // those that run
	gone   bool            // the connection has ended
}

// boot starts machine k and returns when its agent is ready.
func (r *Rack) boot(ctx context.Context, k int) (*machine, error) {
	m, err := r.startQEMU(k)
	if err != nil {
		return nil, fmt.Errorf("vm %d: %w", k, err)
	}
	// The frame waits in the socket until the guest opens its port.
	config := wire.Config{Node: k, Nodes: r.options.Nodes, MTU: r.options.MTU, Plain: r.plain(k),
		Modules: filepath.Dir(r.kernel.modulesDir()), Shares: r.options.Shares, Env: guestEnv()}
	err = m.send(wire.JSON(wire.Configure, 0, config))
	if err == nil {
		err = m.awaitReady(ctx)
	}
	if err != nil {
		m.kill()
		m.close()
		return nil, fmt.Errorf("vm %d: %w; its console: %s", k, err, m.consoleTail())
	}
	go m.receive()
	return m, nil
}

// guestEnv is what commands of a guest get of this process's environment.
func guestEnv() map[string]string {
	env := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
	for name := range env {
		if value := os.Getenv(name); value != "" {
			env[name] = value
		}
	}
	if path := env["PATH"]; !strings.Contains(path, "/sbin") {
		env["PATH"] = path + ":/usr/sbin:/sbin"
	}
	return env
}

func (r *Rack) startQEMU(k int) (*machine, error) {
	var files []*os.File // the child's, from descriptor 3
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	var conns []net.Conn
	for range 2 {
		conn, file, err := socketPair()
		if err != nil {
			return nil, err
		}
		conns, files = append(conns, conn), append(files, file)
	}
	m := &machine{k: k, port: conns[0], w: wire.NewWriter(conns[0]), qmp: newQMP(conns[1]),
		console: filepath.Join(r.dir, fmt.Sprintf("vm%d.console", k)), dead: make(chan struct{}), cmds: map[uint32]*Cmd{}}
	tap, err := r.namespace.makeTap(k, r.options.MTU)
	if err == nil {
		files = append(files, tap)
		var log *os.File
		if log, err = os.Create(filepath.Join(r.dir, fmt.Sprintf("vm%d.log", k))); err == nil {
			defer func() { _ = log.Close() }()
			m.qemu = exec.Command(qemuName, r.qemuArgs(k, m.console)...)
			m.qemu.Stdout, m.qemu.Stderr, m.qemu.ExtraFiles = log, log, files
			m.qemu.SysProcAttr = &syscall.SysProcAttr{
				Pdeathsig: syscall.SIGKILL,
				Setpgid:   true, // a terminal's Ctrl-C is for us, who tear down in order
			}
			err = r.namespace.do(m.qemu.Start)
		}
	}
	if err != nil {
		for _, conn := range conns {
			_ = conn.Close()
		}
		return nil, err
	}
	return m, nil
}

// socketPair makes a connection to QEMU: one end for us, one for the child. It has
// no name in the file system that could be left behind.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "rack"), os.NewFile(uintptr(fds[1]), "qemu")
	conn, err := net.FileConn(ours)
	_ = ours.Close() // FileConn has its own
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

const qemuName = "qemu-system-x86_64"

// qemuArgs is QEMU's command line for machine k. Descriptors 3 to 5 are the
// agent's port, QMP and the tap device.
func (r *Rack) qemuArgs(k int, console string) []string {
	o := r.options
	args := []string{
		"-name", "rack-vm" + strconv.Itoa(k), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-m", strconv.Itoa(o.MemoryMiB), "-smp", strconv.Itoa(o.CPUs), "-M", "pc,usb=off,vmport=off,hpet=off",
		"-kernel", r.kernel.image(), "-initrd", filepath.Join(r.dir, "initramfs"),
		// mitigations and the like: this kernel runs what the host runs anyway, and
		// emulated processors pay for each. panic=-1: no guest outlives a panic.
		"-append", "console=ttyS0 quiet panic=-1 norandmaps mitigations=off audit=0 cryptomgr.notests 8250.nr_uarts=1 no_timer_check",
		"-chardev", "file,id=console,path=" + escape(console), "-serial", "chardev:console",
		"-chardev", "socket,id=qmp,fd=4", "-mon", "chardev=qmp,mode=control",
		"-device", "virtio-serial-pci", "-chardev", "socket,id=port,fd=3", "-device", "virtserialport,chardev=port,name=rack",
		"-device", "virtio-rng-pci", // else Go programs wait for random numbers
		"-netdev", "tap,id=net,fd=5",
		"-device", fmt.Sprintf("virtio-net-pci,id=nic,netdev=net,host_mtu=%d,speed=10000,duplex=full,mac=52:54:00:77:00:%02x", o.MTU, k),
	}
	if r.accelerator == "kvm" {
		args = append(args, "-accel", "kvm", "-cpu", "host")
	} else {
		// Larger models than this one are slower to emulate.
		args = append(args, "-accel", "tcg,thread=multi,tb-size=128", "-cpu", "Nehalem")
	}
	share := func(tag, path, options string) {
		args = append(args, "-fsdev", fmt.Sprintf("local,id=%s,path=%s,security_model=none,multidevs=remap%s", tag, escape(path), options),
			"-device", fmt.Sprintf("virtio-9p-pci,fsdev=%[1]s,mount_tag=%[1]s", tag))
	}
	share("host", "/", ",readonly=on")
	for i, dir := range o.Shares {
		share("share"+strconv.Itoa(i), dir, "")
	}
	return args
}

// escape writes a value for QEMU's option syntax, where a comma ends it unless doubled.
func escape(value string) string { return strings.ReplaceAll(value, ",", ",,") }

// awaitReady waits until the guest says that it is ready, or why it is not.
func (m *machine) awaitReady(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = m.port.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	f, err := wire.Read(m.port)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("its agent is not ready: %w", context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("QEMU has ended before the agent was ready (%w): %s", err, m.qemuLog())
	case f.Kind == wire.Failed:
		return fmt.Errorf("the guest: %s", f.Data)
	case f.Kind != wire.Ready:
		return fmt.Errorf("the guest's first frame is %v, expected is %v", f.Kind, wire.Ready)
	}
	return nil
}

// sendDeadline is for a frame to go into the socket, which is large enough for
// all that a guest that runs leaves unread.
const sendDeadline = 30 * time.Second

func (m *machine) send(f wire.Frame) error {
	if err := m.port.SetWriteDeadline(time.Now().Add(sendDeadline)); err != nil {
		return err
	}
	return m.w.Write(f)
}

// receive hands the guest's frames to their commands until QEMU ends.
func (m *machine) receive() {
	for {
		f, err := wire.Read(m.port)
		if err != nil {
			break
		}
		m.mu.Lock()
		c := m.cmds[f.ID]
		if f.Kind == wire.Exit {
			delete(m.cmds, f.ID)
		}
		m.mu.Unlock()
		if c != nil {
			c.receive(f)
		}
	}
	m.mu.Lock()
	m.gone = true
	cmds := m.cmds
	m.cmds = nil
	m.mu.Unlock()
	for _, c := range cmds {
		c.end(wire.Outcome{}, fmt.Errorf("vm %d has ended: %w", m.k, ErrDown))
	}
	m.kill() // a stream out of step is no machine to go on with
	m.close()
}

// close collects QEMU, which has been killed or has ended.
func (m *machine) close() {
	_ = m.qemu.Wait()
	_ = m.port.Close()
	_ = m.qmp.conn.Close()
	close(m.dead)
}

// kill ends QEMU as pulling the plug would.
func (m *machine) kill() {
	if err := m.qemu.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(err) // our own child
	}
}

// add registers a command that is about to start.
func (m *machine) add(c *Cmd) (id uint32, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return 0, fmt.Errorf("vm %d: %w", m.k, ErrDown)
	}
	m.lastID++
	m.cmds[m.lastID] = c
	return m.lastID, nil
}

func (m *machine) remove(id uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.cmds, id)
}

func (m *machine) qemuLog() string { return tail(strings.TrimSuffix(m.console, ".console") + ".log") }

func (m *machine) consoleTail() string { return tail(m.console) }

// tail returns a file's last lines.
func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

// pickAccelerator says kvm only where it can be used: a /dev/kvm without vmx or svm
// emulates the processor, more slowly than TCG, QEMU's own emulation, does.
func pickAccelerator() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !hasVirtualization(string(info)) || unix.Access("/dev/kvm", unix.R_OK|unix.W_OK) != nil {
		return "tcg"
	}
	probe := exec.Command(qemuName, "-accel", "kvm", "-M", "none", "-nodefaults", "-display", "none", "-monitor", "stdio")
	probe.Stdin = strings.NewReader("quit\n")
	if probe.Run() != nil {
		return "tcg"
	}
	return "kvm"
}

func hasVirtualization(cpuinfo string) bool {
	for line := range strings.Lines(cpuinfo) {
		if name, flags, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "flags" {
			for _, flag := range strings.Fields(flags) {
				if flag == "vmx" || flag == "svm" {
					return true
				}
			}
		}
	}
	return false
}
