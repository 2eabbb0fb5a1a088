package ibvtest

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Device is a device as ibv_devinfo prints it. Fields are by ibv_devinfo's names,
// values as they stand: "0x15b3", "ATOMIC_HCA (1)".
type Device struct {
	ID     string // hca_id
	Fields map[string]string
	// Flags are the lines below a field, as those of device_cap_flags.
	Flags map[string][]string
	Ports []Port
}

// Port is a port of a device.
type Port struct {
	Number int
	Fields map[string]string
	GIDs   []GID
}

// GID is a row of a port's GID table.
type GID struct {
	Index int
	Addr  netip.Addr
	Type  string // "IB/RoCE v1" or "RoCE v2"; empty if the line has none
}

var gidName = regexp.MustCompile(`^GID\[ *(\d+)\]$`)

// ParseDevices reads the output of `ibv_devinfo -v`. Lines that are no "name: value", such
// as "core clock not supported", are left out. A line of its own below a field
// without a colon is a flag of that field.
func ParseDevices(r io.Reader) ([]Device, error) {
	var devices []Device
	last := "" // the device's field that flags belong to
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		name, value, isField := strings.Cut(text, ":")
		value = strings.TrimSpace(value)
		if text == "" {
			continue
		}
		if name == "hca_id" {
			devices = append(devices, Device{ID: value, Fields: map[string]string{"hca_id": value}, Flags: map[string][]string{}})
			last = ""
			continue
		}
		if len(devices) == 0 {
			return nil, fmt.Errorf("line %d: %q: expected hca_id first", n, text)
		}
		d := &devices[len(devices)-1]
		switch {
		case name == "port" && isField:
			number, err := strconv.Atoi(value)
			if err != nil {
				return nil, fmt.Errorf("line %d: %q: expected the number of a port", n, text)
			}
			d.Ports = append(d.Ports, Port{Number: number, Fields: map[string]string{}})
		case isField && len(d.Ports) > 0:
			if err := d.Ports[len(d.Ports)-1].add(name, value); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		case isField:
			d.Fields[name], last = value, name
		case !strings.Contains(text, " ") && last != "":
			d.Flags[last] = append(d.Flags[last], text)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(devices) == 0 {
		return nil, fmt.Errorf("no hca_id: expected the output of ibv_devinfo -v")
	}
	return devices, nil
}

// add takes one line about a port.
func (p *Port) add(name, value string) error {
	m := gidName.FindStringSubmatch(name)
	if m == nil {
		p.Fields[name] = value
		return nil
	}
	text, kind, _ := strings.Cut(value, ",")
	addr, err := netip.ParseAddr(strings.TrimSpace(text))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	index, err := strconv.Atoi(m[1])
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.GIDs = append(p.GIDs, GID{Index: index, Addr: addr, Type: strings.TrimSpace(kind)})
	return nil
}
