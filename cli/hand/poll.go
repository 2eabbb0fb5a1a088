package hand

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/failure"
	"ringcli/cli/lines"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/ring"
	"ringcli/ring/diagnose"
	"ringcli/ring/message"
	"ringcli/verbs"
)

func pollRow() command.Row {
	return command.Row{
		Name: "poll", Group: command.GroupRing, Where: command.Line, Needs: command.Opened, Own: true, Concurrency: command.Exclusive,
		Summary: "Poll the completion queue by hand",
		Long: `Polls the completion queue of both queue pairs until there are --count
completions or --timeout has passed, and shows all that there are. Of a failed
one only wr_id, status, qp_num and vendor_err are valid. A message that came
into a receive buffer of init is shown, and its buffer posted again; what
belongs to an operation of all ranks, or to a ping, is left to it.

Without --count it is no failure if nothing comes: then it says what is posted,
and what both ends say. With --count it fails.`,
		Flags: func(fs *pflag.FlagSet) {
			command.NumberFlag(fs, "count", "", 1, 1, 1<<20, "a number of completions", "completions to wait for; fewer are a failure if it is given")
			command.DurationFlag(fs, "timeout", 2*time.Second, "how long to wait")
		},
		Run: runPoll,
	}
}

// pollPause is the pause between two looks at the completion queue, between which
// a neighbour may ping this rank.
const pollPause = time.Millisecond

func runPoll(ctx context.Context, s *session.Session, call command.Call) error {
	h, want := workOf(s), command.NumberOf(call.Flags, "count")
	if s.Leads {
		return exit.Usagef("poll: this rank leads, and its followers cannot poll by hand: `close`, and open a shell on every node")
	}
	if err := needsQP(s.Ring, "poll"); err != nil {
		return err
	}
	h.on(s.Ring)
	patience := command.Value[time.Duration](call.Flags, "timeout")
	deadline := time.Now().Add(patience)
	var found []verbs.Completion
	awaited := "a completion"
	if want > 1 {
		awaited = fmt.Sprintf("%d completions", want)
	}
	end := s.Await(ctx, time.Now(), fmt.Sprintf("%s, at most %s; %s", awaited, patience, outstanding(s)))
	defer end()
	for {
		err := h.look(ctx, s)
		found = append(found, h.arrived...)
		h.arrived = nil
		if err != nil {
			return errors.Join(err, printCompletions(s, found))
		}
		if len(found) >= want || !time.Now().Before(deadline) {
			break
		}
		if err := lines.Pause(ctx, pollPause); err != nil {
			return errors.Join(err, printCompletions(s, found))
		}
	}
	end()
	if err := printCompletions(s, found); err != nil {
		return err
	}
	if err := worstOf(s, found); err != nil {
		return err
	}
	if len(found) >= want {
		return nil
	}
	err := fmt.Errorf("%d of %d completions within %s; %s: %w", len(found), want, patience, outstanding(s), verbs.ErrTimeout)
	findings := whyNothing(ctx, s, err)
	if call.Flags.Changed("count") {
		return failure.ExplainedBy(err, findings)
	}
	if err := s.Out.Note(render.Plain, "0 completions within %s; %s", patience, outstanding(s)); err != nil {
		return err
	}
	return failure.PrintFindings(s, findings)
}

// outstanding says what is posted and has not completed.
func outstanding(s *session.Session) string {
	var list []string
	for _, q := range workOf(s).waiting(nil) {
		list = append(list, q.side.String()+": "+q.what)
	}
	if len(list) == 0 {
		return "nothing by hand is posted"
	}
	return "posted and not completed: " + strings.Join(list, "; ")
}

// whyNothing says what both ends tell of a poll in vain: of a side where something
// is posted, why it has not completed, and of the other what disagrees.
func whyNothing(ctx context.Context, s *session.Session, err error) []failure.SideFinding {
	var list []failure.SideFinding
	for _, side := range session.Sides(nil) {
		var cause error
		if len(workOf(s).waiting(func(q *request) bool { return q.side == side })) > 0 {
			cause = err
		}
		for _, f := range failure.FindingsOf("poll", side, s.Ring.Ends().Diagnose(ctx, side.Edge(), cause), diagnose.Warning) {
			queues := f.Attribute == "sends_posted" || f.Attribute == "receives_posted"
			switch {
			case cause == nil && queues && f.Severity != diagnose.Fault:
				continue // who posts receives by hand knows it, and nothing waits here
			case f.Attribute == "busy": // it speaks of operations, and this is none
				f = atRest(ctx, s, side, f)
			}
			list = append(list, f)
		}
	}
	return failure.Gist(list)
}

