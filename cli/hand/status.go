package hand

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ringcli/cli/command"
	"ringcli/cli/failure"
	"ringcli/cli/lines"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/ring"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// ownOrAllHelp is the rule of ownOrAll.
const ownOrAllHelp = `In a shell of its own it is about this rank alone. Where rank 0 leads, and in a
script that all ranks run, it is about all ranks, as long as the ring is ready
and no line in the background uses it.`

func statusRow() command.Row {
	return command.Row{
		Name: "status", Group: command.GroupLook, Where: command.Line, Needs: command.Opened, Own: true, Harmless: true,
		Summary: "Show how far the ring has come, and both ends of its edges",
		Long: `Shows which device and GID were taken and why, the steps of the bring-up, done
and to come, both ends of both edges as their queue pairs hold them now, those
of the edges to other ranks that operations have made (mesh), and once the ring
is ready the table by which auto chooses algorithm and protocol. The other ends
are asked for over TCP; who cannot be asked is said to be unknown. JSON and CSV
have every attribute of a queue pair; so has qp, for reading. JSON also has the
GIDs that were not taken, and why.

` + ownOrAllHelp + `
The rows for all ranks are shorter. A summary begins them; edges that are not in
order, or not as most of their provider are, come first.`,
		Run: func(ctx context.Context, s *session.Session, call command.Call) error {
			return ownOrAll(ctx, s, call, ownStatus, allStatus)
		},
	}
}

// ownOrAll runs what a command does for this rank alone, or what all ranks do
// together: that is where they all run the same line, led by rank 0 or in scripts
// that are the same, in a ring that is ready.
func ownOrAll(ctx context.Context, s *session.Session, call command.Call, own, all func(context.Context, *session.Session, command.Call) error) error {
	alone := s.Interactive && !s.Leads || s.Ring.Usable() != nil
	switch {
	case s.Follows || call.Led: // the leader has decided
		return all(ctx, s, call)
	case alone:
		return own(ctx, s, call)
	}
	c, _ := call.Table.Find(call.Name, command.Line)
	switch {
	case s.Turns == nil || c.Concurrency == command.Exclusive:
	case !s.Interactive: // all ranks run it, each when its own jobs before it have ended
		turn := s.Turns.Reserve(c.Name)
		defer turn.Leave()
		if err := turn.Take(ctx, s); err != nil {
			return err
		}
		defer turn.Keep()
	default:
		turn, busy := s.Turns.Try(s, c.Name)
		if by, is := errors.AsType[*session.BusyError](busy); is { // this rank can tell what it knows by itself
			if err := s.Out.Note(render.Fair, "of rank %d alone, since all ranks are busy with %s", s.Ring.Rank(), by.Holder); err != nil {
				return err
			}
			return own(ctx, s, call)
		}
		defer turn.Leave()
		defer turn.Keep()
	}
	if err := s.Ready(ctx); err != nil {
		return err
	}
	s.Member.Command = c.Name
	if s.Leads {
		return lines.Lead(ctx, s, c, call)
	}
	return s.Together(func() error { return all(ctx, s, call) })
}

// StepStatus is how far a step of the bring-up has come at this rank.
type StepStatus struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"` // no queue pair is in error
	Rank    int    `json:"rank"`
	Step    string `json:"step" col:"step|8"`
	Left    string `json:"left" col:"left|5"`   // done, or - for not yet; of a queue pair in error its state
	Right   string `json:"right" col:"right|5"` // the same
	Next    bool   `json:"next" col:""`         // it comes next
	State   string `json:"ring_state"`
	Epoch   uint32 `json:"epoch"` // of the ring; 0 before exchange
	// Injected is what is done on purpose to the ring.
	Injected string `json:"injected,omitempty"`
}

// Adjust implements render.Adjuster.
func (s StepStatus) Adjust(column string, cell *render.Cell) {
	switch {
	case column == "":
		*cell = render.Cell{}
		if s.Next {
			*cell = render.Cell{Text: "<- next", Mood: render.Fair}
		}
	case column == "step":
	case cell.Text == StepDone:
		cell.Mood = render.Good
	case !s.OK:
		cell.Mood = render.Bad
	}
}

// What StepStatus says of a step.
const (
	StepDone = "done"
	StepOpen = "-"
)

