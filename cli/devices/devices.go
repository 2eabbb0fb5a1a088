package devices

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/verbs"
)

// ProviderInfo is a provider and, if it has no device, why.
type ProviderInfo struct {
	Command  string `json:"command"`
	OK       bool   `json:"ok"`
	Provider string `json:"provider" col:"provider"`
	Devices  int    `json:"devices" col:"devices"`
	Reason   string `json:"reason" col:"remark|fair"`
}

// PortInfo is a port of a device.
type PortInfo struct {
	Command   string `json:"command"`
	OK        bool   `json:"ok"` // the port can be used
	Device    string `json:"device" col:"device"`
	Port      int    `json:"port" col:"port"`
	State     string `json:"state" col:"state|verdict"`
	PhysState string `json:"phys_state"`
	LinkLayer string `json:"link_layer" col:"link"`
	MaxMTU    int    `json:"max_mtu"`              // bytes
	ActiveMTU int    `json:"active_mtu" col:"mtu"` // bytes
	LID       uint16 `json:"lid" col:"lid"`
	NetDev    string `json:"netdev" col:"netdev|last|dash"`
	SpeedMbps int    `json:"speed_mbps" col:"Mbit/s|dash"` // 0: not known
	GIDs      int    `json:"gids" col:"gids|before=lid"`   // that are in use
}

// GIDInfo is a row of a port's GID table.
type GIDInfo struct {
	Command string    `json:"command"`
	OK      bool      `json:"ok"`
	Device  string    `json:"device" col:"device"`
	Port    int       `json:"port" col:"port"`
	Index   int       `json:"gid_index" col:"index"`
	GID     verbs.GID `json:"gid" col:"gid|last"`
	Type    string    `json:"gid_type" col:"type"`
	NetDev  string    `json:"netdev" col:"netdev"`
}

func runDevices(ctx context.Context, s *session.Session, call command.Call) error {
	if command.IsOn(call.Flags, "gpus") {
		return runGPUs(ctx, s)
	}
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
			r, err := openReport(d)
			if err != nil {
				info.OK, reasons = false, append(reasons, err.Error())
				continue
			}
			for _, p := range r.Ports {
				a := p.attr
				ports = append(ports, PortInfo{
					Command: "devices", OK: a.State == verbs.PortActive, Device: r.Device, Port: p.Port,
					State: a.State.String(), PhysState: a.PhysState, LinkLayer: p.LinkLayer,
					MaxMTU: a.MaxMTU.Bytes(), ActiveMTU: a.ActiveMTU.Bytes(), LID: p.LID, NetDev: p.NetDev, SpeedMbps: a.SpeedMbps, GIDs: len(p.GIDs),
				})
				for _, g := range p.GIDs {
					gids = append(gids, GIDInfo{
						Command: "devices", OK: true, Device: r.Device, Port: p.Port, Index: g.Index, GID: g.GID, Type: g.Type, NetDev: g.NetDev,
					})
				}
			}
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

// Rows show the devices of this machine.
func Rows() []command.Row {
	return []command.Row{
		{
			Name: "devices", Group: command.GroupLook, Where: command.Process | command.Line, Own: true, Harmless: true,
			Summary: "Show devices, ports and GIDs, and why a provider has none",
			Long: `Shows devices, their ports and GIDs, and why a provider has none. With --gpus
it shows the GPUs instead, by libcuda.so.1 and libamdhip64.so, and why one of
these cannot be used; then a matrix: what joins each GPU to each other one
(nvlink, xgmi, pcie; staged: no access, what goes there passes the host's
memory), and how far each RDMA device is from it, as nvidia-smi topo says it:
PIX below one PCIe bridge, PXB below several, PHB by way of the CPU's host
bridge, NODE by way of two of a NUMA node, SYS by way of two NUMA nodes. The
exit code is 3 where there is no GPU.`,
			Example: "  ringcli devices\n  ringcli devices --gpus",
			Flags: func(fs *pflag.FlagSet) {
				fs.Bool("gpus", false, "show GPUs, what joins them, and how far adapters are")
			},
			Run: runDevices,
		},
		{
			Name: "query", Group: command.GroupLook, Where: command.Process | command.Line, Own: true, Harmless: true,
			Summary: "Show everything about a device, its ports and their GIDs",
			Long: `Shows everything that a device says about itself, its ports and their GIDs,
under the names of ibv_devinfo -v: the device that is named, else the ring's
own, else all devices. A table has what matters most, or with --verbose all;
JSON and CSV always have all.`,
			Example: "  ringcli query soft:lo\n  ringcli query --verbose soft:lo",
			Args:    "[DEVICE]", CheckArgs: checkQuery,
			Complete: func(args []string) []string {
				if len(args) > 0 {
					return nil
				}
				return Names()
			},
			Flags: func(fs *pflag.FlagSet) { fs.BoolP("verbose", "v", false, "show every attribute") },
			Run:   runQuery,
		},
	}
}
