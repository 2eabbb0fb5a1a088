package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ringcli/cli/render"
	"ringcli/verbs"
)

// DeviceReport is all that a provider knows of a device, as `ibv_devinfo -v`
// shows it.
type DeviceReport struct {
	Command   string       `json:"command"`
	OK        bool         `json:"ok"` // a port can be used
	Device    string       `json:"device"`
	Provider  string       `json:"provider"`
	Firmware  string       `json:"fw_ver"`
	NodeGUID  string       `json:"node_guid"`
	VendorID  uint32       `json:"vendor_id"`
	PartID    uint32       `json:"vendor_part_id"`
	PhysPorts int          `json:"phys_port_cnt"`
	MaxMRSize uint64       `json:"max_mr_size"` // bytes
	MaxQP     int          `json:"max_qp"`
	MaxQPWR   int          `json:"max_qp_wr"`
	MaxSGE    int          `json:"max_sge"`
	MaxCQ     int          `json:"max_cq"`
	MaxCQE    int          `json:"max_cqe"`
	MaxMR     int          `json:"max_mr"`
	MaxPD     int          `json:"max_pd"`
	MaxAtomic int          `json:"max_qp_rd_atom"`
	MaxInline int          `json:"max_inline_data"` // bytes
	Atomics   bool         `json:"atomic_cap"`
	Ports     []PortReport `json:"ports"`
}

// PortReport is a port of a device.
type PortReport struct {
	Port      int         `json:"port"`
	State     string      `json:"state"`
	PhysState string      `json:"phys_state"`
	MaxMTU    int         `json:"max_mtu"`    // bytes
	ActiveMTU int         `json:"active_mtu"` // bytes
	LID       uint16      `json:"port_lid"`
	SMLID     uint16      `json:"sm_lid"`
	LinkLayer string      `json:"link_layer"`
	NetDev    string      `json:"netdev"`
	SpeedMbps int         `json:"speed_mbps"` // 0: not known
	GIDTable  int         `json:"gid_tbl_len"`
	GIDs      []GIDReport `json:"gids"`
}

// GIDReport is an entry of a port's GID table that is in use.
type GIDReport struct {
	Index  int       `json:"gid_index"`
	GID    verbs.GID `json:"gid"`
	Type   string    `json:"gid_type"`
	NetDev string    `json:"netdev"`
}

// reportOn asks an open device for everything.
func reportOn(c verbs.Context) (DeviceReport, error) {
	name := c.Device().Name()
	provider, _, _ := strings.Cut(name, ":")
	a, err := c.QueryDevice()
	if err != nil {
		return DeviceReport{}, fmt.Errorf("query %s: %w", name, err)
	}
	d := DeviceReport{
		Command: "query", Device: name, Provider: provider, Firmware: a.FirmwareVersion, NodeGUID: guid(a.NodeGUID),
		VendorID: a.VendorID, PartID: a.VendorPartID, PhysPorts: a.PhysPorts, MaxMRSize: a.MaxMRSize, MaxQP: a.MaxQP,
		MaxQPWR: a.MaxQPWR, MaxSGE: a.MaxSGE, MaxCQ: a.MaxCQ, MaxCQE: a.MaxCQE, MaxMR: a.MaxMR, MaxPD: a.MaxPD,
		MaxAtomic: a.MaxQPRDAtomic, MaxInline: a.MaxInline, Atomics: a.AtomicCap != verbs.AtomicNone,
	}
	for port := 1; port <= a.PhysPorts; port++ {
		p, err := c.QueryPort(port)
		if err != nil {
			return d, fmt.Errorf("query %s port %d: %w", name, port, err)
		}
		d.OK = d.OK || p.State == verbs.PortActive
		r := PortReport{
			Port: port, State: p.State.String(), PhysState: p.PhysState, MaxMTU: p.MaxMTU.Bytes(), ActiveMTU: p.ActiveMTU.Bytes(),
			LID: p.LID, SMLID: p.SMLID, LinkLayer: p.LinkLayer.String(), NetDev: p.NetDev, SpeedMbps: p.SpeedMbps,
			GIDTable: p.GIDTableSz, GIDs: []GIDReport{},
		}
		for i := range p.GIDTableSz {
			// A slot that is empty or just went is no error: ENODATA.
			if g, err := c.QueryGID(port, i); err == nil && !g.GID.IsZero() {
				r.GIDs = append(r.GIDs, GIDReport{Index: i, GID: g.GID, Type: g.Type.String(), NetDev: g.NetDev})
			}
		}
		d.Ports = append(d.Ports, r)
	}
	return d, nil
}

// guid writes an EUI-64 as ibv_devinfo does: 1234:5678:9abc:def0.
func guid(v uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", v>>48, v>>32&0xffff, v>>16&0xffff, v&0xffff)
}

// openReport opens a device, asks it, and closes it.
func openReport(d verbs.Device) (r DeviceReport, err error) {
	c, err := d.Open(verbs.OpenOptions{})
	if err != nil {
		return r, fmt.Errorf("open %s: %w", d.Name(), err)
	}
	defer closeWith(&err, c)
	return reportOn(c)
}

// Columns implements render.Record.
func (d DeviceReport) Columns() []render.Column {
	return []render.Column{{Name: "device", Left: true}, {Name: "attribute", Left: true}, {Name: "value", Left: true}}
}