// The steps, as the ring's states have them: step i leads to reached[i].
var (
	stepNames = []string{"open", "init", "exchange", "rtr", "rts"}
	reached   = []ring.State{ring.StateOpened, ring.StateInitialised, ring.StateExchanged, ring.StateRTR, ring.StateRTS}
)

// ownStatus shows this rank's steps and edges.
func ownStatus(ctx context.Context, s *session.Session, _ command.Call) error {
	steps, err := stepsOf(s.Ring)
	if err != nil {
		return err
	}
	for i := range steps {
		steps[i].Injected = s.Place.Injected()
	}
	r := s.Ring
	node, device := r.Nodes()[r.Rank()], session.DeviceOf(r)
	if err := s.Out.Note(render.Plain, "rank %d of %d (%s) on %s: the ring is %s", r.Rank(), r.Size(), node, device, r.State()); err != nil {
		return err
	}
	if note := s.Place.InjectedNote(); note != "" {
		if err := s.Out.Note(render.Fair, "%s", note); err != nil {
			return err
		}
	}
	failed := r.State() == ring.StateFailed
	if failed {
		if err := s.Out.Notes(render.Bad, fmt.Sprintf("it has failed: %v", r.Err()), "`connect` brings up a new one, as `close` and `open` do step by step"); err != nil {
			return err
		}
	}
	if err := s.Out.Print(pathTaken(r)...); err != nil {
		return err
	}
	if err := s.Out.Print(render.Records(steps)...); err != nil || failed {
		return err
	}
	var rows []render.Record
	var findings []failure.SideFinding
	var unknown []string
	for _, id := range allEdges(r) {
		own, peer, found, err := edge(ctx, s, "status", id)
		step, isStep := errors.AsType[*ring.StepError](err)
		switch {
		case isStep && step.Missing == "init": // there are no queue pairs yet
			return nil
		case err != nil:
			return err
		}
		rows = append(rows, own, peer)
		findings = append(findings, failure.FindingsOf("status", id.Side(), found, diagnose.Warning)...)
		if peer.Unknown != "" {
			unknown = append(unknown, fmt.Sprintf("%s: the end of rank %d is not known: %s", id.Name(), peer.Rank, peer.Unknown))
		}
	}
	if err := s.Out.Print(rows...); err != nil {
		return err
	}
	if err := s.Out.Notes(render.Fair, unknown...); err != nil {
		return err
	}
	if err := failure.PrintFindings(s, findings); err != nil || s.Member == nil {
		return err
	}
	return s.Out.Print(s.Member.Table)
}

// PathChoice says which device an edge of a rank uses and why, or which row of a
// device's GID table; or why it did not take another row.
type PathChoice struct {
	Command  string          `json:"command"`
	OK       bool            `json:"ok"`
	Rank     int             `json:"rank"`
	Choice   string          `json:"choice" col:"choice"` // "device" or "gid"
	Side     string          `json:"side,omitempty"`      // of the edge that uses the device
	Channel  int             `json:"channel,omitempty"`   // of that
	Device   string          `json:"device"`
	Value    string          `json:"value" col:"taken"`
	GIDIndex *int            `json:"gid_index,omitempty"`
	Taken    bool            `json:"taken"`
	Why      string          `json:"why" col:"why"`
	Rejected []render.Record `json:"-"`
	Others   []render.Record `json:"-"` // of more channels, or edges of a mesh, in the same row
}

// Adjust implements render.Adjuster.
func (c PathChoice) Adjust(column string, cell *render.Cell) {
	switch {
	case column == "choice" && c.Side != "":
		cell.Text = atChannel(c.Side, c.Channel)
	case column == "taken" && c.GIDIndex != nil:
		cell.Text = fmt.Sprintf("[%d] %s", *c.GIDIndex, c.Value)
	case column == "why" && len(c.Others) > 0:
		what := "edges"
		if c.Side != ring.Mesh.String() {
			what = "channels"
		}
		cell.Text = fmt.Sprintf("%s; %d more %s likewise", c.Why, len(c.Others), what)
	}
}

// Parts implements render.Parts: what was not taken is for programs.
func (c PathChoice) Parts() []render.Record {
	taken := c
	taken.Rejected, taken.Others = nil, nil
	return slices.Concat([]render.Record{taken}, c.Others, c.Rejected)
}