// atRest says of an edge whose ends agree what the neighbour's has posted.
func atRest(ctx context.Context, s *session.Session, side ring.Side, f failure.SideFinding) failure.SideFinding {
	peer, err := s.Ring.Ends().Peer(ctx, side.Edge())
	if err != nil {
		return f
	}
	f.Attribute, f.Rank, f.Fix = "sends_posted", peer.Rank, ""
	f.Own, f.Peer = "", strconv.Itoa(peer.SendsPosted)
	f.Text = fmt.Sprintf("both ends agree; rank %d's is %s and has %d sends and %d receives posted: nothing is under way",
		peer.Rank, peer.QPState, peer.SendsPosted, peer.ReceivesPosted)
	return f
}

// worstOf returns the error of the first completion that failed of itself, or else
// of the first that was flushed.
func worstOf(s *session.Session, found []verbs.Completion) error {
	var flushed error
	for i := range found {
		switch {
		case found[i].Status == verbs.Success:
		case found[i].Status != verbs.FlushError:
			return s.Ring.Failure().Completion(&found[i])
		case flushed == nil:
			flushed = s.Ring.Failure().Completion(&found[i])
		}
	}
	return flushed
}

// look polls what there is, without waiting. What was posted by hand, or came from
// a neighbour's hand, or failed, is added to arrived; what belongs to operations
// and pings is left to them.
func (h *Work) look(ctx context.Context, s *session.Session) error {
	r := s.Ring
	token, err := r.Begin(ctx)
	if err != nil {
		return err
	}
	var wc [64]verbs.Completion
	var failed error
	for {
		n, err := token.Poll(wc[:])
		for i := range wc[:n] {
			if err := h.sort(s, token, &wc[i]); err != nil {
				failed = errors.Join(failed, err)
			}
		}
		if err != nil || n == 0 {
			return errors.Join(failed, err, token.End())
		}
	}
}

func (h *Work) sort(s *session.Session, token ring.Token, wc *verbs.Completion) error {
	r := s.Ring
	id, kind, index := ring.ParseWRID(wc.ID)
	switch {
	case kind == ring.WRHand, wc.Status != verbs.Success:
		h.arrived = append(h.arrived, *wc)
	case kind == ring.WRMessage: // of a ping that is over
	case kind != ring.WRRecv:
		token.Defer(*wc)
	case wc.Opcode == verbs.WCRecvWriteImm:
		if ofOperation(s, id, wc.Imm) {
			token.Defer(*wc)
			return nil
		}
		h.arrived = append(h.arrived, *wc)
	default:
		switch msg := r.Edge(id).Message(index, wc.ByteLen); {
		case message.KindOf(msg) == 0:
			h.arrived = append(h.arrived, *wc)
		case ring.StalePing(msg):
			return r.Edge(id).Repost(index)
		default:
			token.Defer(*wc)
		}
	}
	return nil
}

// ofOperation tells whether a WRITE with immediate data is a segment of the next
// operation, which the left neighbour has begun: then it names a slot, whose header
// is of an operation that this rank has not begun.
func ofOperation(s *session.Session, id ring.EdgeID, imm uint32) bool {
	edge := s.Ring.Edge(id)
	if s.Member == nil || id != ring.Left.Edge() || imm >= uint32(edge.Local.SlotCount) {
		return false
	}
	var h message.Header
	return h.Decode(edge.Slot(int(imm))) && h.Kind >= message.User && h.Seq > s.Member.Comm.Stats().Operations
}

// printCompletions shows completions, and gives receive buffers of init back.
func printCompletions(s *session.Session, found []verbs.Completion) error {
	var rows []CompletionRow
	for i := range found {
		row, err := completionRow(s, &found[i])
		if err != nil {
			return err
		}
		if last := len(rows) - 1; last >= 0 && row.flushed && rows[last].flushed && rows[last].Side == row.Side {
			rows[last].Count++
			continue
		}
		rows = append(rows, row)
	}
	return s.Out.Print(render.Records(rows)...)
}

