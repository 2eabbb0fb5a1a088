package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/cli/exit"
	"ringcli/configs/codes"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/verbs"
	"ringcli/verbs/route"
	"ringcli/verbs/soft/udp"
)

// fake is a node in good health with one adapter, which a test changes before it is looked at.
type fake struct {
	System
	asked  Asked
	root   string
	port   Port
	rlimit map[int]unix.Rlimit
	cpus   int
}

const (
	card   = "0000:3b:00.0"
	bridge = "0000:3a:00.0"
	gpu    = "0000:5e:00.0"
)

func address(text string) netip.Addr { return netip.MustParseAddr(text) }

func newFake(t *testing.T) *fake {
	t.Helper()
	local := address("10.1.2.3")
	f := &fake{
		root: t.TempDir(), cpus: 8,
		rlimit: map[int]unix.Rlimit{unix.RLIMIT_MEMLOCK: {Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, unix.RLIMIT_NOFILE: {Cur: 1 << 20, Max: 1 << 20}},
		asked:  Asked{Index: -1, Device: "auto", TCPPort: 18600, Slots: 16, SlotSize: 256 << 10, Timeout: time.Minute},
		port: Port{Port: route.Port{
			Device: "ibv:mlx5_0", Num: 1,
			Attr: verbs.PortAttr{State: verbs.PortActive, PhysState: "LinkUp", LinkLayer: verbs.LinkEthernet, MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU4096, NetDev: "eth0", SpeedMbps: 100000},
			GIDs: []verbs.GIDEntry{{Index: 3, Port: 1, GID: verbs.GIDFromAddr(local), Type: verbs.GIDTypeRoCEv2, NetDev: "eth0"}},
		}},
	}
	for path, text := range map[string]string{
		"sys/class/infiniband/mlx5_0/node_type":                                 "1: CA",
		"sys/class/net/eth0/mtu":                                                "9000",
		"sys/kernel/mm/transparent_hugepage/enabled":                            "always [madvise] never",
		"sys/module/ib_uverbs/refcnt":                                           "1",
		"sys/module/mlx5_ib/refcnt":                                             "0",
		"dev/infiniband/uverbs0":                                                "",
		"dev/shm/.keep":                                                         "",
		"proc/meminfo":                                                          "MemTotal: 65536000 kB\nMemAvailable:   60000000 kB",
		"proc/self/status":                                                      "CapEff:\t0000000000000000",
		"proc/sys/net/core/rmem_max":                                            "212992",
		"proc/sys/net/core/wmem_max":                                            "212992",
		"proc/sys/net/ipv4/ip_local_port_range":                                 "32768\t60999",
		"proc/sys/net/ipv4/ip_local_reserved_ports":                             "",
		"proc/net/udp":                                                          "  sl  local_address rem_address   st",
		"proc/net/tcp":                                                          "  sl  local_address rem_address   st",
		"sys/devices/pci0000:3a/" + bridge + "/max_link_speed":                  "32.0 GT/s PCIe",
		"sys/devices/pci0000:3a/" + bridge + "/max_link_width":                  "16",
		"sys/devices/pci0000:3a/" + bridge + "/class":                           "0x060400",
		"sys/devices/pci0000:3a/" + bridge + "/" + card + "/class":              "0x020000",
		"sys/devices/pci0000:3a/" + bridge + "/" + card + "/vendor":             "0x15b3",
		"sys/devices/pci0000:3a/" + bridge + "/" + card + "/device":             "0x101d",
		"sys/devices/pci0000:3a/" + bridge + "/" + card + "/current_link_speed": "16.0 GT/s PCIe",
		"sys/devices/pci0000:3a/" + bridge + "/" + card + "/current_link_width": "16",
		"sys/devices/pci0000:3a/" + bridge + "/" + card + "/max_link_speed":     "16.0 GT/s PCIe",
		"sys/devices/pci0000:3a/" + bridge + "/" + card + "/max_link_width":     "16",
	} {
		f.write(t, path, text)
	}
	f.write(t, "sys/devices/pci0000:3a/"+bridge+"/config", string(acs(0)))
	f.link(t, "sys/class/infiniband/mlx5_0/device", "../../../devices/pci0000:3a/"+bridge+"/"+card)
	f.link(t, "sys/bus/pci/devices/"+card, "../../../devices/pci0000:3a/"+bridge+"/"+card)
	f.link(t, "sys/bus/pci/devices/"+bridge, "../../../devices/pci0000:3a/"+bridge)
	f.System = System{
		Files: os.DirFS(f.root),
		Limit: func(resource int) (unix.Rlimit, error) { return f.rlimit[resource], nil },
		Room:  func(int) error { return nil },
		Clock: func(x *unix.Timex) (int, error) { x.Maxerror = 1500; return unix.TIME_OK, nil },
		CPUs:  func() ([]int, error) { return make([]int, f.cpus), nil }, Hostname: func() (string, error) { return "node0", nil },
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			a, found := map[string]string{"node0": "10.1.2.3", "node1": "10.1.2.4", "old": "10.9.9.9", "debian": "127.0.1.1"}[host]
			if !found {
				return nil, errors.New("no such host")
			}
			return []netip.Addr{address("fd00::1"), address(a)}, nil
		},
		Writable: func(string) error { return nil }, Memfd: func() error { return nil },
		Choose: func(string, netip.Addr) (string, string, error) { return "ibv:mlx5_0", "its port 1 is active", nil },
		Local:  func(a netip.Addr) bool { return a == local || a.IsLoopback() },
		Route:  func(netip.AddrPort) (netip.Addr, error) { return local, nil },
	}
	f.Providers = func() []Provider {
		return []Provider{
			{Name: "ibv", Devices: []Device{{Name: "ibv:mlx5_0", Ports: []Port{f.port}}}},
			{Name: "shm", Can: verbs.Capabilities{HostLocal: true}, Devices: []Device{{Name: "shm:0"}}},
			{Name: "soft", Can: verbs.Capabilities{Software: true}, Devices: []Device{{Name: "soft:lo"}, {Name: "soft:eth0", Ports: []Port{softPort()}}}},
		}
	}
	return f
}

