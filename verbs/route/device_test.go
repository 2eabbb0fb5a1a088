package route

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"ringcli/verbs"
	_ "ringcli/verbs/soft"
)

func TestResolve(t *testing.T) {
	fabric := gid("fe80::7")
	interfaces := map[string]net.Interface{
		"10.0.0.1": {Name: "eth0"}, "10.1.0.1": {Name: "eth1"}, "10.9.0.1": {Name: "tun0"}, "127.0.0.1": {Name: "lo"},
		"10.7.0.1": {Name: "eth7", Flags: net.FlagBroadcast}, "10.8.0.1": {Name: "eth8", Flags: net.FlagUp},
		"10.2.0.1": {Name: "ib0", HardwareAddr: append([]byte{0x80, 0, 1, 8}, fabric[:]...)},
	}
	interfaceOf := func(a netip.Addr) (net.Interface, error) {
		i, ok := interfaces[a.String()]
		if !ok {
			return i, fmt.Errorf("%s is not an address of this machine: %w", a, verbs.ErrInvalid)
		}
		if i.Flags == 0 {
			i.Flags = net.FlagUp | net.FlagRunning
		}
		return i, nil
	}
	eth := func(gids ...string) Port { return port(verbs.LinkEthernet, gids...) }
	down := eth("0 v2 10.1.0.1 eth1")
	down.Attr.State = verbs.PortDown
	onLo := eth("0 v2 127.0.0.1 lo")
	onLo.Attr.NetDev = "lo"
	on := func(netdev, gid string) Port {
		p := eth("0 v2 " + gid + " " + netdev)
		p.Attr.NetDev = netdev
		return p
	}
	software := provider{name: "soft", can: verbs.Capabilities{Software: true}, devices: []verbs.Device{
		device{name: "soft:lo", ports: []Port{onLo}}, device{name: "soft:eth0", ports: []Port{on("eth0", "10.0.0.1")}},
		device{name: "soft:eth1", ports: []Port{on("eth1", "10.1.0.1")}}, device{name: "soft:ib0", ports: []Port{on("ib0", "10.2.0.1")}},
	}}
	memory := provider{name: "shm", can: verbs.Capabilities{HostLocal: true}, devices: []verbs.Device{device{name: "shm:0", ports: []Port{eth("0 v2 10.0.0.1 eth0")}}}}
	hardware := provider{name: "ibv", devices: []verbs.Device{
		device{name: "ibv:broken", err: errors.New("permission denied")},
		device{name: "ibv:down", ports: []Port{down}},
		device{name: "ibv:mlx5_0", ports: []Port{eth("0 v1 10.1.0.1 eth1", "1 v2 10.0.0.1 eth0"), eth("1 v2 10.1.0.1 eth1")}},
		device{name: "ibv:mlx5_1", ports: []Port{port(verbs.LinkInfiniBand, "0 ib fe80::7 ib0")}},
	}}
	absent := provider{name: "ibv", err: errors.New("libibverbs.so.1 is not installed")}
	for name, c := range map[string]struct {
		providers []verbs.Provider
		device    string
		local     string
		want      string
		why       []string // pieces of the reason, or of the error
	}{
		"rdma before soft":      {[]verbs.Provider{software, hardware}, "auto", "10.0.0.1", "ibv:mlx5_0", []string{"port 1 is active", "RoCE v2 GID 1"}},
		"empty is auto":         {[]verbs.Provider{hardware, software}, "", "10.0.0.1", "ibv:mlx5_0", []string{"10.0.0.1"}},
		"IPoIB":                 {[]verbs.Provider{software, hardware}, "auto", "10.2.0.1", "ibv:mlx5_1", []string{"IPoIB interface ib0"}},
		"down, v1, second port": {[]verbs.Provider{hardware, software}, "auto", "10.1.0.1", "soft:eth1", []string{"permission denied", "DOWN", "--device ibv:mlx5_0 --port 2"}},
		"provider with an error": {[]verbs.Provider{absent, software}, "auto", "10.0.0.1", "soft:eth0",
			[]string{"interface eth0 has 10.0.0.1", "libibverbs.so.1 is not installed"}},
		"host-local is not looked at": {[]verbs.Provider{memory, software}, "auto", "10.0.0.1", "soft:eth0", []string{"interface eth0 has 10.0.0.1"}},
		"soft only":                   {[]verbs.Provider{software}, "auto", "10.0.0.1", "soft:eth0", []string{"interface eth0 has 10.0.0.1"}},
		"no soft device":              {[]verbs.Provider{absent, software}, "auto", "10.9.0.1", "", []string{"interface tun0", "is it up?", "libibverbs"}},
		"down":                        {[]verbs.Provider{absent, software}, "auto", "10.7.0.1", "", []string{"10.7.0.1 is an address of eth7, which is down: ip link set eth7 up"}},
		"no carrier":                  {[]verbs.Provider{software}, "soft", "10.8.0.1", "", []string{"10.8.0.1 is an address of eth8, which is up and has no carrier"}},
		"not of this machine":         {[]verbs.Provider{absent, software}, "auto", "192.0.2.1", "", []string{"192.0.2.1 is not an address of this machine"}},
		"provider, fits":              {[]verbs.Provider{software, hardware}, "soft", "10.1.0.1", "soft:eth1", []string{"10.1.0.1"}},
		"provider, loopback":          {[]verbs.Provider{software}, "soft", "127.0.0.1", "soft:lo", []string{"127.0.0.1"}},
		"provider, none fits":         {[]verbs.Provider{software}, "soft", "192.0.2.1", "soft:lo", []string{"the first of provider soft"}},
		"provider, absent":            {[]verbs.Provider{absent, software}, "ibv", "10.0.0.1", "", []string{"libibverbs.so.1 is not installed"}},
		"by its own name":             {[]verbs.Provider{software, hardware}, "mlx5_1", "10.0.0.1", "ibv:mlx5_1", []string{"was asked for"}},
		"a name of two providers":     {[]verbs.Provider{software, provider{name: "ibv", devices: []verbs.Device{device{name: "ibv:eth0"}}}}, "eth0", "10.0.0.1", "", []string{`"eth0"`, "soft:eth0 or ibv:eth0"}},
		"unknown":                     {[]verbs.Provider{absent, software}, "mlx5_0", "10.0.0.1", "", []string{`"mlx5_0"`, "provider:device", "ibv, soft"}},
	} {
		d, why, err := resolve(c.providers, c.device, addr(c.local), interfaceOf)
		if c.want == "" {
			if err == nil || !says(err.Error(), c.why...) || !errors.Is(err, verbs.ErrNoDevice) && !errors.Is(err, verbs.ErrInvalid) && !errors.Is(err, verbs.ErrPortDown) {
				t.Errorf("%s: %v, %v: expected an error with %q", name, d, err, c.why)
			}
			continue
		}
		if err != nil || d.Name() != c.want || !says(why, append(c.why, c.want)...) {
			t.Errorf("%s: %v, %q, %v: expected %s and %q", name, d, why, err, c.want, c.why)
		}
	}
}

