package cli

import (
	"context"
	"fmt"
	"strings"

	"ringcli/cli/render"
	"ringcli/verbs"

	"github.com/spf13/pflag"
)

// ProviderInfo is a provider and, if it has no device, why.
type ProviderInfo struct {
	Command  string `json:"command"`
	OK       bool   `json:"ok"`
	Provider string `json:"provider"`
	Devices  int    `json:"devices"`
	Reason   string `json:"reason"`
}

// Columns implements render.Record.
func (p ProviderInfo) Columns() []render.Column {
	return []render.Column{{Name: "provider", Left: true}, {Name: "devices"}, {Name: "remark", Left: true}}
}

// Cells implements render.Record.
func (p ProviderInfo) Cells() []render.Cell {
	cells := render.Texts(p.Provider, fmt.Sprint(p.Devices), p.Reason)
	if !p.OK {
		cells[2].Mood = render.Fair
	}
	return cells
}

// PortInfo is a port of a device.
type PortInfo struct {
	Command   string `json:"command"`
	OK        bool   `json:"ok"` // the port can be used
	Device    string `json:"device"`
	Port      int    `json:"port"`
	State     string `json:"state"`
	PhysState string `json:"phys_state"`
	LinkLayer string `json:"link_layer"`
	MaxMTU    int    `json:"max_mtu"`    // bytes
	ActiveMTU int    `json:"active_mtu"` // bytes
	LID       uint16 `json:"lid"`
	NetDev    string `json:"netdev"`
	SpeedMbps int    `json:"speed_mbps"` // 0: not known
	GIDs      int    `json:"gids"`       // that are in use
}

// Columns implements render.Record.
func (p PortInfo) Columns() []render.Column {
	return []render.Column{
		{Name: "device", Left: true}, {Name: "port"}, {Name: "state", Left: true}, {Name: "link", Left: true},
		{Name: "mtu"}, {Name: "gids"}, {Name: "lid"}, {Name: "Mbit/s"}, {Name: "netdev", Left: true},
	}
}

// Cells implements render.Record.
func (p PortInfo) Cells() []render.Cell {
	state := render.Cell{Text: p.State, Mood: render.Good}
	if !p.OK {
		state.Mood = render.Bad
	}
	speed := "-"
	if p.SpeedMbps > 0 {
		speed = fmt.Sprint(p.SpeedMbps)
	}
	return []render.Cell{
		{Text: p.Device}, {Text: fmt.Sprint(p.Port)}, state, {Text: p.LinkLayer}, {Text: fmt.Sprint(p.ActiveMTU)},
		{Text: fmt.Sprint(p.GIDs)}, {Text: fmt.Sprint(p.LID)}, {Text: speed}, {Text: orDash(p.NetDev)},
	}
}

// GIDInfo is a row of a port's GID table.
type GIDInfo struct {
	Command string    `json:"command"`
	OK      bool      `json:"ok"`
	Device  string    `json:"device"`
	Port    int       `json:"port"`
	Index   int       `json:"gid_index"`
	GID     verbs.GID `json:"gid"`
	Type    string    `json:"gid_type"`
	NetDev  string    `json:"netdev"`
}

// Columns implements render.Record.
func (g GIDInfo) Columns() []render.Column {
	return []render.Column{
		{Name: "device", Left: true}, {Name: "port"}, {Name: "index"}, {Name: "type", Left: true},
		{Name: "netdev", Left: true}, {Name: "gid", Left: true},
	}
}

// Cells implements render.Record.
func (g GIDInfo) Cells() []render.Cell {
	return render.Texts(g.Device, fmt.Sprint(g.Port), fmt.Sprint(g.Index), g.Type, g.NetDev, g.GID.String())
}

func runDevices(ctx context.Context, s *Session, _ Call) error {
	var providers, ports, gids []render.Record
	for _, p := range verbs.Providers() {
		var reasons []string
		devices, err := p.Devices()
		info := ProviderInfo{Command: "devices", OK: err == nil && len(devices) > 0, Provider: p.Name(), Devices: len(devices)}
		if err != nil {
			reasons = append(reasons, err.Error())
		}
		for _, d := range devices {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			ps, gs, err := queryDevice(d)
			if err != nil {
				info.OK, reasons = false, append(reasons, err.Error())
				continue
			}
			ports, gids = append(ports, ps...), append(gids, gs...)
		}
		info.Reason = strings.Join(reasons, "; ")
		providers = append(providers, info)
	}
	for _, rows := range [][]render.Record{providers, ports, gids} {
		if err := s.Out.Print(rows...); err != nil {
			return err
		}
	}
	if len(ports) == 0 {
		return fmt.Errorf("no device: %d providers looked, and none has a port; `ringcli devices` says why for each", len(providers))
	}
	return nil
}

func queryDevice(d verbs.Device) (ports, gids []render.Record, err error) {
	c, err := d.Open(verbs.OpenOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", d.Name(), err)
	}
	defer closeWith(&err, c)
	attr, err := c.QueryDevice()
	if err != nil {
		return nil, nil, fmt.Errorf("query %s: %w", d.Name(), err)
	}
	for port := 1; port <= attr.PhysPorts; port++ {
		p, err := c.QueryPort(port)
		if err != nil {
			return nil, nil, fmt.Errorf("query %s port %d: %w", d.Name(), port, err)
		}
		rows := gidsOf(c, port, p.GIDTableSz)
		ports = append(ports, PortInfo{
			Command: "devices", OK: p.State == verbs.PortActive, Device: d.Name(), Port: port,
			State: p.State.String(), PhysState: p.PhysState, LinkLayer: p.LinkLayer.String(),
			MaxMTU: p.MaxMTU.Bytes(), ActiveMTU: p.ActiveMTU.Bytes(), LID: p.LID, NetDev: p.NetDev, SpeedMbps: p.SpeedMbps,
			GIDs: len(rows),
		})
		for _, g := range rows {
			gids = append(gids, GIDInfo{
				Command: "devices", OK: true, Device: d.Name(), Port: port, Index: g.Index,
				GID: g.GID, Type: g.Type, NetDev: g.NetDev,
			})
		}
	}
	return ports, gids, nil
}

// deviceCommands show the devices of this machine.
func deviceCommands() []Command {
	return []Command{
		{
			Name: "devices", Group: groupLook, Where: Process | Line, Own: true, Harmless: true,
			Summary: "Show devices, ports and GIDs, and why a provider has none",
			Run:     runDevices,
		},
		{
			Name: "query", Group: groupLook, Where: Process | Line, Own: true, Harmless: true,
			Summary: "Show everything about a device, its ports and their GIDs",
			Long: `Shows everything that a device says about itself, its ports and their GIDs,
under the names of ibv_devinfo -v: the device that is named, else the ring's
own, else all devices. A table has what matters most, or with --verbose all;
JSON and CSV always have all.`,
			Example: "  ringcli query soft:lo\n  ringcli query --verbose soft:lo",
			Args:    "[DEVICE]", CheckArgs: checkQuery,
			Offer: func(args []string) []string {
				if len(args) > 0 {
					return nil
				}
				return deviceNames()
			},
			Flags: func(fs *pflag.FlagSet) { fs.BoolP("verbose", "v", false, "show every attribute") },
			Run:   runQuery,
		},
	}
}
