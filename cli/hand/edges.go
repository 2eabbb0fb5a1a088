package hand

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/failure"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/ring"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// EdgeEnd is one end of an edge as its queue pair holds it now: this rank's own,
// or the peer's, which was asked for it.
type EdgeEnd struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`   // the queue pair works
	Side    string `json:"side"` // of this rank
	Whose   string `json:"whose"`
	diagnose.End
	// Unknown says why the peer's end is not known.
	Unknown string `json:"unknown,omitempty"`
}

// The ends of an edge.
const (
	OwnEnd  = "own"
	PeerEnd = "peer"
)

// edgeColumns are what a step's table shows beside side, end and rank: what the
// step is about.
var edgeColumns = map[string][]string{
	"init":     {"state", "qpn", "psn", "recv", "slots", "rkey"},
	"exchange": {"qpn", "psn", "mtu", "rkey", "gid"},
	"rtr":      {"state", "to qpn", "rq psn", "mtu", "to gid"},
	"rts":      {"state", "sq psn", "rq psn", "timeout", "retry", "rnr", "rd"},
	"":         {"state", "qpn", "to qpn", "sq psn", "rq psn", "mtu", "gid"},
}

var edgeCells = map[string]struct {
	left bool
	text func(diagnose.End) string
}{
	"state":   {true, func(e diagnose.End) string { return e.QPState.String() }},
	"qpn":     {false, func(e diagnose.End) string { return hex24(e.QPN) }},
	"to qpn":  {false, func(e diagnose.End) string { return hex24(e.DestQPN) }},
	"psn":     {false, func(e diagnose.End) string { return hex24(e.FirstPSN) }},
	"sq psn":  {false, func(e diagnose.End) string { return hex24(e.SQPSN) }},
	"rq psn":  {false, func(e diagnose.End) string { return hex24(e.RQPSN) }},
	"mtu":     {false, func(e diagnose.End) string { return strconv.Itoa(mtuOf(e)) }},
	"gid":     {true, func(e diagnose.End) string { return e.GID.String() }},
	"to gid":  {true, func(e diagnose.End) string { return e.DGID.String() }},
	"recv":    {false, func(e diagnose.End) string { return strconv.Itoa(e.ReceivesPosted) }},
	"slots":   {true, func(e diagnose.End) string { return fmt.Sprintf("%dx%d at %#x", e.SlotCount, e.SlotSize, e.Slots.Addr) }},
	"rkey":    {false, func(e diagnose.End) string { return fmt.Sprintf("%#x", e.Slots.RKey) }},
	"timeout": {false, func(e diagnose.End) string { return strconv.Itoa(int(e.QPTimeout)) }},
	"retry":   {false, func(e diagnose.End) string { return strconv.Itoa(int(e.RetryCnt)) }},
	"rnr":     {false, func(e diagnose.End) string { return strconv.Itoa(int(e.RNRRetry)) }},
	"rd":      {false, func(e diagnose.End) string { return fmt.Sprintf("%d/%d", e.MaxRDAtomic, e.MaxDestRDAtomic) }},
}

func hex24(v uint32) string { return fmt.Sprintf("%06x", v) }

// mtuOf is the path MTU, or before RTR what this end wants at most.
func mtuOf(e diagnose.End) int {
	if e.PathMTU > 0 {
		return e.PathMTU
	}
	return e.MTU
}

func (e EdgeEnd) columnNames() []string {
	if names, found := edgeColumns[e.Command]; found {
		return names
	}
	return edgeColumns[""]
}

// Columns implements render.Record; they differ by command.
func (e EdgeEnd) Columns() []render.Column {
	list := []render.Column{{Name: "side", Width: 5, Left: true}, {Name: "end", Width: 4, Left: true}, {Name: "rank"}}
	for _, name := range e.columnNames() {
		c := edgeCells[name]
		width := 0
		if slices.Contains([]string{"qpn", "to qpn", "psn", "sq psn", "rq psn"}, name) {
			width = 6
		}
		list = append(list, render.Column{Name: name, Width: width, Left: c.left})
	}
	return list
}

// Cells implements render.Record.
func (e EdgeEnd) Cells() []render.Cell {
	cells := render.Texts(e.Side, e.Whose, strconv.Itoa(e.Rank))
	for _, name := range e.columnNames() {
		cell := render.Cell{Text: "-"}
		if e.Unknown == "" {
			cell.Text = edgeCells[name].text(e.End)
			if name == "state" {
				cell.Mood = stateMood(e.QPState)
			}
		}
		cells = append(cells, cell)
	}
	return cells
}

func stateMood(state diagnose.Known[verbs.QPState]) render.Mood {
	switch {
	case state.Is(verbs.StateRTS):
		return render.Good
	case state.Is(verbs.StateErr, verbs.StateSQE):
		return render.Bad
	}
	return render.Fair
}

// edge returns both ends of an edge. A peer that cannot be asked yet, or any
// more, is said to be unknown.
func edge(ctx context.Context, s *session.Session, command string, side ring.Side) ([]EdgeEnd, error) {
	own, peer, err := s.Ring.Ends(ctx, side)
	unknown := ""
	if err != nil {
		unknown = err.Error()
		if own, err = s.Ring.OwnEnd(side); err != nil {
			return nil, err
		}
	}
	ends := []EdgeEnd{
		{Command: command, OK: stateMood(own.QPState) != render.Bad, Side: side.String(), Whose: OwnEnd, End: own},
		{Command: command, OK: unknown == "" && stateMood(peer.QPState) != render.Bad, Side: side.String(), Whose: PeerEnd, End: peer, Unknown: unknown},
	}
	if unknown != "" {
		ends[1].Rank, ends[1].Node, ends[1].Peer = own.Peer, own.PeerNode, own.Rank
	}
	return ends, nil
}

// meshSides lists the edges beside the ring's two.
func meshSides(r *ring.Ring) []ring.Side {
	var sides []ring.Side
	for _, e := range r.MeshEdges() {
		sides = append(sides, e.Side)
	}
	return sides
}

// printEdges shows both ends of the edges, and what of them disagrees.
func printEdges(ctx context.Context, s *session.Session, command string, only *ring.Side) error {
	var rows []render.Record
	var findings []failure.SideFinding
	for _, side := range session.Sides(only) {
		ends, err := edge(ctx, s, command, side)
		if err != nil {
			return err
		}
		for _, e := range ends {
			rows = append(rows, e)
		}
		if ends[1].Unknown == "" {
			findings = append(findings, failure.FindingsOf(command, side, diagnose.Compare(&ends[0].End, &ends[1].End), diagnose.Warning)...)
		}
	}
	if err := s.Out.Print(rows...); err != nil {
		return err
	}
	return failure.PrintFindings(s, findings)
}

// QPAttribute is an attribute of a queue pair beside the peer's.
type QPAttribute struct {
	Command   string `json:"command"`
	OK        bool   `json:"ok"` // it agrees
	Side      string `json:"side" col:"side|5"`
	Rank      int    `json:"rank"`
	Peer      int    `json:"peer"`
	Attribute string `json:"attribute" col:"attribute|18"`
	Own       string `json:"own" col:"own|16"`
	PeerOwn   string `json:"peer_value" col:"peer|16"`
	Problem   string `json:"problem" col:""`
}

// Adjust implements render.Adjuster.
func (q QPAttribute) Adjust(column string, cell *render.Cell) {
	if q.Problem != "" && (column == "attribute" || column == "") {
		cell.Mood = render.Bad
	}
}

// qpAttributes are the attributes that `qp` shows, as an End names them in JSON.
var qpAttributes = []struct {
	name string
	text func(diagnose.End) string
}{
	{"qp_state", func(e diagnose.End) string { return e.QPState.String() }},
	{"qpn", func(e diagnose.End) string { return hex24(e.QPN) }},
	{"dest_qpn", func(e diagnose.End) string { return hex24(e.DestQPN) }},
	{"first_psn", func(e diagnose.End) string { return hex24(e.FirstPSN) }},
	{"sq_psn", func(e diagnose.End) string { return hex24(e.SQPSN) }},
	{"rq_psn", func(e diagnose.End) string { return hex24(e.RQPSN) }},
	{"path_mtu", func(e diagnose.End) string { return strconv.Itoa(e.PathMTU) }},
	{"active_mtu", func(e diagnose.End) string { return strconv.Itoa(e.ActiveMTU) }},
	{"gid", func(e diagnose.End) string { return e.GID.String() }},
	{"gid_type", func(e diagnose.End) string { return e.GIDType.String() }},
	{"dgid", func(e diagnose.End) string { return e.DGID.String() }},
	{"sgid_index", func(e diagnose.End) string { return strconv.Itoa(e.SGIDIndex) }},
	{"lid", func(e diagnose.End) string { return strconv.Itoa(int(e.LID)) }},
	{"link_layer", func(e diagnose.End) string { return e.LinkLayer.String() }},
	{"port_num", func(e diagnose.End) string { return strconv.Itoa(e.PortNum) }},
	{"port_state", func(e diagnose.End) string { return e.PortState.String() }},
	{"udp_port", func(e diagnose.End) string { return strconv.Itoa(int(e.UDPPort)) }},
	{"dest_udp_port", func(e diagnose.End) string { return strconv.Itoa(int(e.DestUDPPort)) }},
	{"sl", func(e diagnose.End) string { return strconv.Itoa(int(e.SL)) }},
	{"traffic_class", func(e diagnose.End) string { return strconv.Itoa(int(e.TrafficClass)) }},
	{"hop_limit", func(e diagnose.End) string { return strconv.Itoa(int(e.HopLimit)) }},
	{"flow_label", func(e diagnose.End) string { return fmt.Sprintf("%05x", e.FlowLabel) }},
	{"pkey_index", func(e diagnose.End) string { return strconv.Itoa(int(e.PKeyIndex)) }},
	{"pkey", func(e diagnose.End) string { return fmt.Sprintf("0x%04x", e.PKey) }},
	{"access", func(e diagnose.End) string { return shortRights(e) }},
	{"qp_timeout", func(e diagnose.End) string { return strconv.Itoa(int(e.QPTimeout)) }},
	{"retry_cnt", func(e diagnose.End) string { return strconv.Itoa(int(e.RetryCnt)) }},
	{"rnr_retry", func(e diagnose.End) string { return strconv.Itoa(int(e.RNRRetry)) }},
	{"min_rnr_timer", func(e diagnose.End) string { return strconv.Itoa(int(e.MinRNRTimer)) }},
	{"max_rd_atomic", func(e diagnose.End) string { return strconv.Itoa(int(e.MaxRDAtomic)) }},
	{"max_dest_rd_atomic", func(e diagnose.End) string { return strconv.Itoa(int(e.MaxDestRDAtomic)) }},
	{"max_send_wr", func(e diagnose.End) string { return strconv.Itoa(e.Cap.MaxSendWR) }},
	{"max_recv_wr", func(e diagnose.End) string { return strconv.Itoa(e.Cap.MaxRecvWR) }},
	{"max_inline_data", func(e diagnose.End) string { return strconv.Itoa(e.Cap.MaxInlineData) }},
	{"sends_posted", func(e diagnose.End) string { return strconv.Itoa(e.SendsPosted) }},
	{"receives_posted", func(e diagnose.End) string { return strconv.Itoa(e.ReceivesPosted) }},
	{"slots", func(e diagnose.End) string { return fmt.Sprintf("%d x %d", e.SlotCount, e.SlotSize) }},
	{"slots_addr", func(e diagnose.End) string { return fmt.Sprintf("%#x", e.Slots.Addr) }},
	{"slots_rkey", func(e diagnose.End) string { return fmt.Sprintf("%#x", e.Slots.RKey) }},
	{"regions", func(e diagnose.End) string { return strconv.Itoa(len(e.Regions)) }},
	{"first_error", func(e diagnose.End) string { return render.OrDash(e.FirstError) }},
}

// shortRights are the remote rights of a queue pair in three letters.
func shortRights(e diagnose.End) string {
	var b strings.Builder
	for _, n := range rightNames {
		letter := "-"
		if e.Access&n.right != 0 {
			letter = strings.TrimPrefix(n.name, "remote-")[:1]
		}
		b.WriteString(letter)
	}
	return "remote " + b.String()
}

// runQP shows every attribute of a queue pair beside the peer's, and marks what
// disagrees.
func runQP(ctx context.Context, s *session.Session, call command.Call) error {
	only, err := sideOf(call.Args)
	if err != nil {
		return err
	}
	var findings []failure.SideFinding
	for _, side := range session.Sides(only) {
		ends, err := edge(ctx, s, "qp", side)
		if err != nil {
			return err
		}
		own, peer := ends[0], ends[1]
		var found []diagnose.Finding
		if peer.Unknown == "" {
			found = diagnose.Compare(&own.End, &peer.End)
		} else if err := s.Out.Note(render.Fair, "the peer's end is not known: %s", peer.Unknown); err != nil {
			return err
		}
		if err := s.Out.Print(Attributes(own, peer, found)...); err != nil {
			return err
		}
		findings = append(findings, failure.FindingsOf("qp", side, found, diagnose.Note)...)
	}
	return failure.PrintFindings(s, findings)
}

// Attributes is what `qp` shows of both ends of an edge; found is what disagrees.
func Attributes(own, peer EdgeEnd, found []diagnose.Finding) []render.Record {
	var rows []render.Record
	for _, a := range qpAttributes {
		row := QPAttribute{Command: "qp", OK: true, Side: own.Side, Rank: own.Rank, Peer: own.Peer, Attribute: a.name, Own: a.text(own.End), PeerOwn: "-"}
		if peer.Unknown == "" {
			row.PeerOwn = a.text(peer.End)
		}
		for _, f := range found {
			if f.Attribute == a.name && f.Severity != diagnose.Note {
				row.OK, row.Problem = f.Severity != diagnose.Fault, "<- "+string(f.Severity)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// sideOf reads the argument left or right, if there is one.
func sideOf(args []string) (*ring.Side, error) {
	if len(args) == 0 {
		return nil, nil
	}
	v, err := parseSide(args[0])
	if err != nil || len(args) > 1 {
		return nil, exit.Usagef("%q: expected left or right, or nothing for both", strings.Join(args, " "))
	}
	return &v, nil
}

func checkSide(args []string) error {
	_, err := sideOf(args)
	return err
}
