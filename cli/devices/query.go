package devices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/verbs"
)

// DeviceReport is all that a provider knows of a device, under the names and in
// the order of `ibv_devinfo -v`. The tag show says what a table leaves out: "v",
// unless it is asked for all; "-", always.
type DeviceReport struct {
	Command               string       `json:"command" show:"-"`
	OK                    bool         `json:"ok" show:"-"` // a port can be used
	Device                string       `json:"device"`
	Provider              string       `json:"provider"`
	HCA                   string       `json:"hca_id" show:"v"`
	Transport             string       `json:"transport"`
	Firmware              string       `json:"fw_ver"`
	NodeGUID              string       `json:"node_guid"`
	SysImageGUID          string       `json:"sys_image_guid" show:"v"`
	VendorID              hexNumber    `json:"vendor_id"`
	PartID                uint32       `json:"vendor_part_id"`
	HWVersion             hexNumber    `json:"hw_ver" show:"v"`
	PhysPorts             int          `json:"phys_port_cnt"`
	MaxMRSize             hexNumber    `json:"max_mr_size"`            // bytes
	PageSizeCap           hexNumber    `json:"page_size_cap" show:"v"` // a bit for each page size, in bytes
	MaxQP                 int          `json:"max_qp"`
	MaxQPWR               int          `json:"max_qp_wr"`
	CapFlags              deviceFlags  `json:"device_cap_flags" show:"v"`
	CapNames              []string     `json:"device_cap_names" show:"-"` // of the flags
	MaxSGE                int          `json:"max_sge"`
	MaxSGERD              int          `json:"max_sge_rd" show:"v"`
	MaxCQ                 int          `json:"max_cq"`
	MaxCQE                int          `json:"max_cqe"`
	MaxMR                 int          `json:"max_mr"`
	MaxPD                 int          `json:"max_pd"`
	MaxQPRDAtomic         int          `json:"max_qp_rd_atom"`
	MaxEERDAtomic         int          `json:"max_ee_rd_atom" show:"v"`
	MaxResRDAtomic        int          `json:"max_res_rd_atom" show:"v"`
	MaxQPInitRDAtomic     int          `json:"max_qp_init_rd_atom"`
	MaxEEInitRDAtomic     int          `json:"max_ee_init_rd_atom" show:"v"`
	Atomics               string       `json:"atomic_cap"`
	MaxEE                 int          `json:"max_ee" show:"v"`
	MaxRDD                int          `json:"max_rdd" show:"v"`
	MaxMW                 int          `json:"max_mw" show:"v"`
	MaxRawIPv6QP          int          `json:"max_raw_ipv6_qp" show:"v"`
	MaxRawEthyQP          int          `json:"max_raw_ethy_qp" show:"v"`
	MaxMcastGrp           int          `json:"max_mcast_grp" show:"v"`
	MaxMcastQPAttach      int          `json:"max_mcast_qp_attach" show:"v"`
	MaxTotalMcastQPAttach int          `json:"max_total_mcast_qp_attach" show:"v"`
	MaxAH                 int          `json:"max_ah" show:"v"`
	MaxFMR                int          `json:"max_fmr" show:"v"`
	MaxMapPerFMR          int          `json:"max_map_per_fmr" show:"v"`
	MaxSRQ                int          `json:"max_srq" show:"v"`
	MaxSRQWR              int          `json:"max_srq_wr" show:"v"`
	MaxSRQSGE             int          `json:"max_srq_sge" show:"v"`
	MaxPKeys              int          `json:"max_pkeys" show:"v"`
	LocalCAAckDelay       int          `json:"local_ca_ack_delay" show:"v"` // code: 4.096 us * 2^code
	MaxInline             orUnknown    `json:"max_inline_data"`             // bytes; 0: a queue pair tells
	Ports                 []PortReport `json:"ports" show:"-"`
}