func softPort() Port {
	return Port{Port: route.Port{Device: "soft:eth0", Num: 1,
		Attr: verbs.PortAttr{State: verbs.PortActive, LinkLayer: verbs.LinkEthernet, MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU4096, NetDev: "eth0"},
		GIDs: []verbs.GIDEntry{{Port: 1, GID: verbs.GIDFromAddr(address("10.1.2.3")), Type: verbs.GIDTypeRoCEv2, NetDev: "eth0"}}}}
}

func (f *fake) write(t *testing.T, path, text string) {
	t.Helper()
	path = filepath.Join(f.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func (f *fake) link(t *testing.T, path, to string) {
	t.Helper()
	path = filepath.Join(f.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(to, path)); err != nil {
		t.Fatal(err)
	}
}

func (f *fake) remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(f.root, path)); err != nil {
		t.Fatal(err)
	}
}

func (f *fake) list(t *testing.T, list string, index int) {
	t.Helper()
	nodes, err := hosts.Parse(list, f.asked.TCPPort)
	if err != nil {
		t.Fatal(err)
	}
	f.asked.List, f.asked.Index = nodes, index
}

// software takes the adapter away.
func (f *fake) software(t *testing.T) {
	f.remove(t, "sys/class/infiniband")
	f.remove(t, "sys/bus/pci")
	f.remove(t, "dev/infiniband")
	all := f.Providers()
	all[0].Devices, all[0].Err = nil, errors.New("no RDMA device")
	f.Providers = func() []Provider { return all }
	f.Choose = func(string, netip.Addr) (string, string, error) { return "soft:eth0", "interface eth0 has it", nil }
}

// rates are a card's own link and its bridge's.
func (f *fake) lanes(t *testing.T, now, own, slot string) {
	for path, value := range map[string]string{bridge + "/" + card + "/current": now, bridge + "/" + card + "/max": own, bridge + "/max": slot} {
		speed, width, _ := strings.Cut(value, " x")
		f.write(t, "sys/devices/pci0000:3a/"+path+"_link_speed", speed+" GT/s PCIe")
		f.write(t, "sys/devices/pci0000:3a/"+path+"_link_width", width)
	}
}

