package doctor

import (
	"fmt"
	"slices"
	"strings"

	"ringcli/configs/codes"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
	"ringcli/verbs/pcie"
	"ringcli/verbs/route"
)

func (e *exam) providerRows() (rows []Preflight) {
	asked, _, _ := strings.Cut(e.asked.Device, ":")
	for _, p := range e.providers {
		rdma := !p.Can.Software && !p.Can.HostLocal
		switch {
		case p.Err == nil:
			var names []string
			for _, d := range p.Devices {
				_, own, _ := strings.Cut(d.Name, ":")
				names = append(names, own)
			}
			rows = append(rows, pass("provider", p.Name, "%s", strings.Join(names, ", ")))
		case rdma && len(e.node.kernelDevices()) == 0 && asked != p.Name:
			rows = append(rows, skip("provider", p.Name, "%v", p.Err))
		case rdma || asked == p.Name || p.Can.Software:
			row := finding(Fail, "provider", p.Name, p.Err.Error())
			rows = append(rows, row.but(codes.NoDevice, "a device", "ringcli devices  # says why there is none"))
		default:
			row := finding(Warn, "provider", p.Name, p.Err.Error())
			rows = append(rows, row.but(codes.NoDevice, "a device", "ringcli devices  # ranks of this host send packets instead"))
		}
	}
	return rows
}

func (e *exam) deviceRow() Preflight {
	switch {
	case e.chosenErr != nil:
		return failed("device", e.asked.Device, e.chosenErr, "a device that leads to the neighbours", "ringcli devices  # then --device, or auto")
	case e.besideErr != nil:
		return failed("device", strings.Join(append([]string{e.asked.Device}, e.asked.Beside...), ","), e.besideErr, "devices of a network", "ringcli devices  # lists them")
	case e.chosen != "":
		return pass("device", e.chosen, "%s", e.why)
	}
	return skip("device", "", "which one a ring takes depends on its hosts: --list and --index say")
}

// portName is "ibv:mlx5_0/1".
func portName(p Port) string { return fmt.Sprintf("%s/%d", p.Device, p.Num) }

// active are the ports that are up.
func (e *exam) active() (list []Port) {
	for _, d := range e.devices {
		for _, p := range d.Ports {
			if p.Err == nil {
				list = append(list, p)
			}
		}
	}
	return list
}

// otherUp tells whether a port of the same provider is up.
func (e *exam) otherUp(d Device) bool {
	provider, _, _ := strings.Cut(d.Name, ":")
	return slices.ContainsFunc(e.active(), func(p Port) bool { return strings.HasPrefix(p.Device, provider+":") })
}

func (e *exam) portRows() (rows []Preflight) {
	for _, d := range e.devices {
		if d.Err != nil {
			rows = append(rows, failed("port", d.Name, d.Err, "a device that can be opened", "dmesg | tail  # and the row permission"))
		}
		for _, p := range d.Ports {
			if p.Err == nil {
				speed := ""
				if p.Attr.SpeedMbps > 0 {
					speed = fmt.Sprintf(", %g Gbit/s", float64(p.Attr.SpeedMbps)/1000)
				}
				rows = append(rows, pass("port", portName(p), "%s, %s%s", p.Attr.State, p.Attr.LinkLayer, speed))
				continue
			}
			// Many cards have a second port that nobody has a cable for.
			v := Fail
			if d.Name != e.chosen && d.Name != e.asked.Device && e.otherUp(d) {
				v = Warn
			}
			fix := "sminfo  # and the cable, the other end, the subnet manager"
			if p.Attr.LinkLayer != verbs.LinkInfiniBand {
				fix = fmt.Sprintf("ip link set %s up  # and the cable, the switch's port", orName(p.Attr.NetDev))
			}
			row := finding(v, "port", portName(p), fmt.Sprintf("%s, %s", p.Attr.State, orName(p.Attr.PhysState)))
			rows = append(rows, row.but(diagnose.FailureCode(p.Err), verbs.PortActive.String(), fix))
		}
	}
	if rows == nil {
		rows = append(rows, skip("port", "", "no device has one"))
	}
	return rows
}

