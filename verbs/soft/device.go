package soft

import (
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"ringcli/verbs"
	"ringcli/verbs/objects"
)

func init() { verbs.Register(provider{}) }

// deviceLimits are what every soft device can do.
var deviceLimits = func() verbs.DeviceAttr {
	a := objects.Limits()
	a.Capabilities = verbs.Capabilities{Software: true, UDPSocket: true}
	a.FirmwareVersion, a.MaxQP, a.AtomicCap = "user space RoCEv2", 1<<16, verbs.AtomicHCA
	return a
}()

type provider struct{}

func (provider) Name() string                     { return "soft" }
func (provider) Capabilities() verbs.Capabilities { return deviceLimits.Capabilities }

// Devices implements verbs.Provider: one device for each network interface that
// is up and has an address.
func (provider) Devices() ([]verbs.Device, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var devices []verbs.Device
	for _, i := range interfaces {
		if d := (device{netdev: i.Name}); i.Flags&net.FlagUp != 0 {
			if addrs, err := d.addrs(); err == nil && len(addrs) > 0 {
				devices = append(devices, d)
			}
		}
	}
	if len(devices) == 0 {
		return nil, fmt.Errorf("no network interface is up and has an address")
	}
	return devices, nil
}

// device is a network interface.
type device struct{ netdev string }

func (d device) Name() string { return "soft:" + d.netdev }

// addrs returns the addresses that serve as GIDs. Link-local ones would need a
// zone, which a GID does not carry.
func (d device) addrs() ([]netip.Addr, error) {
	i, err := net.InterfaceByName(d.netdev)
	if err != nil {
		return nil, fmt.Errorf("device soft:%s: %w: %w", d.netdev, verbs.ErrNoDevice, err)
	}
	list, err := i.Addrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of %s: %w", d.netdev, err)
	}
	var addrs []netip.Addr
	for _, a := range list {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if addr, ok := netip.AddrFromSlice(n.IP); ok && !addr.IsLinkLocalUnicast() {
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs, nil
}

// Open implements verbs.Device. The socket is bound when the first queue pair is
// created.
func (d device) Open(o verbs.OpenOptions) (verbs.Context, error) {
	addrs, err := d.addrs()
	if err != nil {
		return nil, err
	}
	local := o.LocalAddr.Unmap()
	if !local.IsValid() {
		if len(addrs) == 0 {
			return nil, fmt.Errorf("open soft:%s: %w: the interface has no address", d.netdev, verbs.ErrNoDevice)
		}
		local = addrs[0]
	}
	if !slices.Contains(addrs, local) {
		ofLoopback := func(a netip.Addr) bool { return a.Is4() && a.IsLoopback() }
		if !local.IsLoopback() || !slices.ContainsFunc(addrs, ofLoopback) {
			return nil, fmt.Errorf("open soft:%s on %s: %w: its addresses are %v", d.netdev, local, verbs.ErrInvalid, addrs)
		}
		addrs = append(addrs, local) // all of 127.0.0.0/8 is local to lo
	}
	c := &Context{device: d, options: o, local: local, gids: addrs}
	guid := fnv.New64a()
	_, _ = guid.Write([]byte(d.Name()))
	for _, a := range addrs {
		b := a.As16()
		_, _ = guid.Write(b[:])
	}
	c.Init(c, d, &deviceLimits, guid.Sum64())
	return c, nil
}

// port reads the interface's state as a port's.
func (d device) port() (verbs.PortAttr, error) {
	i, err := net.InterfaceByName(d.netdev)
	if err != nil {
		return verbs.PortAttr{}, fmt.Errorf("device soft:%s: %w: %w", d.netdev, verbs.ErrNoDevice, err)
	}
	a := verbs.PortAttr{
		State: verbs.PortDown, PhysState: "Disabled", MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU256,
		LinkLayer: verbs.LinkEthernet, NetDev: d.netdev, MaxMsgSz: verbs.MaxMessage, PKeyTableSz: 1, MaxVLNum: 1,
	}
	if m, ok := pathMTU(i.MTU); ok {
		a.ActiveMTU = m
	}
	if i.Flags&net.FlagUp != 0 {
		a.State, a.PhysState = verbs.PortInit, "Polling"
	}
	if i.Flags&net.FlagRunning != 0 {
		a.State, a.PhysState = verbs.PortActive, "LinkUp"
	}
	if b, err := os.ReadFile("/sys/class/net/" + d.netdev + "/speed"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && n > 0 {
			a.SpeedMbps = n
			a.ActiveWidth, a.ActiveSpeed = laneCodes(n)
		}
	}
	return a, nil
}

// linkOverhead is what Linux rdma_rxe subtracts from a network device's MTU
// (RXE_MAX_HDR_LENGTH in rxe_param.h). A peer's choice must be met exactly, so
// it is used as it is, although IPv4 and the longest headers need less.
const linkOverhead = 80

// pathMTU returns the greatest path MTU that fits a network device with an MTU of
// linkMTU bytes, as in Linux rdma_rxe: 1500 gives 1024. ok is false below 336 bytes,
// where none fits.
func pathMTU(linkMTU int) (m verbs.MTU, ok bool) {
	for m = verbs.MTU4096; m >= verbs.MTU256; m-- {
		if m.Bytes() <= linkMTU-linkOverhead {
			return m, true
		}
	}
	return 0, false
}

// laneCodes are active_width and active_speed of an Ethernet link, as the kernel
// names it to RDMA devices (ib_get_width_and_speed); zeros for a speed that the
// codes have no word for.
func laneCodes(mbps int) (width uint8, speed uint32) {
	const (
		x1, x4, x2                  = 1, 2, 16 // lanes
		fdr10, edr, hdr, ndr uint32 = 8, 32, 64, 128
	)
	c := map[int]struct {
		width uint8
		speed uint32
	}{
		10000: {x1, fdr10}, 25000: {x1, edr}, 40000: {x4, fdr10}, 50000: {x2, edr},
		100000: {x4, edr}, 200000: {x4, hdr}, 400000: {x4, ndr},
	}[mbps]
	return c.width, c.speed
}
