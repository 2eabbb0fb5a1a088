package hand

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
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
var edgeColumns = map[string]string{
	"init":     "QPState=state; QPN=qpn|8|0x%06x; FirstPSN=psn|8|0x%06x; ReceivesPosted=recv; SlotSize=slots|left; Slots.RKey=rkey|%#x",
	"exchange": "QPN=qpn|8|0x%06x; FirstPSN=psn|8|0x%06x; MTU=mtu; Slots.RKey=rkey|%#x; GID=gid",
	"rtr":      "QPState=state; DestQPN=to qpn|8|0x%06x; RQPSN=rq psn|8|0x%06x; MTU=mtu; DGID=to gid",
	"rts":      "QPState=state; SQPSN=sq psn|8|0x%06x; RQPSN=rq psn|8|0x%06x; QPTimeout=timeout; RetryCnt=retry; RNRRetry=rnr; MaxRDAtomic=rd",
	"":         "QPState=state; QPN=qpn|8|0x%06x; DestQPN=to qpn|8|0x%06x; SQPSN=sq psn|8|0x%06x; RQPSN=rq psn|8|0x%06x; MTU=mtu; GID=gid",
}

// Row implements render.Tabular: the columns differ by command.
func (e EdgeEnd) Row() ([]render.Column, []render.Cell) {
	fields, found := edgeColumns[e.Command]
	if !found {
		fields = edgeColumns[""]
	}
	head, row := render.Select(e, "Side=side|5; Whose=end|4; Rank=rank")
	row[0].Text = atChannel(e.Side, e.Channel)
	more, cells := render.Select(e.End, fields)
	for i := range cells {
		switch c := &cells[i]; {
		case e.Unknown != "":
			c.Text = "-"
		case more[i].Name == "gid" || more[i].Name == "to gid":
			hideLocal(e.Device, more[i].Name, c)
		case more[i].Name == "state":
			c.Mood = stateMood(e.QPState)
		case more[i].Name == "mtu":
			c.Text = strconv.Itoa(cmp.Or(e.PathMTU, e.MTU)) // before RTR what this end wants at most
		case more[i].Name == "slots":
			c.Text = fmt.Sprintf("%dx%d", e.SlotCount, e.SlotSize)
		case more[i].Name == "rd":
			c.Text = fmt.Sprintf("%d/%d", e.MaxRDAtomic, e.MaxDestRDAtomic)
		}
	}
	return append(head, more...), append(row, cells...)
}

