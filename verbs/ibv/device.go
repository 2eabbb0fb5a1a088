//go:build !nodl

package ibv

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"ringcli/verbs"
	"ringcli/verbs/memory"
)

func init() { verbs.Register(provider{}) }

type provider struct{}

// Name implements verbs.Provider.
func (provider) Name() string { return "ibv" }

// Capabilities implements verbs.Provider: its devices are what all others are
// compared with.
func (provider) Capabilities() verbs.Capabilities { return verbs.Capabilities{} }

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

// Name implements verbs.Device.
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

// Open implements verbs.Device.
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