func orName(netdev string) string {
	if netdev == "" {
		return "DEV"
	}
	return netdev
}

func (e *exam) gidRows() (rows []Preflight) {
	for _, p := range e.active() {
		of := portName(p)
		if p.Attr.LinkLayer == verbs.LinkInfiniBand && p.Attr.LID == 0 {
			rows = append(rows, finding(Fail, "gid", of, "no LID").but(codes.AddressMismatch, "one that a subnet manager gave", "sminfo  # says which there is; opensm is one"))
			continue
		}
		c, err := p.Choose(route.Want{Index: e.asked.GIDIndex, Local: e.local, Peers: e.neighbours()})
		fix := fmt.Sprintf("ip address add ADDRESS/LENGTH dev %s", orName(p.Attr.NetDev))
		if err != nil {
			rows = append(rows, failed("gid", of, err, "one that leads to the neighbours", fix))
			continue
		}
		row := pass("gid", of, "%d %s %s: %s", c.Entry.Index, c.Entry.GID, c.Entry.Type, c.Reason)
		ethernet := p.Attr.LinkLayer != verbs.LinkInfiniBand
		switch {
		case ethernet && c.Entry.Type != verbs.GIDTypeRoCEv2:
			row = finding(Warn, "gid", of, row.Value).but(codes.NoGID, "RoCE v2, which passes routers and soft devices speak", fix)
		case ethernet && c.Entry.GID.Addr().IsLinkLocalUnicast():
			row = finding(Warn, "gid", of, row.Value).but(codes.NoGID, "an address that is not link-local", fix)
		}
		rows = append(rows, row)
	}
	if rows == nil {
		rows = append(rows, skip("gid", "", "no port is up"))
	}
	return rows
}

const (
	// leastHeaders and mostHeaders are what RoCE v2 adds to the payload of a WRITE with an
	// immediate: IPv4, UDP, BTH, RETH, ImmDt and ICRC; and what the kernel leaves for the
	// longest (Linux include/rdma/ib_addr.h, iboe_get_mtu).
	leastHeaders = 20 + 8 + 12 + 16 + 4 + 4
	mostHeaders  = 40 + 8 + 12 + 4 + 28 + 4
	// jumbo is the least MTU of an interface that the largest of a port fits.
	jumbo = 4200
)

func (e *exam) mtuRows() (rows []Preflight) {
	for _, p := range e.active() {
		of, active := portName(p), p.Attr.ActiveMTU.Bytes()
		if e.asked.MTU > active {
			rows = append(rows, finding(Fail, "mtu", of, fmt.Sprintf("active %d", active)).but(codes.MTU, fmt.Sprintf("at least the --mtu of %d", e.asked.MTU),
				fmt.Sprintf("ip link set %s mtu %d  # on all nodes and switches; or a smaller --mtu", orName(p.Attr.NetDev), jumbo)))
			continue
		}
		link, known := e.node.number("sys/class/net/" + p.Attr.NetDev + "/mtu")
		switch {
		case p.Attr.LinkLayer == verbs.LinkInfiniBand:
			rows = append(rows, pass("mtu", of, "active %d of %d", active, p.Attr.MaxMTU.Bytes()))
			continue
		case p.Attr.NetDev == "" || !known:
			rows = append(rows, skip("mtu", of, "active %d; its interface is not in this network namespace", active))
			continue
		}
		fits := 0
		for m := verbs.MTU256; m <= p.Attr.MaxMTU; m++ {
			if uint64(m.Bytes()+mostHeaders) <= link {
				fits = m.Bytes()
			}
		}
		value := fmt.Sprintf("active %d of %d, %s has %d", active, p.Attr.MaxMTU.Bytes(), p.Attr.NetDev, link)
		switch {
		case uint64(active+leastHeaders) > link:
			rows = append(rows, finding(Fail, "mtu", of, value).but(codes.MTU, fmt.Sprintf("%d or more of %s", active+leastHeaders, p.Attr.NetDev),
				fmt.Sprintf("ip link set %s mtu %d  # on all nodes and switches; or a smaller --mtu", p.Attr.NetDev, jumbo)))
		case active < fits:
			rows = append(rows, finding(Warn, "mtu", of, value).but(codes.MTU, fmt.Sprintf("active %d, which fits %s", fits, p.Attr.NetDev),
				fmt.Sprintf("ip link set %s down && ip link set %s up  # the device reads it then", p.Attr.NetDev, p.Attr.NetDev)))
		default:
			rows = append(rows, pass("mtu", of, "%s", value))
		}
	}
	if rows == nil {
		rows = append(rows, skip("mtu", "", "no port is up"))
	}
	return rows
}