// PortReport is a port of a device.
type PortReport struct {
	Port          int         `json:"port"`
	State         string      `json:"state"`
	MaxMTU        mtuBytes    `json:"max_mtu"`    // bytes
	ActiveMTU     mtuBytes    `json:"active_mtu"` // bytes
	SMLID         uint16      `json:"sm_lid"`
	LID           uint16      `json:"port_lid"`
	LMC           hexNumber   `json:"port_lmc" show:"v"`
	LinkLayer     string      `json:"link_layer"`
	MaxMsgSz      hexNumber   `json:"max_msg_sz"` // bytes
	CapFlags      portFlags   `json:"port_cap_flags" show:"v"`
	CapNames      []string    `json:"port_cap_names" show:"-"` // of the flags
	MaxVLNum      string      `json:"max_vl_num" show:"v"`
	BadPKeyCntr   hexNumber   `json:"bad_pkey_cntr" show:"v"`
	QKeyViolCntr  hexNumber   `json:"qkey_viol_cntr" show:"v"`
	SMSL          uint8       `json:"sm_sl" show:"v"`
	PKeyTable     int         `json:"pkey_tbl_len" show:"v"`
	GIDTable      int         `json:"gid_tbl_len"`
	SubnetTimeout uint8       `json:"subnet_timeout" show:"v"`
	InitTypeReply uint8       `json:"init_type_reply" show:"v"`
	ActiveWidth   string      `json:"active_width"`
	ActiveSpeed   string      `json:"active_speed"` // of a lane
	PhysState     string      `json:"phys_state"`
	NetDev        string      `json:"netdev"`
	SpeedMbps     orUnknown   `json:"speed_mbps"` // 0: not known
	GIDs          []GIDReport `json:"gids" show:"-"`

	attr verbs.PortAttr `show:"-"` // what all of these come from
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
	provider, hca, _ := strings.Cut(name, ":")
	a, err := c.QueryDevice()
	if err != nil {
		return DeviceReport{}, fmt.Errorf("query %s: %w", name, err)
	}
	d := DeviceReport{
		Command: "query", Device: name, Provider: provider, HCA: hca, Transport: a.Transport, Firmware: a.FirmwareVersion,
		NodeGUID: guid(a.NodeGUID), SysImageGUID: guid(a.SysImageGUID), VendorID: hexNumber(a.VendorID), PartID: a.VendorPartID,
		HWVersion: hexNumber(a.HWVersion), PhysPorts: a.PhysPorts, MaxMRSize: hexNumber(a.MaxMRSize), PageSizeCap: hexNumber(a.PageSizeCap),
		MaxQP: a.MaxQP, MaxQPWR: a.MaxQPWR, CapFlags: deviceFlags(a.CapFlags), CapNames: NamesOf(Capabilities, a.CapFlags),
		MaxSGE: a.MaxSGE, MaxSGERD: a.MaxSGERD, MaxCQ: a.MaxCQ, MaxCQE: a.MaxCQE, MaxMR: a.MaxMR, MaxPD: a.MaxPD,
		MaxQPRDAtomic: a.MaxQPRDAtomic, MaxEERDAtomic: a.MaxEERDAtomic, MaxResRDAtomic: a.MaxResRDAtomic,
		MaxQPInitRDAtomic: a.MaxQPInitRDAtomic, MaxEEInitRDAtomic: a.MaxEEInitRDAtomic,
		Atomics: fmt.Sprintf("%s (%d)", a.AtomicCap, uint32(a.AtomicCap)),
		MaxEE:   a.MaxEE, MaxRDD: a.MaxRDD, MaxMW: a.MaxMW, MaxRawIPv6QP: a.MaxRawIPv6QP, MaxRawEthyQP: a.MaxRawEthyQP,
		MaxMcastGrp: a.MaxMcastGrp, MaxMcastQPAttach: a.MaxMcastQPAttach, MaxTotalMcastQPAttach: a.MaxTotalMcastQPAttach,
		MaxAH: a.MaxAH, MaxFMR: a.MaxFMR, MaxMapPerFMR: a.MaxMapPerFMR, MaxSRQ: a.MaxSRQ, MaxSRQWR: a.MaxSRQWR, MaxSRQSGE: a.MaxSRQSGE,
		MaxPKeys: a.MaxPKeys, LocalCAAckDelay: a.LocalCAAckDelay, MaxInline: orUnknown(a.MaxInline),
	}
	for port := 1; port <= a.PhysPorts; port++ {
		p, err := c.QueryPort(port)
		if err != nil {
			return d, fmt.Errorf("query %s port %d: %w", name, port, err)
		}
		d.OK = d.OK || p.State == verbs.PortActive
		d.Ports = append(d.Ports, ReportPort(port, p, gidsOf(c, port, p.GIDTableSz)))
	}
	return d, nil
}

// ReportPort says everything about a port.
func ReportPort(port int, p verbs.PortAttr, gids []GIDReport) PortReport {
	return PortReport{
		Port: port, State: coded(portStates, uint32(p.State)), MaxMTU: mtuBytes(p.MaxMTU.Bytes()), ActiveMTU: mtuBytes(p.ActiveMTU.Bytes()),
		SMLID: p.SMLID, LID: p.LID, LMC: hexNumber(p.LMC), LinkLayer: p.LinkLayer.String(), MaxMsgSz: hexNumber(p.MaxMsgSz),
		CapFlags: portFlags(p.CapFlags), CapNames: NamesOf(portCaps, p.CapFlags), MaxVLNum: coded(virtualLanes, uint32(p.MaxVLNum)),
		BadPKeyCntr: hexNumber(p.BadPKeyCntr), QKeyViolCntr: hexNumber(p.QKeyViolCntr), SMSL: p.SMSL, PKeyTable: p.PKeyTableSz,
		GIDTable: p.GIDTableSz, SubnetTimeout: p.SubnetTimeout, InitTypeReply: p.InitTypeReply,
		ActiveWidth: coded(laneWidths, uint32(p.ActiveWidth)), ActiveSpeed: coded(laneSpeeds, p.ActiveSpeed), PhysState: cmp.Or(physStates[p.PhysState], p.PhysState, "-"),
		NetDev: p.NetDev, SpeedMbps: orUnknown(p.SpeedMbps), GIDs: gids, attr: p,
	}
}

