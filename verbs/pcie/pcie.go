// Package pcie says how fast the PCIe link of an RDMA device is, and how fast it could
// be, as Linux tells in sysfs.
package pcie

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Root is where sysfs is; tests have one of their own.
var Root = "/sys"

// Link is a PCIe link: the transfers of each of its lanes in GT/s, and its lanes.
type Link struct {
	Speed float64
	Width int
}

// String is "16 GT/s x8".
func (l Link) String() string {
	return fmt.Sprintf("%s GT/s x%d", strconv.FormatFloat(l.Speed, 'g', -1, 64), l.Width)
}

const (
	// payload is what a packet of a device carries at most where nobody has set more: the
	// common MaxPayloadSize of servers, which sysfs does not tell.
	payload = 256
	// around is what it has besides: header of 4 words, LCRC, sequence number and framing
	// (PCI Express Base Specification 5.0, 2.2.1, 3.6.2 and 4.2.2).
	around = 16 + 4 + 2 + 4
)

// Rate is what the link carries of data at most, each way, in bytes a second.
func (l Link) Rate() float64 {
	encoded := 128.0 / 130
	switch {
	case l.Speed <= 5:
		encoded = 8.0 / 10
	case l.Speed > 32: // in flits of 256 bytes, 236 of packets
		encoded = 236.0 / 256
	}
	return l.Speed * 1e9 / 8 * float64(l.Width) * encoded * payload / (payload + around)
}

// Of returns the slowest link between an RDMA device, by its name as libibverbs has it, and
// the root of its bus as it is at present; and the best that the device and its slot can
// both do. ok is false for a device that is on no PCIe, or whose links sysfs does not tell.
func Of(device string) (now, best Link, ok bool) {
	dir, err := filepath.EvalSymlinks(filepath.Join(Root, "class/infiniband", device, "device"))
	if err != nil {
		return now, best, false
	}
	for ; len(dir) > len(Root); dir = filepath.Dir(dir) {
		at, most, here := read(dir)
		if !here {
			break
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

// read reads the link above a device or bridge.
func read(dir string) (now, best Link, ok bool) {
	file := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(dir, name)) // what is not there is not known
		return strings.TrimSpace(string(text))
	}
	link := func(which string) (l Link, ok bool) {
		speed, _, _ := strings.Cut(file(which+"_link_speed"), " ") // "16.0 GT/s PCIe", "Unknown"
		var err, err2 error
		l.Speed, err = strconv.ParseFloat(speed, 64)
		l.Width, err2 = strconv.Atoi(file(which + "_link_width")) // 255 is not known, 0 is down
		return l, err == nil && err2 == nil && l.Speed > 0 && l.Width > 0 && l.Width <= 32
	}
	now, ok = link("current")
	if !ok {
		return now, best, false
	}
	if best, ok = link("max"); !ok {
		best = now
	}
	return now, best, true
}
