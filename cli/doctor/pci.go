package doctor

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"ringcli/configs/codes"
)

// pci has a link for each card and bridge.
const pci = "sys/bus/pci/devices"

var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// cardOf is the PCI address of a device, and those of the bridges above, from the top. Empty
// if it has none: it is made in software, or virtio.
func (e *exam) cardOf(device string) (card string, bridges []string) {
	provider, own, _ := strings.Cut(device, ":")
	class := "sys/class/infiniband/" + own
	if provider == "soft" {
		class = "sys/class/net/" + own
	}
	to, _ := fs.ReadLink(e.Files, class+"/device")
	if card = path.Base(to); !pciAddress.MatchString(card) {
		return "", nil
	}
	whole, _ := fs.ReadLink(e.Files, pci+"/"+card)
	for part := range strings.SplitSeq(path.Dir(whole), "/") {
		if pciAddress.MatchString(part) {
			bridges = append(bridges, part)
		}
	}
	return card, bridges
}

// lanes are a PCIe link.
type lanes struct {
	rate  float64 // GT/s
	width int
}

// linkOf reads a link as it is ("current"), or as it can be ("max").
func (e *exam) linkOf(address, which string) (l lanes, ok bool) {
	_, err := fmt.Sscanf(e.text(pci+"/"+address+"/"+which+"_link_speed"), "%g", &l.rate)
	width, known := e.number(pci + "/" + address + "/" + which + "_link_width")
	l.width = int(width)
	return l, err == nil && known && l.rate > 0 && width > 0 && width < 255 // 255: a function that has no link of its own
}

// gbits is what it carries each way, in Gbit/s, before the headers of its packets: of ten bits
// eight, since 8 GT/s 128 of 130, and with 64 GT/s 242 of 256 bytes (PCI Express 6.0, FLIT).
func (l lanes) gbits() float64 {
	share := 128.0 / 130
	switch {
	case l.rate <= 5:
		share = 0.8
	case l.rate >= 64:
		share = 242.0 / 256
	}
	return l.rate * float64(l.width) * share
}

func (l lanes) String() string { return fmt.Sprintf("%g GT/s x%d", l.rate, l.width) }

func (e *exam) pcieRows() (rows []Preflight) {
	for _, d := range e.devices {
		card, bridges := e.cardOf(d.Name)
		now, known := e.linkOf(card, "current")
		best, knownBest := e.linkOf(card, "max")
		if card == "" || !known || !knownBest {
			rows = append(rows, skip("pcie", d.Name, "it has no PCIe link that can be seen"))
			continue
		}
		// What the slot cannot do, the card is not to blame for.
		if len(bridges) > 0 {
			if slot, known := e.linkOf(bridges[len(bridges)-1], "max"); known {
				best = lanes{math.Min(best.rate, slot.rate), min(best.width, slot.width)}
			}
		}
		fix := fmt.Sprintf("lspci -vv -s %s | grep Lnk  # seat the card anew; another slot; BIOS", card)
		value := fmt.Sprintf("%s, %.0f Gbit/s", now, now.gbits())
		fastest := 0
		for _, p := range d.Ports {
			if p.Err == nil {
				fastest = max(fastest, p.Attr.SpeedMbps)
			}
		}
		switch {
		case now.rate < best.rate || now.width < best.width:
			rows = append(rows, finding(Warn, "pcie", d.Name, value).but(codes.Slow, best.String()+", which card and slot can do", fix))
		case now.gbits()*1000 < float64(fastest):
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

// hasGPU tells whether there is a card whose memory others would reach: a 3D controller or an
// accelerator.
func (e *exam) hasGPU() bool {
	return slices.ContainsFunc(e.list(pci), func(address string) bool {
		class := e.text(pci + "/" + address + "/class")
		return strings.HasPrefix(class, "0x0302") || strings.HasPrefix(class, "0x1200")
	})
}

func (e *exam) acsRows() (rows []Preflight) {
	var seen, on []string
	hidden := false
	for _, d := range e.devices {
		_, bridges := e.cardOf(d.Name)
		for _, b := range bridges {
			if slices.Contains(seen, b) {
				continue
			}
			seen = append(seen, b)
			config, err := fs.ReadFile(e.Files, pci+"/"+b+"/config")
			hidden = hidden || err != nil || len(config) <= extended
			if redirects(config) {
				on = append(on, b)
			}
		}
	}
	switch {
	case len(seen) == 0:
		return []Preflight{skip("acs", "", "no bridge above a device")}
	case len(on) > 0 && e.hasGPU():
		return []Preflight{finding(Warn, "acs", strings.Join(on, ","), "redirects what cards say to each other up to the root").but(codes.LocalProtection, "off, or GPU memory is slow or out of reach",
			fmt.Sprintf("for b in %s; do setpci -s $b ECAP_ACS+6.w=0; done  # at each boot; virtual machines want it on", strings.Join(on, " ")))}
	case len(on) > 0:
		return []Preflight{pass("acs", strings.Join(on, ","), "on; there is no GPU whose memory it would keep from a card")}
	case hidden:
		return []Preflight{skip("acs", "", "root alone may read the bridges' configuration space")}
	}
	return []Preflight{pass("acs", "", "off at %s", strings.Join(seen, ", "))}
}