// driverOf are the modules that make RDMA devices of PCI cards which are for nothing less.
var driverOf = map[string]string{"0x15b3": "mlx5_ib", "0x1d0f": "efa"}

func (e *exam) moduleRow() Preflight {
	missing, cards := e.node.kernelNeeds()
	switch {
	case len(missing) > 0:
		return finding(Fail, "modules", "", "not loaded: "+strings.Join(missing, ", ")).but(codes.NoDevice, "loaded, for "+strings.Join(append(cards, e.node.kernelDevices()...), ", "),
			"modprobe -a "+strings.Join(missing, " "))
	case len(e.node.kernelDevices()) > 0:
		return pass("modules", "", "loaded for %s", strings.Join(e.node.kernelDevices(), ", "))
	}
	return skip("modules", "", "no RDMA card here; `modprobe rdma_rxe` would make a device of any interface")
}

func (e *exam) permissionRows() (rows []Preflight) {
	for _, n := range e.node.list("dev/infiniband") {
		if !strings.HasPrefix(n, "uverbs") {
			continue
		}
		path := "/dev/infiniband/" + n
		if err := e.Writable(path); err != nil {
			rows = append(rows, failed("permission", n, err, "readable and writable",
				fmt.Sprintf("chmod a+rw %s  # udev: a rule with MODE=\"0666\"; container: --device=%s", path, path)))
			continue
		}
		rows = append(rows, pass("permission", n, "%s opens", path))
	}
	switch {
	case rows != nil:
	case len(e.node.kernelDevices()) > 0:
		rows = append(rows, finding(Fail, "permission", "uverbs", "/dev/infiniband has none, and the kernel has "+strings.Join(e.node.kernelDevices(), ", ")).
			but(codes.NoDevice, "/dev/infiniband/uverbs*", "modprobe ib_uverbs  # container: --device=/dev/infiniband --ulimit memlock=-1"))
	default:
		rows = append(rows, skip("permission", "uverbs", "no RDMA device here"))
	}
	return rows
}

// kernelNeeds are the modules that cards here ask for and that are not loaded.
func (m machine) kernelNeeds() (missing, cards []string) {
	need := map[string]bool{}
	for _, address := range m.list(pcie.Devices) {
		dir := pcie.Devices + "/" + address
		class, vendor, id := m.text(dir+"/class"), m.text(dir+"/vendor"), m.text(dir+"/device")
		module := driverOf[vendor]
		network := strings.HasPrefix(class, "0x02") && (vendor != "0x1d0f" || strings.HasPrefix(id, "0xefa"))
		if module == "" || !network {
			continue
		}
		if vendor == "0x15b3" && strings.HasPrefix(id, "0x100") && id < "0x1011" {
			module = "mlx4_ib" // ConnectX-3
		}
		cards, need[module] = append(cards, address), true
	}
	if len(cards) > 0 || len(m.kernelDevices()) > 0 {
		need["ib_uverbs"] = true
	}
	for module := range need {
		if !slices.Contains(m.list("sys/module"), module) {
			missing = append(missing, module)
		}
	}
	slices.Sort(missing)
	return missing, cards
}