// Cells implements render.Record.
func (d DeviceReport) Cells() []render.Cell {
	return render.Texts(d.Device, "phys_port_cnt", fmt.Sprint(d.PhysPorts))
}

// DeviceAttribute is one attribute of a device, a port or a GID: a line of the
// table of `query`, whose JSON has the whole device in one object.
type DeviceAttribute struct {
	Command   string `json:"command"`
	OK        bool   `json:"ok"`
	Device    string `json:"device"`
	Port      int    `json:"port"` // 0: the device itself
	Attribute string `json:"attribute"`
	Value     string `json:"value"`
	mood      render.Mood
}

// Columns implements render.Record.
func (a DeviceAttribute) Columns() []render.Column {
	return []render.Column{{Name: "attribute", Width: 18, Left: true}, {Name: "value", Left: true}}
}

// Cells implements render.Record.
func (a DeviceAttribute) Cells() []render.Cell {
	return []render.Cell{{Text: a.Attribute}, {Text: a.Value, Mood: a.mood}}
}

// attributes are the lines of the table: those of the device, or of one port.
func (d DeviceReport) attributes() []render.Record {
	return d.lines(0, "device", d.Device, "provider", d.Provider, "fw_ver", orDash(d.Firmware), "node_guid", d.NodeGUID,
		"vendor_id", fmt.Sprintf("0x%04x", d.VendorID), "vendor_part_id", d.PartID, "phys_port_cnt", d.PhysPorts,
		"max_mr_size", fmt.Sprintf("%#x", d.MaxMRSize), "max_qp", d.MaxQP, "max_qp_wr", d.MaxQPWR, "max_sge", d.MaxSGE,
		"max_cq", d.MaxCQ, "max_cqe", d.MaxCQE, "max_mr", d.MaxMR, "max_pd", d.MaxPD, "max_qp_rd_atom", d.MaxAtomic,
		"max_inline_data", d.MaxInline, "atomic_cap", d.Atomics)
}

func (d DeviceReport) portAttributes(p PortReport) []render.Record {
	speed := "not known"
	if p.SpeedMbps > 0 {
		speed = fmt.Sprintf("%d Mbit/s", p.SpeedMbps)
	}
	list := d.lines(p.Port, "port", p.Port, "state", p.State, "phys_state", orDash(p.PhysState), "link_layer", p.LinkLayer,
		"max_mtu", p.MaxMTU, "active_mtu", p.ActiveMTU, "port_lid", p.LID, "sm_lid", p.SMLID,
		"netdev", orDash(p.NetDev), "speed", speed, "gid_tbl_len", p.GIDTable)
	state := list[1].(DeviceAttribute)
	if state.mood = render.Bad; p.State == verbs.PortActive.String() {
		state.mood = render.Good
	}
	list[1] = state
	for _, g := range p.GIDs {
		list = append(list, d.lines(p.Port, fmt.Sprintf("GID[%d]", g.Index), fmt.Sprintf("%s  %s  %s", g.GID, g.Type, orDash(g.NetDev)))...)
	}
	return list
}

// lines makes attributes of names and values in turn.
func (d DeviceReport) lines(port int, pairs ...any) []render.Record {
	var list []render.Record
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, DeviceAttribute{
			Command: "query", OK: d.OK, Device: d.Device, Port: port, Attribute: pairs[i].(string), Value: fmt.Sprint(pairs[i+1]),
		})
	}
	return list
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func checkQuery(args []string) error {
	if len(args) > 1 {
		return usageError("query: %d arguments given: expected none, or one device such as soft:lo", len(args))
	}
	return nil
}

// runQuery shows the device that was named, or the ring's, or all.
func runQuery(_ context.Context, s *Session, call Call) error {
	var reports []DeviceReport
	switch {
	case len(call.Args) == 1:
		d, err := verbs.Find(call.Args[0])
		if err != nil {
			return usageError("query: %w", err) // which lists the devices
		}
		r, err := openReport(d)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	case s.ring != nil && s.ring.Context() != nil:
		r, err := reportOn(s.ring.Context())
		if err != nil {
			return err
		}
		reports = append(reports, r)
	default:
		var errs []error
		for _, p := range verbs.Providers() {
			devices, err := p.Devices()
			errs = append(errs, err)
			for _, d := range devices {
				r, err := openReport(d)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				reports = append(reports, r)
			}
		}
		if failed := errors.Join(errs...); len(reports) == 0 {
			return errors.Join(fmt.Errorf("query: no device could be opened"), failed)
		} else if failed != nil {
			if err := s.Out.Note(render.Fair, "left out: %s", strings.ReplaceAll(failed.Error(), "\n", "; ")); err != nil {
				return err
			}
		}
	}
	for _, r := range reports {
		if err := s.printReport(r); err != nil {
			return err
		}
	}
	return nil
}

// printReport prints a device: for programs one object, for people and for
// spreadsheets one attribute a line.
func (s *Session) printReport(d DeviceReport) error {
	if s.Out.Format() == render.JSON {
		return s.Out.Print(d)
	}
	if err := s.Out.Print(d.attributes()...); err != nil {
		return err
	}
	for _, p := range d.Ports {
		if err := s.Out.Note(render.Faint, "%s port %d", d.Device, p.Port); err != nil {
			return err
		}
		if err := s.Out.Print(d.portAttributes(p)...); err != nil {
			return err
		}
	}
	return nil
}
