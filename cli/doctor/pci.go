package doctor

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"ringcli/configs/codes"
	"ringcli/verbs/pcie"
)

func (e *exam) pcieRows() (rows []Preflight) {
	for _, d := range e.devices {
		place := e.node.placeOf(d.Name)
		now, best, known := place.Links(e.Files)
		if !known {
			rows = append(rows, skip("pcie", d.Name, "it has no PCIe link that can be seen"))
			continue
		}
		fix := fmt.Sprintf("lspci -vv -s %s | grep Lnk  # seat the card anew; another slot; BIOS", place.Card)
		value := fmt.Sprintf("%s, %.0f Gbit/s", now, now.Gbits())
		fastest := 0
		for _, p := range d.Ports {
			if p.Err == nil {
				fastest = max(fastest, p.Attr.SpeedMbps)
			}
		}
		switch {
		case now.Rate() < best.Rate():
			rows = append(rows, finding(Warn, "pcie", d.Name, value).but(codes.Slow, best.String()+", which card and slot can do", fix))
		case now.Gbits()*1000 < float64(fastest):
			rows = append(rows, finding(Warn, "pcie", d.Name, value).but(codes.Slow, fmt.Sprintf("as much as the port's %g Gbit/s", float64(fastest)/1000), fix))
		default:
			rows = append(rows, pass("pcie", d.Name, "%s", value))
		}
	}
	if rows == nil {
		rows = append(rows, skip("pcie", "", "no device"))
	}
	return rows
}

// Extended capabilities of PCI Express, and what Access Control Services redirect to the
// root: requests and completions between two cards, and what comes up (PCI Express Base
// Specification, 7.7.11; Linux include/uapi/linux/pci_regs.h).
const (
	extended    = 0x100
	capACS      = 0x0d
	acsControl  = 6
	acsRedirect = 1<<2 | 1<<3 | 1<<4
)

// redirects tells whether a bridge sends what its cards say to each other up to the root.
func redirects(config []byte) bool {
	for at, steps := extended, 0; at >= extended && at+8 <= len(config) && steps < 64; steps++ {
		header := binary.LittleEndian.Uint32(config[at:])
		if header&0xffff == capACS {
			return binary.LittleEndian.Uint16(config[at+acsControl:])&acsRedirect != 0
		}
		at = int(header >> 20)
	}
	return false
}

// bridges are those above each device, and above each GPU.
func (e *exam) bridges() (list [][]string) {
	for _, d := range e.devices {
		list = append(list, e.node.placeOf(d.Name).Bridges)
	}
	for _, g := range e.node.allGPUs() {
		list = append(list, pcie.At(e.Files, g.address).Bridges)
	}
	return list
}

func (e *exam) acsRow() Preflight {
	var seen, on []string
	hidden := false
	for _, above := range e.bridges() {
		for _, b := range above {
			if slices.Contains(seen, b) {
				continue
			}
			seen = append(seen, b)
			config, err := fs.ReadFile(e.Files, pcie.Devices+"/"+b+"/config")
			hidden = hidden || err != nil || len(config) <= extended
			if redirects(config) {
				on = append(on, b)
			}
		}
	}
	switch {
	case len(seen) == 0:
		return skip("acs", "", "no bridge above a device or a GPU")
	case len(on) > 0 && e.node.hasGPU():
		return finding(Warn, "acs", strings.Join(on, ","), "redirects what cards say to each other up to the root").but(codes.LocalProtection, "off, or GPU memory is slow or out of reach",
			fmt.Sprintf("for b in %s; do setpci -s $b ECAP_ACS+6.w=0; done  # at each boot; virtual machines want it on", strings.Join(on, " ")))
	case len(on) > 0:
		return pass("acs", strings.Join(on, ","), "on; there is no GPU whose memory it would keep from a card")
	case hidden:
		return skip("acs", "", "root alone may read the bridges' configuration space")
	}
	return pass("acs", "", "off at %s", strings.Join(seen, ", "))
}

// placeOf is where a device is on PCIe.
func (m machine) placeOf(device string) pcie.Place {
	provider, own, _ := strings.Cut(device, ":")
	if provider == "soft" {
		return pcie.Find(m.FS, "sys/class/net/"+own)
	}
	return pcie.Find(m.FS, "sys/class/infiniband/"+own)
}
