package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"ringcli/configs/codes"
	"ringcli/verbs"
)

// noDevice leaves none of any provider.
func noDevice(_ *testing.T, f *fake) {
	f.software()
	all := f.Providers()
	all[2].Devices = all[2].Devices[:1] // loopback's
	f.Providers = func() []Provider { return all }
}

var portsCases = []provocation{
	{"the library has no driver", func(t *testing.T, f *fake) {
		all := f.Providers()
		all[0].Devices, all[0].Err = nil, errors.New("libibverbs has no driver for it")
		f.Providers = func() []Provider { return all }
	}, "provider", Fail, codes.NoDevice, "no driver", "ringcli devices"},
	{"no adapter", func(t *testing.T, f *fake) { f.software() }, "provider", Skip, "", "no RDMA device", ""},
	{"no adapter, and one is asked for", func(t *testing.T, f *fake) { f.software(); f.asked.Device = "ibv" }, "provider", Fail, codes.NoDevice, "no RDMA device", "ringcli devices"},
	{"no device leads there", func(t *testing.T, f *fake) {
		f.list(t, "node0,node1", 0)
		f.Choose = func(string, netip.Addr) (string, string, error) {
			return "", "", fmt.Errorf("device auto: %w", verbs.ErrNoDevice)
		}
	}, "device", Fail, codes.NoDevice, "no such device", "ringcli devices"},
	{"no device beside the first", func(t *testing.T, f *fake) {
		f.list(t, "node0,node1", 0)
		f.asked.Device, f.asked.Beside = "ibv:mlx5_0", []string{"ibv:mlx5_9"}
		f.Choose = func(name string, _ netip.Addr) (string, string, error) {
			if name == "ibv:mlx5_9" {
				return "", "", fmt.Errorf("device %q: %w", name, verbs.ErrNoDevice)
			}
			return name, name + " was asked for", nil
		}
	}, "device", Fail, codes.NoDevice, "ibv:mlx5_9, beside ibv:mlx5_0: ", "ringcli devices"},
	{"the only port is down", func(t *testing.T, f *fake) {
		f.port.Attr.State, f.port.Attr.PhysState, f.port.Err = verbs.PortDown, "Polling", verbs.ErrPortDown
	}, "port", Fail, codes.PortDown, "DOWN, Polling", "ip link set eth0 up"},
	{"a second port is down", func(t *testing.T, f *fake) {
		all := f.Providers()
		down := f.port
		down.Num, down.Attr.State, down.Err = 2, verbs.PortDown, verbs.ErrPortDown
		all[0].Devices[0].Ports = append(all[0].Devices[0].Ports, down)
		f.Providers = func() []Provider { return all }
	}, "port", Warn, codes.PortDown, "DOWN", "ip link set eth0 up"},
	{"InfiniBand without subnet manager", func(t *testing.T, f *fake) {
		f.port.Attr.LinkLayer, f.port.Attr.State, f.port.Err = verbs.LinkInfiniBand, verbs.PortInit, verbs.ErrPortDown
	}, "port", Fail, codes.PortDown, "INIT", "sminfo"},
	{"a device that cannot be opened", func(t *testing.T, f *fake) {
		all := f.Providers()
		all[0].Devices[0] = Device{Name: "ibv:mlx5_0", Err: fmt.Errorf("open: %w", fs.ErrPermission)}
		f.Providers = func() []Provider { return all }
	}, "port", Fail, "", "permission denied", "dmesg"},
	{"no GID", func(t *testing.T, f *fake) { f.port.GIDs = nil }, "gid", Fail, codes.NoGID, "has no GID", "ip address add"},
	{"RoCE v1", func(t *testing.T, f *fake) { f.port.GIDs[0].Type = verbs.GIDTypeRoCEv1 }, "gid", Warn, codes.NoGID, "RoCE v1", "ip address add"},
	{"link-local", func(t *testing.T, f *fake) { f.port.GIDs[0].GID = verbs.GIDFromAddr(address("fe80::1")) }, "gid", Warn, codes.NoGID, "fe80::1", "ip address add"},
	{"no LID", func(t *testing.T, f *fake) { f.port.Attr.LinkLayer = verbs.LinkInfiniBand }, "gid", Fail, codes.AddressMismatch, "no LID", "sminfo"},
	{"the interface's MTU is smaller than the port's", func(t *testing.T, f *fake) { f.write("sys/class/net/eth0/mtu", "1500") }, "mtu", Fail, codes.MTU, "active 4096 of 4096, eth0 has 1500", "ip link set eth0 mtu 4200"},
	{"the port has not read it", func(t *testing.T, f *fake) { f.port.Attr.ActiveMTU = verbs.MTU1024 }, "mtu", Warn, codes.MTU, "active 1024", "ip link set eth0 down && ip link set eth0 up"},
	{"small, and so is the interface's", func(t *testing.T, f *fake) {
		f.port.Attr.ActiveMTU = verbs.MTU1024
		f.write("sys/class/net/eth0/mtu", "1500")
	}, "mtu", Pass, "", "active 1024 of 4096, eth0 has 1500", ""},
	{"more than the port has is asked for", func(t *testing.T, f *fake) { f.port.Attr.ActiveMTU = verbs.MTU1024; f.asked.MTU = 4096 }, "mtu", Fail, codes.MTU, "active 1024", "ip link set eth0 mtu"},
	{"another network namespace", func(t *testing.T, f *fake) { f.remove("sys/class/net") }, "mtu", Skip, "", "not in this network namespace", ""},
	{"modules not loaded", func(t *testing.T, f *fake) {
		f.remove("sys/module")
		f.remove("sys/class/infiniband")
	}, "modules", Fail, codes.NoDevice, "not loaded: ib_uverbs, mlx5_ib", "modprobe -a ib_uverbs mlx5_ib"},
	{"uverbs not to be opened", func(t *testing.T, f *fake) {
		f.Writable = func(path string) error { return &fs.PathError{Op: "open", Path: path, Err: unix.EACCES} }
	}, "permission", Fail, codes.Permission, "/dev/infiniband/uverbs0: permission denied", "chmod a+rw /dev/infiniband/uverbs0"},
	{"a container without uverbs", func(t *testing.T, f *fake) { f.remove("dev/infiniband") }, "permission", Fail, codes.NoDevice, "the kernel has mlx5_0", "modprobe ib_uverbs  # container: --device=/dev/infiniband"},
	{"nothing is shared on this host", func(_ *testing.T, f *fake) {
		all := f.Providers()
		all[1].Devices, all[1].Err = nil, errors.New("memfd_create: not permitted")
		f.Providers = func() []Provider { return all }
	}, "provider", Warn, codes.NoDevice, "not permitted", "ringcli devices"},
	{"a ring whose device is not known", func(*testing.T, *fake) {}, "device", Skip, "", "depends on its hosts", ""},
	{"no device at all, of ports", noDevice, "port", Skip, "", "no device has one", ""},
	{"no device at all, of GIDs", noDevice, "gid", Skip, "", "no port is up", ""},
	{"no device at all, of MTUs", noDevice, "mtu", Skip, "", "no port is up", ""},
	{"no device at all, of PCIe", noDevice, "pcie", Skip, "", "no device", ""},
	{"InfiniBand has an MTU of its own", func(_ *testing.T, f *fake) {
		f.port.Attr.LinkLayer, f.port.Attr.LID = verbs.LinkInfiniBand, 4
		f.port.GIDs[0].Type = verbs.GIDTypeIB
	}, "mtu", Pass, "", "active 4096 of 4096", ""},
	{"a ConnectX-3", func(_ *testing.T, f *fake) {
		f.write("sys/devices/pci0000:3a/"+bridge+"/"+card+"/device", "0x1003")
	}, "modules", Fail, codes.NoDevice, "not loaded: mlx4_ib", "modprobe -a mlx4_ib"},
	{"an EFA", func(_ *testing.T, f *fake) {
		f.write("sys/devices/pci0000:3a/"+bridge+"/"+card+"/vendor", "0x1d0f")
		f.write("sys/devices/pci0000:3a/"+bridge+"/"+card+"/device", "0xefa1")
	}, "modules", Fail, codes.NoDevice, "not loaded: efa", "modprobe -a efa"},
	{"a network card of the same maker that is none", func(_ *testing.T, f *fake) {
		f.write("sys/devices/pci0000:3a/"+bridge+"/"+card+"/vendor", "0x1d0f")
		f.write("sys/devices/pci0000:3a/"+bridge+"/"+card+"/device", "0xec20")
	}, "modules", Pass, "", "loaded for mlx5_0", ""},
	{"no card needs a module", func(_ *testing.T, f *fake) { f.software() }, "modules", Skip, "", "no RDMA card", ""},
	{"no card has a device to open", func(_ *testing.T, f *fake) { f.software() }, "permission", Skip, "", "no RDMA device", ""},
}
