// Package pcie says where an RDMA device is on PCIe, how fast its link is, and how fast it
// could be, as Linux tells in sysfs.
package pcie

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Devices is where sysfs has the cards and bridges of this host, by their addresses.
const Devices = "sys/bus/pci/devices"

var address = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// Place is where a device is.
type Place struct {
	Card    string   // its address, such as 0000:3b:00.0; "" on no PCIe
	Bridges []string // those above, from the top
	root    string   // the host bridge's bus, such as pci0000:3a
}

// Find returns where the device of a class is, such as sys/class/infiniband/mlx5_0 below the
// root of files: nowhere if it is made in software, or virtio.
func Find(files fs.FS, class string) (p Place) {
	to, _ := fs.ReadLink(files, class+"/device")
	return At(files, path.Base(to))
}

// At returns where the device of an address is: nowhere if it is none of PCIe.
func At(files fs.FS, card string) (p Place) {
	if !address.MatchString(card) {
		return Place{}
	}
	p.Card = card
	whole, _ := fs.ReadLink(files, Devices+"/"+p.Card)
	for part := range strings.SplitSeq(path.Dir(whole), "/") {
		switch {
		case address.MatchString(part):
			p.Bridges = append(p.Bridges, part)
		case p.root == "" && strings.HasPrefix(part, "pci"):
			p.root = part
		}
	}
	return p
}

// Distance is how far two devices are from each other, as `nvidia-smi topo -m` has it.
type Distance int

const (
	Switch   Distance = iota // below one bridge: PIX
	Switches                 // below one root port, by way of several bridges: PXB
	Bridge                   // by way of the CPU's host bridge: PHB
	Node                     // of two host bridges of a NUMA node: NODE
	System                   // of two NUMA nodes: SYS
)

var distances = [...]string{"PIX", "PXB", "PHB", "NODE", "SYS"}

func (d Distance) String() string { return distances[d] }

// To is how far another device is.
func (p Place) To(files fs.FS, other Place) Distance {
	shared := 0
	for shared < min(len(p.Bridges), len(other.Bridges)) && p.Bridges[shared] == other.Bridges[shared] {
		shared++
	}
	node := func(card string) string {
		b, _ := fs.ReadFile(files, Devices+"/"+card+"/numa_node") // -1, or not told, is the only one
		return strings.TrimSpace(string(b))
	}
	switch {
	case shared > 0 && max(len(p.Bridges), len(other.Bridges))-shared <= 1:
		return Switch
	case shared > 0:
		return Switches
	case p.root == other.root:
		return Bridge
	case node(p.Card) == node(other.Card):
		return Node
	}
	return System
}

// Link is a PCIe link: the transfers of each of its lanes in GT/s, and its lanes.
type Link struct {
	Speed float64
	Width int
}

// String is "16 GT/s x8".
func (l Link) String() string { return fmt.Sprintf("%g GT/s x%d", l.Speed, l.Width) }

const (
	// payload is what a packet of a device carries at most where nobody has set more: the
	// common MaxPayloadSize of servers, which sysfs does not tell.
	payload = 256
	// around is what it has besides: header of 4 words, LCRC, sequence number and framing
	// (PCI Express Base Specification 5.0, 2.2.1, 3.6.2 and 4.2.2).
	around = 16 + 4 + 2 + 4
)

// Gbits is what the link carries each way in Gbit/s, headers of packets included: of ten
// bits eight, since 8 GT/s 128 of 130, and with 64 GT/s 236 of 256 bytes (PCI Express 6.0,
// FLIT).
func (l Link) Gbits() float64 {
	encoded := 128.0 / 130
	switch {
	case l.Speed <= 5:
		encoded = 8.0 / 10
	case l.Speed > 32:
		encoded = 236.0 / 256
	}
	return l.Speed * float64(l.Width) * encoded
}

// Rate is what it carries of data at most, each way, in bytes a second.
func (l Link) Rate() float64 { return l.Gbits() * 1e9 / 8 * payload / (payload + around) }

// Links returns the slowest link between a device and the root of its bus as it is at
// present, and the slowest one as both of its ends could be. It is false where sysfs does
// not tell that of the card.
func (p Place) Links(files fs.FS) (now, best Link, ok bool) {
	ports := append(slices.Clone(p.Bridges), p.Card)
	slices.Reverse(ports)
	for link := range slices.Chunk(ports, 2) { // a link's lower and upper port; a switch has two
		at, known := read(files, link[0], "current")
		if !known {
			return now, best, ok
		}
		most := at
		for i, port := range link {
			switch m, known := read(files, port, "max"); {
			case known && i == 0:
				most = m
			case known:
				most = Link{min(most.Speed, m.Speed), min(most.Width, m.Width)}
			}
		}
		if !ok || at.Rate() < now.Rate() {
			now = at
		}
		if !ok || most.Rate() < best.Rate() {
			best = most
		}
		ok = true
	}
	return now, best, ok
}

// read reads how fast a port is ("current"), or can be ("max").
func read(files fs.FS, port, which string) (l Link, ok bool) {
	text := func(what string) string {
		b, _ := fs.ReadFile(files, Devices+"/"+port+"/"+which+"_link_"+what) // what is not there is not known
		return strings.TrimSpace(string(b))
	}
	speed, _, _ := strings.Cut(text("speed"), " ") // "16.0 GT/s PCIe", "Unknown"
	var err, err2 error
	l.Speed, err = strconv.ParseFloat(speed, 64)
	l.Width, err2 = strconv.Atoi(text("width")) // 255 is not known, 0 is down
	return l, err == nil && err2 == nil && l.Speed > 0 && l.Width > 0 && l.Width <= 32
}