// An interface whose carrier comes or goes while its device is looked for is waited for: no
// other device has its address.
func TestResolveWhileTheCarrierComes(t *testing.T) {
	eth0 := port(verbs.LinkEthernet, "0 v2 10.0.0.1 eth0")
	eth0.Attr.NetDev, eth0.Attr.State = "eth0", verbs.PortDown
	soft := provider{name: "soft", can: verbs.Capabilities{Software: true}, devices: []verbs.Device{device{name: "soft:lo", ports: []Port{port(verbs.LinkEthernet)}}, device{name: "soft:eth0", ports: []Port{eth0}}}}
	const up, running = net.FlagUp, net.FlagUp | net.FlagRunning
	for _, flags := range [][]net.Flags{{up, up}, {running, up}, {up, running}} {
		looks := 0
		_, _, err := resolve([]verbs.Provider{soft}, "soft", addr("10.0.0.1"), func(netip.Addr) (net.Interface, error) {
			looks++
			return net.Interface{Name: "eth0", Flags: flags[min(looks, len(flags))-1]}, nil
		})
		if !errors.Is(err, verbs.ErrPortDown) || !strings.Contains(err.Error(), "no carrier") {
			t.Errorf("%v: %v: expected that eth0 has no carrier", flags, err)
		}
	}
}

func TestResolveHostLocal(t *testing.T) {
	memory := provider{name: "memory", can: verbs.Capabilities{HostLocal: true}, devices: []verbs.Device{device{name: "memory:0"}}}
	nowhere := func(netip.Addr) (net.Interface, error) { return net.Interface{}, verbs.ErrInvalid }
	if d, why, err := resolve([]verbs.Provider{memory}, "memory", addr("192.0.2.1"), nowhere); err != nil || d.Name() != "memory:0" || why != "memory was asked for" {
		t.Errorf("a host-local provider asked for from an address of nobody: %v, %q, %v", d, why, err)
	}
}

func TestDevice(t *testing.T) {
	for _, name := range []string{"soft:lo", "soft", "lo", "auto", ""} {
		if d, why, err := Device(name, addr("127.0.0.1")); err != nil || d.Name() != "soft:lo" || why == "" {
			t.Errorf("%q on soft:lo: %v, %q, %v: expected soft:lo", name, d, why, err)
		}
	}
	if _, _, err := Device("soft:none", addr("127.0.0.1")); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("soft:none: %v", err)
	}
}

func TestNetDev(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "127.99.1.2"} {
		if dev, err := NetDev(addr(a)); err != nil || dev.Name != "lo" {
			t.Errorf("%s is on %q, %v: expected lo", a, dev.Name, err)
		}
	}
	if _, err := NetDev(addr("192.0.2.77")); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("an address of nobody: %v", err)
	}
}
