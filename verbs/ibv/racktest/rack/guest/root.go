//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/ibv/racktest/rack/wire"
)

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s %s on %s (%s): %w", kind, source, target, options, err)
	}
	return nil
}

// mountKernel mounts the kernel's own file systems.
func mountKernel() error {
	return errors.Join(
		mount("proc", "/proc", "proc", 0, ""),
		mount("sysfs", "/sys", "sysfs", 0, ""),
		mount("dev", "/dev", "devtmpfs", 0, ""),
	)
}

// loadModules loads the modules whose files a list names, in its order. One that
// the processor does not have, such as a faster checksum, is left out.
func loadModules(list string) error {
	f, err := os.Open(list)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name := lines.Text()
		if err := loadModule(filepath.Join("/modules", name)); err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("module %s: %w", name, err)
		}
	}
	return nil
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// portDeadline is for a device whose driver has been loaded; seconds are long for it.
const portDeadline = 20 * time.Second

// openPort waits for the virtio-serial port: its driver finds it after it has
// been loaded, not while.
func openPort() (*os.File, error) {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if ports, _ := filepath.Glob("/dev/vport*p1"); len(ports) > 0 {
			return os.OpenFile(ports[0], os.O_RDWR, 0)
		}
		if time.Since(began) > portDeadline {
			return nil, fmt.Errorf("no virtio-serial port after %v", portDeadline)
		}
	}
}

// mount9p mounts a directory of the host's; tag is the one that QEMU was given.
func mount9p(tag, target string, flags uintptr, cache string) error {
	// msize: the largest that QEMU takes without a warning about latency.
	return mount(tag, target, "9p", flags, "trans=virtio,version=9p2000.L,msize=512000,cache="+cache)
}

// makeRoot makes the host's root the guest's: read-only, under a layer in memory,
// with the shares at their own paths, and changes into it.
func makeRoot(c wire.Config) error {
	// Loaded: the memory is of more use elsewhere.
	if err := os.RemoveAll("/modules"); err != nil {
		return err
	}
	if err := mount9p("host", "/host", unix.MS_RDONLY, "loose"); err != nil {
		return err
	}
	if err := mount("scratch", "/scratch", "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir("/scratch/upper", 0o755), os.Mkdir("/scratch/work", 0o755)); err != nil {
		return err
	}
	if err := mount("root", "/newroot", "overlay", 0, "lowerdir=/host,upperdir=/scratch/upper,workdir=/scratch/work"); err != nil {
		return err
	}
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if err := mount(dir, "/newroot"+dir, "", unix.MS_MOVE, ""); err != nil {
			return err
		}
	}
	if err := errors.Join(
		mount("run", "/newroot/run", "tmpfs", 0, "mode=755"),
		mount("shm", "/newroot/dev/shm", "tmpfs", 0, "mode=1777"),
		mount("devpts", "/newroot/dev/pts", "devpts", 0, "ptmxmode=666"),
		mount("debugfs", "/newroot/sys/kernel/debug", "debugfs", 0, ""),
		mount("/host"+c.Modules, "/newroot/lib/modules", "", unix.MS_BIND, ""),
	); err != nil {
		return err
	}
	for i, dir := range c.Shares {
		// mmap: what the host changes is seen, and programs can be mapped.
		if err := mount9p("share"+strconv.Itoa(i), "/newroot"+dir, 0, "mmap"); err != nil {
			return err
		}
	}
	// As switch_root(8): an initramfs cannot be pivoted.
	if err := errors.Join(unix.Chdir("/newroot"), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), unix.Chdir("/")); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	for name, target := range map[string]string{"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0",
		"/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, name); err != nil {
			return err
		}
	}
	var hosts strings.Builder
	hosts.WriteString("127.0.0.1 localhost\n::1 localhost\n10.77.0.254 host\n")
	for k := 1; k <= c.Nodes; k++ {
		fmt.Fprintf(&hosts, "10.77.0.%d vm%d\n", k, k)
	}
	_ = os.Remove("/etc/hosts") // may be a link or a mount of a container's
	if err := os.WriteFile("/etc/hosts", []byte(hosts.String()), 0o644); err != nil {
		return err
	}
	return unix.Sethostname([]byte("vm" + strconv.Itoa(c.Node)))
}
