package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/ring/bootstrap/hosts"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// fake is a node in good health with one adapter, which a test changes before it is looked at.
type fake struct {
	System
	asked  Asked
	files  fstest.MapFS
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

// mac is that of the host that has an address.
func mac(a netip.Addr) net.HardwareAddr { return append(net.HardwareAddr{2, 0}, a.AsSlice()...) }

func newFake(t *testing.T) *fake {
	t.Helper()
	local := address("10.1.2.3")
	f := &fake{
		files: fstest.MapFS{}, cpus: 8,
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
		f.write(path, text)
	}
	f.write("sys/devices/pci0000:3a/"+bridge+"/config", string(acs(0)))
	f.link("sys/class/infiniband/mlx5_0/device", "../../../devices/pci0000:3a/"+bridge+"/"+card)
	f.link("sys/bus/pci/devices/"+card, "../../../devices/pci0000:3a/"+bridge+"/"+card)
	f.link("sys/bus/pci/devices/"+bridge, "../../../devices/pci0000:3a/"+bridge)
	f.System = System{
		Files: f.files,
		Limit: func(resource int) (unix.Rlimit, error) { return f.rlimit[resource], nil },
		Room:  func(int) error { return nil }, Ruleset: func() (string, error) { return "", nil },
		Clock: func(x *unix.Timex) (int, error) { x.Maxerror = 1500; return unix.TIME_OK, nil },
		CPUs:  func() ([]int, error) { return make([]int, f.cpus), nil }, Hostname: func() (string, error) { return "node0", nil },
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			a, found := map[string]string{"node0": "10.1.2.3", "node1": "10.1.2.4", "old": "10.9.9.9", "debian": "127.0.1.1"}[host]
			if !found {
				return nil, errors.New("no such host")
			}
			return []netip.Addr{address(a), address("fd00::1")}, nil
		},
		Env: func(string) string { return "" }, Writable: func(string) error { return nil }, Memfd: func() error { return nil },
		Choose: func(string, netip.Addr) (string, string, error) { return "ibv:mlx5_0", "its port 1 is active", nil },
		Local:  func(a netip.Addr) bool { return a == local || a.IsLoopback() },
		Route:  func(netip.AddrPort) (netip.Addr, error) { return local, nil },
		Hop: func(_, to netip.Addr) (route.Hop, error) {
			return route.Hop{NetDev: "eth0", Local: to.IsLoopback()}, nil
		},
		Network: func(netip.Addr) (string, netip.Prefix) { return "eth0", netip.PrefixFrom(local, 24) },
		Owners: func(_ context.Context, _ string, addrs []netip.Addr) (map[netip.Addr][]net.HardwareAddr, error) {
			owners := map[netip.Addr][]net.HardwareAddr{}
			for _, a := range addrs {
				if a != local {
					owners[a] = []net.HardwareAddr{mac(a)}
				}
			}
			return owners, nil
		},
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

func (f *fake) write(path, text string) {
	f.files[path] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
}

func (f *fake) link(path, to string) {
	f.files[path] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink}
}

func (f *fake) remove(path string) {
	maps.DeleteFunc(f.files, func(name string, _ *fstest.MapFile) bool { return name == path || strings.HasPrefix(name, path+"/") })
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
func (f *fake) software() {
	f.remove("sys/class/infiniband")
	f.remove("sys/bus/pci")
	f.remove("dev/infiniband")
	all := f.Providers()
	all[0].Devices, all[0].Err = nil, errors.New("no RDMA device")
	f.Providers = func() []Provider { return all }
	f.Choose = func(string, netip.Addr) (string, string, error) { return "soft:eth0", "interface eth0 has it", nil }
}

// rates are a card's own link and its bridge's.
func (f *fake) lanes(now, own, slot string) {
	for path, value := range map[string]string{bridge + "/" + card + "/current": now, bridge + "/" + card + "/max": own, bridge + "/max": slot} {
		speed, width, _ := strings.Cut(value, " x")
		f.write("sys/devices/pci0000:3a/"+path+"_link_speed", speed+" GT/s PCIe")
		f.write("sys/devices/pci0000:3a/"+path+"_link_width", width)
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
func (f *fake) group(controller string, files map[string]string) {
	dir := "sys/fs/cgroup/job/rank"
	mount, own := "30 1 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "0::/job/rank"
	if controller != "" {
		dir = "sys/fs/cgroup/" + controller + "/rank"
		// The group is what the container sees as the root of its mount.
		mount, own = "30 1 0:25 /docker/1f /sys/fs/cgroup/"+controller+" rw - cgroup cgroup rw,"+controller, "4:"+controller+":/docker/1f/rank\n0::/"
	}
	f.write("proc/self/mountinfo", "22 1 0:20 / /proc rw - proc proc rw\n"+mount+"\n")
	f.write("proc/self/cgroup", own+"\n")
	for name, text := range files {
		f.write(path.Join(dir, name), text)
	}
}

// holds has a process hold a socket at a port.
func (f *fake) holds(protocol, local, state string, pid int) {
	f.write("proc/net/"+protocol, fmt.Sprintf("  sl  local_address rem_address   st\n   1: %s 00000000:0000 %s 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 10 0\n", local, state))
	if pid > 0 {
		f.write(fmt.Sprintf("proc/%d/comm", pid), "perftest\n")
		f.link(fmt.Sprintf("proc/%d/fd/7", pid), "socket:[4711]")
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