// acs is a configuration space with Access Control Services behind another capability.
func acs(control uint16) []byte {
	b := make([]byte, 4096)
	binary.LittleEndian.PutUint32(b[0x100:], 0x14820001) // advanced error reporting, then 0x148
	binary.LittleEndian.PutUint32(b[0x148:], 0x0001000d)
	binary.LittleEndian.PutUint16(b[0x14e:], control)
	return b
}

// group puts this process into a control group of version 2, or of version 1 of a controller.
func (f *fake) group(t *testing.T, controller string, files map[string]string) {
	dir := "sys/fs/cgroup/job/rank"
	mount, own := "30 1 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "0::/job/rank"
	if controller != "" {
		dir = "sys/fs/cgroup/" + controller + "/rank"
		// The group is what the container sees as the root of its mount.
		mount, own = "30 1 0:25 /docker/1f /sys/fs/cgroup/"+controller+" rw - cgroup cgroup rw,"+controller, "4:"+controller+":/docker/1f/rank\n0::/"
	}
	f.write(t, "proc/self/mountinfo", "22 1 0:20 / /proc rw - proc proc rw\n"+mount+"\n")
	f.write(t, "proc/self/cgroup", own+"\n")
	for name, text := range files {
		f.write(t, filepath.Join(dir, name), text)
	}
}

// holds has a process hold a socket at a port.
func (f *fake) holds(t *testing.T, protocol, local, state string, pid int) {
	f.write(t, "proc/net/"+protocol, fmt.Sprintf("  sl  local_address rem_address   st\n   1: %s 00000000:0000 %s 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 10 0\n", local, state))
	if pid > 0 {
		f.write(t, fmt.Sprintf("proc/%d/comm", pid), "perftest\n")
		f.link(t, fmt.Sprintf("proc/%d/fd/7", pid), "socket:[4711]")
	}
}

func find(t *testing.T, rows []Preflight, check string) Preflight {
	t.Helper()
	worst := Preflight{}
	for _, p := range rows {
		if p.Check == check && (worst.Check == "" || slices.Index(Verdicts, p.Verdict) < slices.Index(Verdicts, worst.Verdict)) {
			worst = p
		}
	}
	if worst.Check == "" {
		t.Fatalf("no row %q", check)
	}
	return worst
}

