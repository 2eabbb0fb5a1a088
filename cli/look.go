package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"ringcli/cli/render"
	"ringcli/configs"
	"ringcli/verbs"
)

// version is set by the Makefile; without it the module's own is shown.
var version string

func runConfig(_ context.Context, s *Session, call Call) error {
	if isOn(call.Flags, "sample") {
		return s.Out.Text(configs.Sample)
	}
	return printConfig(s)
}

func printConfig(s *Session) error {
	var rows []render.Record
	for _, v := range s.Config.Values() {
		rows = append(rows, ConfigEntry{Command: "config", OK: true, Name: v.Name, Value: v.String(), Origin: v.Origin.String()})
	}
	if err := s.Out.Print(rows...); err != nil {
		return err
	}
	if file := s.Config.File(); file != "" {
		return s.Out.Note(render.Faint, "configuration file: %s", file)
	}
	return s.Out.Note(render.Faint, "no configuration file; looked for %s", strings.Join(configs.SearchPath(), ", "))
}

func runVersion(_ context.Context, s *Session, _ Call) error {
	v := VersionInfo{
		Command: "version", OK: true, Version: version,
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Providers: []string{},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		if v.Version == "" {
			v.Version = info.Main.Version
		}
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				v.Revision = setting.Value
			}
		}
	}
	for _, p := range verbs.Providers() {
		v.Providers = append(v.Providers, p.Name())
	}
	return s.Out.Print(v)
}

// Columns implements render.Record.
func (v VersionInfo) Columns() []render.Column {
	return []render.Column{
		{Name: "version", Left: true}, {Name: "go", Left: true}, {Name: "platform", Left: true}, {Name: "providers", Left: true},
	}
}

// Cells implements render.Record.
func (v VersionInfo) Cells() []render.Cell {
	return render.Texts(v.Version, v.Go, v.OS+"/"+v.Arch, strings.Join(v.Providers, " "))
}

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