// gidsOf lists the rows of a port's GID table that are in use.
func gidsOf(c verbs.Context, port, size int) []GIDReport {
	gids := []GIDReport{}
	for i := range size {
		// A slot that is empty or just went is no error: ENODATA.
		if g, err := c.QueryGID(port, i); err == nil && !g.GID.IsZero() {
			gids = append(gids, GIDReport{Index: i, GID: g.GID, Type: g.Type.String(), NetDev: g.NetDev})
		}
	}
	return gids
}

// openReport opens a device, asks it, and closes it.
func openReport(d verbs.Device) (r DeviceReport, err error) {
	c, err := d.Open(verbs.OpenOptions{})
	if err != nil {
		return r, fmt.Errorf("open %s: %w", d.Name(), err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return reportOn(c)
}

// DeviceAttribute is one attribute of a device, a port or a GID: a line of the
// table of `query`, whose JSON has the whole device in one object.
type DeviceAttribute struct {
	Command   string `json:"command"`
	OK        bool   `json:"ok"`
	Device    string `json:"device"`
	Port      int    `json:"port"` // 0: the device itself
	Attribute string `json:"attribute" col:"attribute|19"`
	Value     string `json:"value" col:"value"`
	mood      render.Mood
}

// Adjust implements render.Adjuster.
func (a DeviceAttribute) Adjust(column string, cell *render.Cell) {
	if column == "value" {
		cell.Mood = a.mood
	}
}

// attributes are the lines of a table about the device, or about one port: the
// fields of a report, all or those that matter most.
func (d DeviceReport) attributes(port int, report any, all bool) []render.Record {
	var list []render.Record
	v := reflect.ValueOf(report)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if show := f.Tag.Get("show"); show == "-" || show == "v" && !all {
			continue
		}
		list = append(list, d.line(port, f.Tag.Get("json"), fmt.Sprint(v.Field(i).Interface())))
	}
	return list
}

func (d DeviceReport) line(port int, name, value string) render.Record {
	a := DeviceAttribute{Command: "query", OK: d.OK, Device: d.Device, Port: port, Attribute: name, Value: cmp.Or(value, "-")}
	if name == "state" {
		if a.mood = render.Bad; value == coded(portStates, uint32(verbs.PortActive)) {
			a.mood = render.Good
		}
	}
	return a
}

func checkQuery(args []string) error {
	if len(args) > 1 {
		return exit.Usagef("query: %d arguments given: expected none, or one device such as soft:lo", len(args))
	}
	return nil
}

// runQuery shows the device that was named, or the ring's, or all.
func runQuery(_ context.Context, s *session.Session, call command.Call) error {
	var reports []DeviceReport
	switch {
	case len(call.Args) == 1:
		d, err := verbs.Find(call.Args[0])
		if err != nil {
			return exit.Usagef("query: %w", err) // which lists the devices
		}
		r, err := openReport(d)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	case s.Ring != nil && len(s.Ring.Devices()) > 0:
		for _, d := range s.Ring.Devices() {
			r, err := reportOn(d.Context)
			if err != nil {
				return err
			}
			reports = append(reports, r)
		}
	default:
		var errs, absent []error // a provider without devices leaves out none
		for _, p := range verbs.Providers() {
			devices, err := p.Devices()
			absent = append(absent, err)
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
			return errors.Join(fmt.Errorf("query: no device could be opened"), failed, errors.Join(absent...))
		} else if failed != nil {
			if err := s.Out.Note(render.Fair, "left out: %s", strings.ReplaceAll(failed.Error(), "\n", "; ")); err != nil {
				return err
			}
		}
	}
	for _, r := range reports {
		if err := Print(s, r, command.IsOn(call.Flags, "verbose")); err != nil {
			return err
		}
	}
	return nil
}

// Print prints a device: for programs one object, for people and for
// spreadsheets one attribute a line. Only people who did not ask for all are
// spared what seldom matters.
func Print(s *session.Session, d DeviceReport, verbose bool) error {
	if s.Out.Format() == render.JSON {
		return s.Out.Print(d)
	}
	all := verbose || s.Out.Format() == render.CSV
	if err := s.Out.Print(d.attributes(0, d, all)...); err != nil {
		return err
	}
	for _, p := range d.Ports {
		if err := s.Out.Note(render.Faint, "%s port %d", d.Device, p.Port); err != nil {
			return err
		}
		list := d.attributes(p.Port, p, all)
		for _, g := range p.GIDs {
			list = append(list, d.line(p.Port, fmt.Sprintf("GID[%d]", g.Index), fmt.Sprintf("%s  %s  %s", g.GID, g.Type, cmp.Or(g.NetDev, "-"))))
		}
		if err := s.Out.Print(list...); err != nil {
			return err
		}
	}
	return nil
}