// previewSize is how many bytes of what was received are shown.
const previewSize = 128

func completionRow(s *session.Session, wc *verbs.Completion) (CompletionRow, error) {
	r, h := s.Ring, workOf(s)
	id, kind, index := ring.ParseWRID(wc.ID)
	row := CompletionRow{
		Command: "poll", OK: wc.Status == verbs.Success, Rank: r.Rank(), Side: id.Side().String(), WRID: wc.ID,
		Status: wc.Status.String(), StatusNumber: uint32(wc.Status), QPN: wc.QPN, VendorErr: wc.VendorErr, Count: 1,
	}
	edge := r.Edge(id)
	q := h.posted[wc.ID]
	delete(h.posted, wc.ID)
	if row.What = describe(r, wc); q != nil {
		row.What = q.what
	}
	row.flushed = wc.Status == verbs.FlushError && kind == ring.WRRecv
	if !row.OK {
		return row, nil
	}
	op := wc.Opcode.String()
	row.Opcode, row.ByteLen = &op, &wc.ByteLen
	if wc.Flags&verbs.WCWithImm != 0 {
		row.Imm = &wc.Imm
	}
	received := wc.Opcode == verbs.WCRecv || wc.Opcode == verbs.WCRead || wc.Opcode == verbs.WCFetchAdd || wc.Opcode == verbs.WCCompSwap
	switch {
	case q != nil && q.region != nil && received:
		row.show(q.region.bytes(q.addr, min(uint64(wc.ByteLen), q.length, previewSize)))
	case kind == ring.WRRecv:
		if wc.Opcode == verbs.WCRecv {
			row.show(edge.Message(index, wc.ByteLen))
		}
		return row, edge.Repost(index)
	}
	return row, nil
}

// bytes returns the part of a region's memory that lies within it.
func (g *region) bytes(addr, length uint64) []byte {
	all := g.block.Bytes()
	at := min(addr-g.block.Addr(), uint64(len(all)))
	return all[at : at+min(length, uint64(len(all))-at)]
}

// CompletionRow is a completion (struct ibv_wc). Of a failed one only wr_id, status,
// qp_num and vendor_err are valid.
type CompletionRow struct {
	Command      string  `json:"command"`
	OK           bool    `json:"ok"`
	Rank         int     `json:"rank"`
	Side         string  `json:"side" col:"side|5"`
	WRID         uint64  `json:"wr_id"`
	What         string  `json:"what" col:"completion|last"`  // the request, by its wr_id
	Status       string  `json:"status" col:"status|verdict"` // as ibv_wc_status_str words it
	StatusNumber uint32  `json:"status_number"`
	Opcode       *string `json:"opcode,omitempty"`
	ByteLen      *uint32 `json:"byte_len,omitempty" col:"bytes"`
	Imm          *uint32 `json:"imm,omitempty"`
	QPN          uint32  `json:"qp_num" col:"qp_num|0x%06x"`
	VendorErr    uint32  `json:"vendor_err" col:"vendor|%#x"`
	Count        int     `json:"count"`          // like ones in a row: flushed receives of init
	Data         string  `json:"data,omitempty"` // the first bytes that came, in hex
	Text         string  `json:"text,omitempty"` // the same; a dot for what is no printable ASCII

	flushed bool
}

func (c *CompletionRow) show(b []byte) {
	b = slices.Clone(b[:min(len(b), previewSize)])
	c.Data, c.Text = hex.EncodeToString(b), printable(b)
}

// Adjust implements render.Adjuster.
func (c CompletionRow) Adjust(column string, cell *render.Cell) {
	switch column {
	case "status":
		cell.Text = fmt.Sprintf("%s (%d)", c.Status, c.StatusNumber)
	case "completion":
		if c.Opcode != nil && strings.HasPrefix(*c.Opcode, "RECV") { // of a send the words tell
			cell.Text = *c.Opcode + ", " + cell.Text
		}
		if c.Imm != nil {
			cell.Text += fmt.Sprintf(", imm %#x", *c.Imm)
		}
		if c.Text != "" {
			cell.Text += ": " + strconv.Quote(c.Text)
		}
		if c.Count > 1 {
			cell.Text += fmt.Sprintf(", and %d more", c.Count-1)
		}
	}
}