// A node in good health has nothing that is not well, and each check has a row.
func TestHealthy(t *testing.T) {
	for _, name := range []string{"hardware", "software", "list"} {
		f := newFake(t)
		switch name {
		case "software":
			f.software(t)
			f.write(t, "proc/sys/net/core/rmem_max", "8388608")
			f.write(t, "proc/sys/net/core/wmem_max", "8388608")
		case "list":
			f.list(t, "node0,node1", 0)
		}
		rows, err := Examine(t.Context(), f.System, f.asked)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range rows {
			if !p.OK || p.Value == "" || p.Expected != "" || p.Fix != "" {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if err := verdict(rows); err != nil || len(rows) < 27 {
			t.Errorf("%s: %d rows, %v", name, len(rows), err)
		}
	}
}

// Each check is provoked to each verdict that it can come to.
func TestProvoked(t *testing.T) {
	const any = "00000000"
	for _, c := range []struct {
		name    string
		provoke func(*testing.T, *fake)
		check   string
		want    Verdict
		code    codes.Code
		says    string // in the value
		fix     string // at its beginning
	}{
		{"the library has no driver", func(t *testing.T, f *fake) {
			all := f.Providers()
			all[0].Devices, all[0].Err = nil, errors.New("libibverbs has no driver for it")
			f.Providers = func() []Provider { return all }
		}, "provider", Fail, codes.NoDevice, "no driver", "ringcli devices"},
		{"no adapter", func(t *testing.T, f *fake) { f.software(t) }, "provider", Skip, "", "no RDMA device", ""},
		{"no adapter, and one is asked for", func(t *testing.T, f *fake) { f.software(t); f.asked.Device = "ibv" }, "provider", Fail, codes.NoDevice, "no RDMA device", "ringcli devices"},
		{"no device leads there", func(t *testing.T, f *fake) {
			f.list(t, "node0,node1", 0)
			f.Choose = func(string, netip.Addr) (string, string, error) {
				return "", "", fmt.Errorf("device auto: %w", verbs.ErrNoDevice)
			}
		}, "device", Fail, codes.NoDevice, "no such device", "ringcli devices"},
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
		{"the interface's MTU is smaller than the port's", func(t *testing.T, f *fake) { f.write(t, "sys/class/net/eth0/mtu", "1500") }, "mtu", Fail, codes.MTU, "active 4096 of 4096, eth0 has 1500", "ip link set eth0 mtu 4200"},
		{"the port has not read it", func(t *testing.T, f *fake) { f.port.Attr.ActiveMTU = verbs.MTU1024 }, "mtu", Warn, codes.MTU, "active 1024", "ip link set eth0 down && ip link set eth0 up"},
		{"small, and so is the interface's", func(t *testing.T, f *fake) {
			f.port.Attr.ActiveMTU = verbs.MTU1024
			f.write(t, "sys/class/net/eth0/mtu", "1500")
		}, "mtu", Pass, "", "active 1024 of 4096, eth0 has 1500", ""},
		{"more than the port has is asked for", func(t *testing.T, f *fake) { f.port.Attr.ActiveMTU = verbs.MTU1024; f.asked.MTU = 4096 }, "mtu", Fail, codes.MTU, "active 1024", "ip link set eth0 mtu"},
		{"another network namespace", func(t *testing.T, f *fake) { f.remove(t, "sys/class/net") }, "mtu", Skip, "", "not in this network namespace", ""},
		{"PCIe trained down", func(t *testing.T, f *fake) { f.lanes(t, "8.0 x8", "16.0 x16", "16.0 x16") }, "pcie", Warn, codes.Slow, "8 GT/s x8, 63 Gbit/s", "lspci -vv -s " + card},
		{"fewer lanes", func(t *testing.T, f *fake) { f.lanes(t, "16.0 x8", "16.0 x16", "32.0 x16") }, "pcie", Warn, codes.Slow, "16 GT/s x8, 126 Gbit/s", "lspci"},
		{"a slower slot that is enough", func(t *testing.T, f *fake) { f.lanes(t, "16.0 x8", "32.0 x16", "16.0 x8") }, "pcie", Pass, "", "126 Gbit/s", ""},
		{"a slower slot", func(t *testing.T, f *fake) { f.lanes(t, "8.0 x8", "32.0 x16", "8.0 x8") }, "pcie", Warn, codes.Slow, "63 Gbit/s", "lspci"},
		{"virtio", func(t *testing.T, f *fake) { f.remove(t, "sys/class/infiniband/mlx5_0/device") }, "pcie", Skip, "", "no PCIe link", ""},
		{"ACS beside a GPU", func(t *testing.T, f *fake) {
			f.write(t, "sys/devices/pci0000:3a/"+bridge+"/config", string(acs(0x1d)))
			f.write(t, "sys/bus/pci/devices/"+gpu+"/class", "0x030200")
		}, "acs", Warn, codes.LocalProtection, "redirects", "for b in " + bridge + "; do setpci -s $b ECAP_ACS+6.w=0"},
		{"ACS without", func(t *testing.T, f *fake) { f.write(t, "sys/devices/pci0000:3a/"+bridge+"/config", string(acs(0x1d))) }, "acs", Pass, "", "no GPU", ""},
		{"ACS for root to see", func(t *testing.T, f *fake) {
			f.write(t, "sys/devices/pci0000:3a/"+bridge+"/config", string(make([]byte, 64)))
		}, "acs", Skip, "", "root alone", ""},
		{"a loop of capabilities", func(t *testing.T, f *fake) {
			b := make([]byte, 4096)
			binary.LittleEndian.PutUint32(b[0x100:], 0x10010001)
			f.write(t, "sys/devices/pci0000:3a/"+bridge+"/config", string(b))
		}, "acs", Pass, "", "off at " + bridge, ""},
		{"modules not loaded", func(t *testing.T, f *fake) {
			f.remove(t, "sys/module")
			f.remove(t, "sys/class/infiniband")
		}, "modules", Fail, codes.NoDevice, "not loaded: ib_uverbs, mlx5_ib", "modprobe -a ib_uverbs mlx5_ib"},
		{"uverbs not to be opened", func(t *testing.T, f *fake) {
			f.Writable = func(path string) error { return &fs.PathError{Op: "open", Path: path, Err: unix.EACCES} }
		}, "permission", Fail, codes.Permission, "/dev/infiniband/uverbs0: permission denied", "chmod a+rw /dev/infiniband/uverbs0"},
		{"a container without uverbs", func(t *testing.T, f *fake) { f.remove(t, "dev/infiniband") }, "permission", Fail, codes.NoDevice, "the kernel has mlx5_0", "modprobe ib_uverbs  # container: --device=/dev/infiniband"},
		{"memlock below the slots", func(t *testing.T, f *fake) { f.rlimit[unix.RLIMIT_MEMLOCK] = unix.Rlimit{Cur: 64 << 10} }, "memlock", Fail, codes.Memlock, "64 KiB", "ulimit -l unlimited"},
		{"memlock above the slots", func(t *testing.T, f *fake) { f.rlimit[unix.RLIMIT_MEMLOCK] = unix.Rlimit{Cur: 1 << 30} }, "memlock", Warn, codes.Memlock, "1024 MiB", "ulimit -l unlimited"},
		{"memlock and CAP_IPC_LOCK", func(t *testing.T, f *fake) {
			f.rlimit[unix.RLIMIT_MEMLOCK] = unix.Rlimit{Cur: 64 << 10}
			f.write(t, "proc/self/status", "CapEff:\t0000000000004000")
		}, "memlock", Pass, "", "CAP_IPC_LOCK", ""},
		{"memlock without a device", func(t *testing.T, f *fake) { f.software(t); f.rlimit[unix.RLIMIT_MEMLOCK] = unix.Rlimit{} }, "memlock", Skip, "", "no RDMA device", ""},
		{"no memfd", func(t *testing.T, f *fake) { f.Memfd = func() error { return unix.EPERM } }, "shared-memory", Warn, codes.Permission, "not permitted", "ringcli devices"},
		{"UDP held by a process", func(t *testing.T, f *fake) { f.software(t); f.holds(t, "udp", any+":12B7", "07", 4242) }, "udp-port", Warn, codes.PortTaken, "perftest, pid 4242, has 0.0.0.0:4791", "kill 4242"},
		{"UDP held by rxe", func(t *testing.T, f *fake) {
			f.software(t)
			f.holds(t, "udp", any+":12B7", "07", 0)
			f.write(t, "sys/module/rdma_rxe/refcnt", "1")
		}, "udp-port", Warn, codes.PortTaken, "the kernel's rdma_rxe has", "rdma link"},
		{"UDP held, and an adapter needs none", func(t *testing.T, f *fake) { f.holds(t, "udp", any+":12B7", "07", 4242) }, "udp-port", Pass, "", "without a socket", ""},
		{"UDP held at another address", func(t *testing.T, f *fake) {
			f.software(t)
			f.list(t, "node0,node1", 0)
			f.holds(t, "udp", "0200007F:12B7", "07", 4242)
		}, "udp-port", Pass, "", "free on 10.1.2.3", ""},
		{"TCP held", func(t *testing.T, f *fake) { f.holds(t, "tcp", any+":48A8", "0A", 4242) }, "tcp-port", Fail, codes.PortTaken, "perftest, pid 4242, has 0.0.0.0:18600", "kill 4242  # or another --tcp-port"},
		{"TCP held on loopback, by another ring", func(t *testing.T, f *fake) { f.holds(t, "tcp", "0200007F:48A8", "0A", 4242) }, "tcp-port", Pass, "", "free", ""},
		{"TCP held on loopback, and all addresses are bound", func(t *testing.T, f *fake) {
			f.list(t, "node0,node1", 0)
			f.holds(t, "tcp", "0200007F:48A8", "0A", 4242)
		}, "tcp-port", Fail, codes.PortTaken, "has 127.0.0.2:18600", "kill 4242"},
		{"TCP held by another user", func(t *testing.T, f *fake) { f.holds(t, "tcp", any+":48A8", "0A", 0) }, "tcp-port", Fail, codes.PortTaken, "another user", "ss -lunpt"},
		{"a connection at the port", func(t *testing.T, f *fake) { f.holds(t, "tcp", any+":48A8", "01", 4242) }, "tcp-port", Pass, "", "free", ""},
		{"TCP held by this very process", func(t *testing.T, f *fake) { f.holds(t, "tcp", any+":48A8", "0A", os.Getpid()) }, "tcp-port", Pass, "", "free", ""},
		{"ports that any connection may have", func(t *testing.T, f *fake) {
			f.software(t)
			f.write(t, "proc/sys/net/ipv4/ip_local_port_range", "1024 65535")
			f.write(t, "proc/sys/net/ipv4/ip_local_reserved_ports", "8000-8010")
		}, "ephemeral-ports", Warn, codes.PortTaken, "1024 to 65535", "sysctl -w net.ipv4.ip_local_reserved_ports=8000-8010,18600,4791"},
		{"reserved ones", func(t *testing.T, f *fake) {
			f.write(t, "proc/sys/net/ipv4/ip_local_port_range", "1024 65535")
			f.write(t, "proc/sys/net/ipv4/ip_local_reserved_ports", "18000-19000")
		}, "ephemeral-ports", Pass, "", "1024", ""},
		{"small socket buffers", func(t *testing.T, f *fake) { f.software(t) }, "socket-buffers", Warn, codes.Slow, "rmem_max 208 KiB", "sysctl -w net.core.rmem_max=8388608 net.core.wmem_max=8388608"},
		{"small, and a capability", func(t *testing.T, f *fake) {
			f.software(t)
			f.write(t, "proc/self/status", "CapEff:\t0000000000001000")
		}, "socket-buffers", Pass, "", "CAP_NET_ADMIN", ""},
		{"small, and an adapter", func(t *testing.T, f *fake) {}, "socket-buffers", Skip, "", "no soft device", ""},
		{"the own name is unknown", func(t *testing.T, f *fake) { f.Hostname = func() (string, error) { return "nobody", nil } }, "host-name", Warn, codes.HostUnknown, "no such host", "echo ADDRESS nobody >> /etc/hosts"},
		{"the own name is another's", func(t *testing.T, f *fake) { f.Hostname = func() (string, error) { return "old", nil } }, "host-name", Warn, codes.AddressForeign, "10.9.9.9", "getent hosts old"},
		{"the own name is loopback", func(t *testing.T, f *fake) { f.Hostname = func() (string, error) { return "debian", nil } }, "host-name", Pass, "", "127.0.1.1", ""},
		{"a name of the list is unknown", func(t *testing.T, f *fake) { f.list(t, "node0,nobody", 0) }, "names", Fail, codes.HostUnknown, "no such host", "getent hosts nobody"},
		{"names that do not come in time", func(t *testing.T, f *fake) {
			f.asked.Timeout = time.Millisecond
			f.Lookup = func(ctx context.Context, _ string) ([]netip.Addr, error) { <-ctx.Done(); return nil, ctx.Err() }
			f.list(t, "node0,node1", 0)
		}, "names", Fail, codes.HostUnknown, "deadline exceeded", "getent hosts node0"},
		{"another's index", func(t *testing.T, f *fake) { f.list(t, "10.1.2.3,10.1.2.4", 1) }, "address", Fail, codes.AddressForeign, "is --index 0 meant?", "ip address"},
		{"another's list", func(t *testing.T, f *fake) { f.list(t, "node1,old", -1) }, "address", Fail, codes.AddressForeign, "no entry", "ip address"},
		{"no index", func(t *testing.T, f *fake) { f.list(t, "node0,node1,node0", -1) }, "address", Pass, "", "10.1.2.3, entries 0, 2 of the list", ""},
		{"loopback, and neighbours elsewhere", func(t *testing.T, f *fake) { f.list(t, "127.0.0.1,node1", 0) }, "address", Fail, codes.AddressForeign, "127.0.0.1", "ip route get 10.1.2.4"},
		{"more ranks than CPUs", func(t *testing.T, f *fake) { f.cpus = 2; f.list(t, "node0,node0,node0", 0) }, "cpus", Warn, codes.Slow, "2 CPUs for 3 ranks", "taskset"},
		{"a quota, v2", func(t *testing.T, f *fake) {
			f.group(t, "", map[string]string{"cpu.max": "max 100000", "../cpu.max": "50000 100000", "../cpu.stat": "nr_periods 9\nnr_throttled 7"})
		}, "cgroup-cpu", Warn, codes.Slow, "0.5 CPUs for 1 rank, held up 7 times", "echo max > /sys/fs/cgroup/job/cpu.max"},
		{"a quota, v1", func(t *testing.T, f *fake) {
			f.group(t, "cpu", map[string]string{"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"})
		}, "cgroup-cpu", Warn, codes.Slow, "0.5 CPUs", "echo -1 > /sys/fs/cgroup/cpu/rank/cpu.cfs_quota_us"},
		{"a quota that is enough", func(t *testing.T, f *fake) { f.group(t, "", map[string]string{"cpu.max": "200000 100000"}) }, "cgroup-cpu", Pass, "", "2 CPUs", ""},
		{"no quota", func(t *testing.T, f *fake) {
			f.group(t, "cpu", map[string]string{"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"})
		}, "cgroup-cpu", Pass, "", "no limit", ""},
		{"memory, v2", func(t *testing.T, f *fake) { f.group(t, "", map[string]string{"memory.max": "1048576"}) }, "cgroup-memory", Fail, codes.Memory, "1024 KiB, of which 0 are in use", "echo"},
		{"memory is used", func(t *testing.T, f *fake) {
			f.group(t, "", map[string]string{"memory.max": "1073741824", "memory.current": "1073741824", "memory.stat": "inactive_file 1048576"})
		}, "cgroup-memory", Warn, codes.Memory, "1024 MiB, of which 1023 MiB are in use", "echo"},
		{"memory is files", func(t *testing.T, f *fake) {
			f.group(t, "", map[string]string{"memory.max": "1073741824", "memory.current": "1073741824", "memory.stat": "anon 1\ninactive_file 1073741824"})
		}, "cgroup-memory", Pass, "", "of which 0 are in use", ""},
		{"memory, v1", func(t *testing.T, f *fake) {
			f.group(t, "memory", map[string]string{"memory.limit_in_bytes": "1048576"})
		}, "cgroup-memory", Fail, codes.Memory, "1024 KiB", "echo"},
		{"no limit of memory, v1", func(t *testing.T, f *fake) {
			f.group(t, "memory", map[string]string{"memory.limit_in_bytes": "9223372036854771712"})
		}, "cgroup-memory", Pass, "", "no limit", ""},
		{"pids", func(t *testing.T, f *fake) {
			f.group(t, "pids", map[string]string{"pids.max": "100", "pids.current": "95"})
		}, "cgroup-pids", Fail, codes.Threads, "100, of which 95 are in use", "echo max > /sys/fs/cgroup/pids/rank/pids.max"},
		{"pids of the group above, v2", func(t *testing.T, f *fake) {
			f.group(t, "", map[string]string{"pids.max": "10", "pids.current": "-", "../pids.max": "100", "../pids.current": "99"})
		}, "cgroup-pids", Fail, codes.Threads, "100, of which 99", "echo max > /sys/fs/cgroup/job/pids.max"},
		{"threads", func(t *testing.T, f *fake) { f.Room = func(int) error { return exit.Codedf(codes.Threads, "too few") } }, "threads", Fail, codes.Threads, "too few", "ulimit -u"},
		{"little memory", func(t *testing.T, f *fake) { f.write(t, "proc/meminfo", "MemAvailable: 1024 kB") }, "memory", Warn, codes.Memory, "1024 KiB available", "ps"},
		{"few files", func(t *testing.T, f *fake) { f.rlimit[unix.RLIMIT_NOFILE] = unix.Rlimit{Cur: 40, Max: 4096} }, "open-files", Fail, codes.Descriptors, "40", "ulimit -n 1024"},
		{"some files, and a hard limit", func(t *testing.T, f *fake) { f.rlimit[unix.RLIMIT_NOFILE] = unix.Rlimit{Cur: 256, Max: 256} }, "open-files", Warn, codes.Descriptors, "256", "ulimit -n 1024  # by root: the hard limit is 256"},
		{"no huge pages", func(t *testing.T, f *fake) {
			f.write(t, "sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]")
		}, "huge-pages", Warn, codes.Slow, "never", "echo madvise > /sys/kernel/mm"},
		{"a kernel without", func(t *testing.T, f *fake) { f.remove(t, "sys/kernel") }, "huge-pages", Skip, "", "no transparent", ""},
		{"a clock that runs free", func(t *testing.T, f *fake) { f.Clock = func(*unix.Timex) (int, error) { return unix.TIME_ERROR, nil } }, "clock", Warn, codes.Preflight, "not synchronised", "timedatectl set-ntp true"},
		{"a clock that is not to be seen", func(t *testing.T, f *fake) { f.Clock = func(*unix.Timex) (int, error) { return 0, unix.EPERM } }, "clock", Skip, "", "adjtimex", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			c.provoke(t, f)
			rows, err := Examine(t.Context(), f.System, f.asked)
			if err != nil {
				t.Fatal(err)
			}
			p := find(t, rows, c.check)
			if p.Verdict != c.want || c.code != "" && p.Code != c.code || !strings.Contains(p.Value, c.says) || !strings.HasPrefix(p.Fix, c.fix) {
				t.Errorf("%+v: expected %s %s, value with %q, fix %q", p, c.want, c.code, c.says, c.fix)
			}
			if bad := p.Verdict == Fail || p.Verdict == Warn; bad == p.OK || bad && (p.Fix == "" || p.Code == "") || !bad && (p.Fix != "" || p.Expected != "") {
				t.Errorf("%+v: what is not well has a fix and a code, and what is well has none", p)
			}
		})
	}
}

// The graver verdict decides, and all are named.
func TestVerdict(t *testing.T) {
	warned := finding(Warn, "clock", "", "not synchronised")
	broken := finding(Fail, "port", "ibv:mlx5_0/1", "DOWN")
	for _, c := range []struct {
		rows []Preflight
		code int
		text string
	}{
		{[]Preflight{pass("gid", "", "x"), skip("acs", "", "y")}, exit.OK, ""},
		{[]Preflight{pass("gid", "", "x"), warned}, exit.Warning, "doctor: of 2 checks a warning: clock"},
		{[]Preflight{warned, broken}, exit.Critical, "doctor: of 2 checks failed: port of ibv:mlx5_0/1; a warning: clock"},
	} {
		err := verdict(c.rows)
		text := ""
		if err != nil {
			text = err.Error()
			if code, ok := codes.Of(err); !ok || code != codes.Preflight {
				t.Errorf("%v: code %q", err, code)
			}
		}
		if exit.Code(err) != c.code || text != c.text {
			t.Errorf("%d %q: expected %d %q", exit.Code(err), text, c.code, c.text)
		}
	}
}

// Ranks that found the same share a row; checks in which they differ come first, and of each
// the minority.
func TestMerge(t *testing.T) {
	mine := func(rank int) []Preflight {
		rows := []Preflight{pass("host-name", fmt.Sprintf("node%d", rank), "10.0.0.%d", rank), pass("memlock", "", "unlimited"), finding(Warn, "clock", "", "not synchronised")}
		if rank == 2 {
			rows[1] = finding(Fail, "memlock", "", "64 KiB").but(codes.Memlock, "unlimited", raiseMemlock)
		}
		return rows
	}
	var told []string
	for _, p := range merge([][]Preflight{mine(0), mine(1), mine(2), mine(3)}) {
		told = append(told, fmt.Sprintf("%v %s %s %s %s", p.Ranks, p.Verdict, p.Check, p.Of, p.Value))
	}
	want := []string{
		"[2] FAIL memlock  64 KiB", "[0 1 3] PASS memlock  unlimited",
		"[0 1 2 3] WARN clock  not synchronised",
		"[0 1 2 3] PASS host-name  10.0.0.0; other ranks differ",
	}
	if !slices.Equal(told, want) {
		t.Errorf("%q\nexpected\n%q", told, want)
	}
}

// Who is interrupted learns nothing.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := newFake(t)
	if rows, err := Examine(ctx, f.System, f.asked); !errors.Is(err, context.Canceled) || rows != nil {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// What is expected of socket buffers is what soft asks for: the kernel doubles it.
func TestSocketBuffer(t *testing.T) {
	c, err := udp.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if os.Geteuid() != 0 {
		t.Skip("not root: net.core.rmem_max may grant less")
	}
	if c.RecvBuffer() != 2*socketBuffer {
		t.Errorf("soft was granted %d bytes: expected twice %d", c.RecvBuffer(), socketBuffer)
	}
}
