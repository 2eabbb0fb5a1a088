//go:build !nodl

package ibv

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// Devices implements verbs.Provider: what ibv_get_device_list lists.
func (provider) Devices() ([]verbs.Device, error) {
	l, err := load()
	if err != nil {
		return nil, err
	}
	var devices []verbs.Device
	err = l.each(func(name string, _ uintptr) error {
		devices = append(devices, device{name})
		return nil
	})
	if err == nil && len(devices) == 0 {
		err = look().none()
	}
	return devices, err
}

// each calls f with every device of the library's list, which is freed afterwards.
func (l *library) each(f func(name string, dev uintptr) error) error {
	count, err := memory.Alloc(4)
	if err != nil {
		return err
	}
	defer func() { _ = count.Free() }()
	list, errno := l.errno(l.getDeviceList, uintptr(count.Addr()))
	switch {
	case list == 0 && (errno == syscall.ENOSYS || errno == 0):
		return look().none()
	case list == 0:
		return failed(errno, "list RDMA devices (ibv_get_device_list)")
	}
	defer call(l.freeDeviceList, list)
	for _, dev := range memory.Slice[uintptr](uint64(list), int(*at[int32](uintptr(count.Addr())))) {
		if err := f(unix.ByteSliceToString(at[cDevice](dev).name[:]), dev); err != nil {
			return err
		}
	}
	return nil
}

// device is a device of the library, by its kernel name.
type device struct{ name string }

func (d device) Name() string { return "ibv:" + d.name }

// node is the file by which programs reach the device; empty if there is none.
func (d device) node() string {
	for _, n := range names("/sys/class/infiniband_verbs", "uverbs") {
		if line("/sys/class/infiniband_verbs/"+n+"/ibdev") == d.name {
			return "/dev/infiniband/" + n
		}
	}
	return ""
}

func (d device) Open(o verbs.OpenOptions) (verbs.Context, error) {
	l, err := load()
	if err != nil {
		return nil, err
	}
	var c verbs.Context
	err = l.each(func(name string, dev uintptr) (err error) {
		if name == d.name {
			c, err = l.open(d, dev, o)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return nil, fmt.Errorf("%w: libibverbs no longer lists it", verbs.ErrNoDevice)
	}
	return c, nil
}

// sight is what of RDMA can be seen on this machine without the library.
type sight struct {
	devices   []string // in /sys/class/infiniband
	uverbs    []string // in /sys/class/infiniband_verbs: devices with a door to user space
	nodes     []string // uverbs* in /dev/infiniband
	container bool
}

func look() sight {
	s := sight{devices: names("/sys/class/infiniband", ""), uverbs: names("/sys/class/infiniband_verbs", "uverbs"),
		nodes: names("/dev/infiniband", "uverbs")}
	for _, file := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(file); err == nil {
			s.container = true
		}
	}
	return s
}

// names lists the entries of a directory that begin with a prefix; none if it
// can't be read.
func names(dir, prefix string) []string {
	var all []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			all = append(all, e.Name())
		}
	}
	return all
}

// none is the reason why the library lists no device, and what to do.
func (s sight) none() error {
	list := strings.Join(s.devices, ", ")
	switch {
	case len(s.devices) == 0 && s.container:
		return errors.New("no RDMA device in this container: /sys/class/infiniband is empty; on the host, is the device's driver loaded, and is the device in this network namespace (rdma system show)?")
	case len(s.devices) == 0:
		return errors.New("no RDMA device: /sys/class/infiniband is empty; is the device's driver loaded (lsmod), or for Soft-RoCE: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0?")
	case len(s.uverbs) == 0:
		return fmt.Errorf("the kernel has %s but no user access to it: load ib_uverbs (modprobe ib_uverbs)", list)
	case len(s.nodes) == 0 && s.container:
		return fmt.Errorf("the kernel has %s, but /dev/infiniband has no uverbs device in this container: start it with --device=/dev/infiniband and --ulimit memlock=-1", list)
	case len(s.nodes) == 0:
		return fmt.Errorf("the kernel has %s, but /dev/infiniband has no uverbs device: is udev running?", list)
	}
	return fmt.Errorf("the kernel has %s and /dev/infiniband has %s, but libibverbs has no driver for it: install the drivers (Debian, Ubuntu: ibverbs-providers; Fedora, SUSE: libibverbs), and check that /etc/libibverbs.d names it",
		list, strings.Join(s.nodes, ", "))
}