// atChannel is how a table names a queue pair: "right", and "right/2" beside the first.
func atChannel(side string, channel int) string {
	if channel == 0 {
		return side
	}
	return fmt.Sprintf("%s/%d", side, channel)
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

// edge returns both ends of an edge, and what of them disagrees. A peer that cannot
// be asked yet, or any more, is said to be unknown.
func edge(ctx context.Context, s *session.Session, command string, id ring.EdgeID) (own, peer EdgeEnd, found []diagnose.Finding, err error) {
	side := id.Side().String()
	own, peer = EdgeEnd{Command: command, Side: side, Whose: OwnEnd}, EdgeEnd{Command: command, Side: side, Whose: PeerEnd}
	own.Channel, peer.Channel = id.Channel(), id.Channel()
	var unknown error
	if own.End, peer.End, unknown = s.Ring.Ends().Both(ctx, id); unknown == nil {
		peer.OK = stateMood(peer.QPState) != render.Bad
		found = diagnose.Compare(&own.End, &peer.End)
	} else {
		if own.End, err = s.Ring.Ends().Own(id); err != nil {
			return own, peer, nil, err
		}
		peer.End = diagnose.End{Rank: own.Peer, Node: own.PeerNode, Peer: own.Rank, Channel: own.Channel}
		peer.Unknown = unknown.Error()
	}
	own.OK = stateMood(own.QPState) != render.Bad
	return own, peer, found, nil
}

// queuePairs lists the queue pairs of the edges at some sides; nil is both.
func queuePairs(r *ring.Ring, only *ring.Side) (ids []ring.EdgeID) {
	for _, side := range session.Sides(only) {
		for channel := range r.Options().Channels {
			ids = append(ids, side.Edge().On(channel))
		}
	}
	return ids
}

// allEdges lists the queue pairs of a ring, those of a mesh last.
func allEdges(r *ring.Ring) []ring.EdgeID {
	ids := queuePairs(r, nil)
	for _, e := range r.MeshEdges() {
		ids = append(ids, e.ID)
	}
	return ids
}

// printEdges shows both ends of the edges, and what of them disagrees.
func printEdges(ctx context.Context, s *session.Session, command string, only *ring.Side) error {
	var rows []render.Record
	var findings []failure.SideFinding
	for _, id := range queuePairs(s.Ring, only) {
		own, peer, found, err := edge(ctx, s, command, id)
		if err != nil {
			return err
		}
		rows = append(rows, own, peer)
		findings = append(findings, failure.FindingsOf(command, id.Side(), found, diagnose.Warning)...)
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
	Channel   int    `json:"channel"`
	Rank      int    `json:"rank"`
	Peer      int    `json:"peer"`
	Attribute string `json:"attribute" col:"attribute|18"`
	Own       string `json:"own" col:"own|16"`
	PeerOwn   string `json:"peer_value" col:"peer|16"`
	Problem   string `json:"problem" col:""`
}

// Adjust implements render.Adjuster.
func (q QPAttribute) Adjust(column string, cell *render.Cell) {
	if column == "side" {
		cell.Text = atChannel(q.Side, q.Channel)
	}
	if q.Problem != "" && (column == "attribute" || column == "") {
		cell.Mood = render.Bad
	}
}

// qpAttributes are what `qp` shows, as an End names it in JSON.
const qpAttributes = `QPState=qp_state; QPN=qpn|0x%06x; DestQPN=dest_qpn|0x%06x; FirstPSN=first_psn|0x%06x; SQPSN=sq_psn|0x%06x; RQPSN=rq_psn|0x%06x;
	PathMTU=path_mtu; ActiveMTU=active_mtu; GID=gid; GIDType=gid_type; DGID=dgid; SGIDIndex=sgid_index; LID=lid; LinkLayer=link_layer;
	PortNum=port_num; PortState=port_state; UDPPort=udp_port; DestUDPPort=dest_udp_port; SL=sl; TrafficClass=traffic_class;
	HopLimit=hop_limit; FlowLabel=flow_label|%05x; PKeyIndex=pkey_index; PKey=pkey|0x%04x; Access=access;
	QPTimeout=qp_timeout; RetryCnt=retry_cnt; RNRRetry=rnr_retry; MinRNRTimer=min_rnr_timer;
	MaxRDAtomic=max_rd_atomic; MaxDestRDAtomic=max_dest_rd_atomic;
	Cap.MaxSendWR=max_send_wr; Cap.MaxRecvWR=max_recv_wr; Cap.MaxInlineData=max_inline_data;
	SendsPosted=sends_posted; ReceivesPosted=receives_posted;
	SlotSize=slots; Slots.Addr=slots_addr|%#x; Slots.RKey=slots_rkey|%#x; Regions=regions|len; FirstError=first_error|dash`

func attributesOf(e diagnose.End) ([]render.Column, []render.Cell) {
	head, row := render.Select(e, qpAttributes)
	for i := range row {
		switch head[i].Name {
		case "access":
			row[i].Text = shortRights(e)
		case "slots":
			row[i].Text = fmt.Sprintf("%d x %d", e.SlotCount, e.SlotSize)
		}
	}
	return head, row
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

// qpFlags are those of runQP.
func qpFlags(fs *pflag.FlagSet) { fs.Bool("all", false, "show the attributes that are equal, too") }

// runQP explains what disagrees between queue pairs and the peers', and shows the attributes
// that differ, or all, side by side.
func runQP(ctx context.Context, s *session.Session, call command.Call) error {
	only, err := sideOf(call.Args)
	if err != nil {
		return err
	}
	var findings []failure.SideFinding
	var rows []render.Record
	equal := 0
	for _, id := range queuePairs(s.Ring, only) {
		own, peer, found, err := edge(ctx, s, "qp", id)
		if err != nil {
			return err
		}
		if peer.Unknown != "" {
			if err := s.Out.Note(render.Fair, "the peer's end is not known: %s", peer.Unknown); err != nil {
				return err
			}
		}
		for _, a := range Attributes(own, peer, found) {
			if a.Own == a.PeerOwn && a.Problem == "" && s.Out.Format() == render.Table && !command.IsOn(call.Flags, "all") {
				equal++
				continue
			}
			rows = append(rows, a)
		}
		findings = append(findings, failure.FindingsOf("qp", id.Side(), found, diagnose.Note)...)
	}
	if err := failure.PrintFindings(s, findings); err != nil {
		return err
	}
	if err := s.Out.Print(rows...); err != nil || equal == 0 {
		return err
	}
	return s.Out.Note(render.Faint, "%d attributes are equal at both ends; qp --all shows them", equal)
}

// Attributes is what `qp` shows of both ends of an edge; found is what disagrees.
func Attributes(own, peer EdgeEnd, found []diagnose.Finding) (rows []QPAttribute) {
	names, ours := attributesOf(own.End)
	_, theirs := attributesOf(peer.End)
	for i, a := range names {
		row := QPAttribute{Command: "qp", OK: true, Side: own.Side, Channel: own.Channel, Rank: own.Rank, Peer: own.Peer, Attribute: a.Name, Own: ours[i].Text, PeerOwn: "-"}
		if peer.Unknown == "" {
			row.PeerOwn = theirs[i].Text
		}
		for _, f := range found {
			if f.Attribute == a.Name && f.Severity != diagnose.Note {
				row.OK, row.Problem = f.Severity != diagnose.Fault, "<- "+string(f.Severity)
			}
		}
		rows = append(rows, row)
	}
	return rows
}