// pathTaken are the devices that the edges of a ring use, and of each device the
// GID.
func pathTaken(r *ring.Ring) []render.Record {
	var choices []PathChoice
	for _, id := range allEdges(r) {
		d, why := r.DeviceTo(id)
		if d == nil {
			continue
		}
		choice := PathChoice{
			Command: "status", OK: true, Rank: r.Rank(), Choice: "device", Side: id.Side().String(), Channel: id.Channel(), Device: d.Name, Value: d.Name, Taken: true, Why: why,
		}
		same := slices.IndexFunc(choices, func(c PathChoice) bool { return c.Side == choice.Side && c.Device == d.Name })
		if same >= 0 && (id.IsMesh() || id.Channel() > 0) {
			choices[same].Others = append(choices[same].Others, choice)
			continue
		}
		choices = append(choices, choice)
	}
	list := render.Records(choices)
	for _, d := range r.Devices() {
		g := d.GID
		choice := PathChoice{
			Command: "status", OK: true, Rank: r.Rank(), Choice: "gid", Device: d.Name, Value: g.Entry.GID.String(), GIDIndex: &g.Entry.Index, Taken: true, Why: g.Reason,
		}
		for _, x := range g.Rejected {
			no := choice
			no.Value, no.GIDIndex, no.Taken, no.Why = x.GID.String(), &x.Index, false, x.Reason
			choice.Rejected = append(choice.Rejected, no)
		}
		list = append(list, choice)
	}
	return list
}

// stepsOf tells for each step whether the queue pairs have taken it.
func stepsOf(r *ring.Ring) ([]StepStatus, error) {
	state := r.State()
	var at [2]ring.State
	var bad [2]string
	for _, side := range session.Sides(nil) {
		var qp verbs.QPState
		var err error
		if at[side], qp, err = r.Ends().Reached(side); err != nil {
			return nil, err
		}
		if at[side] == ring.StateError {
			bad[side] = qp.String()
		}
	}
	failed := bad[0] != "" || bad[1] != ""
	next := !failed && state < ring.StateFailed
	steps := make([]StepStatus, len(stepNames))
	for i, name := range stepNames {
		text := func(side ring.Side) string {
			switch {
			case reached[i] == ring.StateOpened || bad[side] == "" && at[side] >= reached[i]:
				return StepDone
			case bad[side] != "":
				return bad[side]
			}
			return StepOpen
		}
		steps[i] = StepStatus{
			Command: "status", OK: !failed, Rank: r.Rank(), Step: name, Left: text(ring.Left), Right: text(ring.Right), State: state.String(),
			Epoch: r.Epoch(),
		}
		if next && (steps[i].Left != StepDone || steps[i].Right != StepDone) {
			steps[i].Next, next = true, false
		}
	}
	if failed && state < ring.StateFailed {
		steps = append(steps, StepStatus{
			Command: "status", Rank: r.Rank(), Step: "reset", Left: StepOpen, Right: StepOpen, Next: true, State: state.String(), Epoch: r.Epoch(),
		})
	}
	return steps, nil
}

// hideLocal leaves the GID of a region of this host out of tables: it leads nowhere.
func hideLocal(device, column string, cell *render.Cell) {
	if provider, _, _ := strings.Cut(device, ":"); provider == "shm" && (column == "gid" || column == "to gid") {
		*cell = render.Cell{}
	}
}

// LinkStatus is one edge of one rank, both ends, where all ranks show theirs.
type LinkStatus struct {
	Command   string `json:"command"`
	OK        bool   `json:"ok"` // the queue pair is in RTS
	Rank      int    `json:"rank" col:"rank"`
	Node      string `json:"node"`
	RingState string `json:"ring_state"`
	Epoch     uint32 `json:"epoch"` // of the ring
	Side      string `json:"side" col:"side|5"`
	Channel   int    `json:"channel"`
	Peer      int    `json:"peer" col:"peer"`
	PeerNode  string `json:"peer_node"`
	Device    string `json:"device" col:"device"`
	DeviceWhy string `json:"device_why"`
	State     string `json:"qp_state" col:"state|verdict"`
	MTU       int    `json:"mtu" col:"mtu"` // bytes
	SQPSN     uint32 `json:"sq_psn" col:"sq psn|8|0x%06x"`
	RQPSN     uint32 `json:"rq_psn" col:"rq psn|8|0x%06x"`
	QPN       uint32 `json:"qpn" col:"qpn|8|0x%06x|before=sq psn"`
	PSN       uint32 `json:"psn"`
	GID       string `json:"gid"`
	PeerQPN   uint32 `json:"peer_qpn" col:"to qpn|8|0x%06x|before=sq psn"`
	PeerPSN   uint32 `json:"peer_psn"`
	PeerGID   string `json:"peer_gid" col:"to gid"`
	PeerUDP   uint16 `json:"peer_udp_port"`
	// Injected is what is done on purpose to the ring.
	Injected string `json:"injected,omitempty"`
}

// Adjust implements render.Adjuster.
func (l LinkStatus) Adjust(column string, cell *render.Cell) {
	if column == "side" {
		cell.Text = atChannel(l.Side, l.Channel)
	}
	hideLocal(l.Device, column, cell)
}

// allStatus shows all ranks' edges.
func allStatus(ctx context.Context, s *session.Session, _ command.Call) error {
	m := s.Member
	peers, err := m.Ring.Ends().Status()
	if err != nil {
		return err
	}
	var mine []LinkStatus
	for _, p := range peers {
		mine = append(mine, LinkStatus{
			Command: "status", OK: p.Attr.State == verbs.StateRTS, Rank: m.Ring.Rank(), Node: m.Ring.Nodes()[m.Ring.Rank()].String(),
			RingState: m.Ring.State().String(), Epoch: m.Ring.Epoch(), Side: p.Side.String(), Channel: p.ID.Channel(), Peer: p.Rank, PeerNode: p.Node,
			Device: p.Local.Device, DeviceWhy: p.Why, State: p.Attr.State.String(), MTU: p.Attr.PathMTU.Bytes(), SQPSN: p.Attr.SQPSN, RQPSN: p.Attr.RQPSN,
			QPN: p.Local.QPN, PSN: p.Local.PSN, GID: p.Local.GID.String(),
			PeerQPN: p.Remote.QPN, PeerPSN: p.Remote.PSN, PeerGID: p.Remote.GID.String(), PeerUDP: p.Remote.UDPPort, Injected: s.Place.Injected(),
		})
	}
	all, err := session.Share(ctx, m, mine)
	if err != nil {
		return err
	}
	rows, summary, mood := summed(slices.Concat(all...), m.Ring.Size())
	if err := s.Out.Note(mood, "epoch %d: %s", m.Ring.Epoch(), summary); err != nil {
		return err
	}
	if note := s.Place.InjectedNote(); note != "" {
		if err := s.Out.Note(render.Fair, "%s", note); err != nil {
			return err
		}
	}
	if err := s.Out.Print(render.Records(rows)...); err != nil {
		return err
	}
	return s.Out.Print(m.Table)
}

// summed sums up what all ranks have shown, and has the rows of what is not in order, or
// not as most others of its provider are, come first.
func summed(rows []LinkStatus, ranks int) (sorted []LinkStatus, summary string, mood render.Mood) {
	kind := func(l LinkStatus) (provider, full string) {
		provider, _, _ = strings.Cut(l.Device, ":")
		return provider, fmt.Sprintf("%s with MTU %d", provider, l.MTU)
	}
	usual, seen := map[string]string{}, map[string]int{} // a provider's commonest kind
	for _, l := range rows {
		provider, k := kind(l)
		if seen[k]++; seen[k] > seen[usual[provider]] {
			usual[provider] = k
		}
	}
	inOrder := func(l LinkStatus) bool {
		provider, k := kind(l)
		return l.OK && l.RingState == ring.StateReady.String() && usual[provider] == k
	}
	odd := slices.DeleteFunc(slices.Clone(rows), inOrder)
	summary, mood = "all in RTS", render.Good
	if len(odd) > 0 {
		summary, mood = fmt.Sprintf("%d not in order or not as the others, shown first", len(odd)), render.Bad
	}
	rest := slices.DeleteFunc(rows, func(l LinkStatus) bool { return !inOrder(l) })
	over := strings.Join(slices.Sorted(maps.Values(usual)), ", ")
	return append(odd, rest...), fmt.Sprintf("%d ranks, %d ends of edges over %s: %s", ranks, len(odd)+len(rest), over, summary), mood
}
