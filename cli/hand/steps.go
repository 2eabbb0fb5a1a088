package hand

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs"
	"ringcli/ring"
	"ringcli/trace"
	"ringcli/verbs"
)

// settingsOfOpen are the settings that `open` takes; those of the later steps
// are values that these take themselves.
var settingsOfOpen = append([]string{"list", "index"}, session.Without(configs.NamesOf(ring.Options{}),
	"mtu", "sl", "traffic-class", "qp-timeout", "retry-cnt", "rnr-retry", "min-rnr-timer")...)

// runConnectLine takes all steps at once.
func runConnectLine(ctx context.Context, s *session.Session, call command.Call) error {
	if err := keepSettings(s, call); err != nil {
		return err
	}
	if err := s.Rejoin(ctx, nil, s.Leads || s.Place.Led, Leaving(s), 0); err != nil {
		return err
	}
	if err := printEdges(ctx, s, "connect", nil); err != nil {
		return err
	}
	if s.Leads {
		return s.Out.Note(render.Good, "%d ranks follow: what runs on the ring runs on all of them", s.Ring.Size()-1)
	}
	return nil
}

// Leaving is why a ring is left by its operator: for the ring's failure, if it
// has failed, which the others know.
func Leaving(s *session.Session) error {
	if s.Ring != nil && s.Ring.Failed() {
		return s.Ring.Err()
	}
	return nil
}

// keepSettings makes the settings that a line gives the session's own.
func keepSettings(s *session.Session, call command.Call) error {
	var err error
	call.Flags.Visit(func(f *pflag.Flag) {
		if f.Name == withoutFlag {
			return
		}
		next, wrong := s.Config.With(f.Name, f.Value.String())
		if wrong != nil {
			err = errors.Join(err, wrong)
			return
		}
		s.Config = next
	})
	return err
}

func runOpen(ctx context.Context, s *session.Session, call command.Call) error {
	if s.Ring != nil {
		return exit.Usagef("open: a ring is open already, as rank %d of %d: `close` comes first", s.Ring.Rank(), s.Ring.Size())
	}
	if err := keepSettings(s, call); err != nil {
		return err
	}
	list, index, err := s.Identity()
	if err != nil {
		return err
	}
	trace.SetRank(index)
	o, err := s.RingOptions()
	if err != nil {
		return err
	}
	o.ByHand = true
	r, err := ring.New([]string{list}, index, o)
	if err != nil {
		return err
	}
	end := s.Progress.Clock("open")
	begun := time.Now()
	err = r.Open(ctx)
	end()
	if err != nil {
		return errors.Join(err, r.Close())
	}
	s.Ring = r
	var rows []render.Record
	for _, d := range r.Devices() {
		port, gid := d.Port.Attr, d.GID.Entry
		rows = append(rows, OpenResult{
			Command: "open", OK: true, Rank: index, Ranks: r.Size(), Node: r.Nodes()[index].String(), Address: r.Host().Addr().String(),
			Device: d.Name, Port: d.Port.Num, Seconds: time.Since(begun).Seconds(),
			PortState: port.State.String(), LinkLayer: port.LinkLayer.String(), ActiveMTU: port.ActiveMTU.Bytes(), NetDev: port.NetDev,
			GID: gid.GID, GIDIndex: gid.Index, GIDType: gid.Type.String(),
		})
	}
	return s.Out.Print(rows...)
}

// OpenResult is what `open` found: a device that an edge is going to use.
type OpenResult struct {
	Command   string    `json:"command"`
	OK        bool      `json:"ok"`
	Rank      int       `json:"rank" col:"open|left"`
	Ranks     int       `json:"ranks"`
	Node      string    `json:"node"`
	Address   string    `json:"address"`
	Device    string    `json:"device" col:"device"`
	Port      int       `json:"port" col:"port"`
	PortState string    `json:"port_state" col:"state"`
	LinkLayer string    `json:"link_layer"`
	ActiveMTU int       `json:"active_mtu" col:"mtu"` // bytes
	NetDev    string    `json:"netdev"`
	GID       verbs.GID `json:"gid" col:"gid|last"`
	GIDIndex  int       `json:"gid_index" col:"gid index"`
	GIDType   string    `json:"gid_type"`
	Seconds   float64   `json:"seconds"`
}

// Adjust implements render.Adjuster.
func (o OpenResult) Adjust(column string, cell *render.Cell) {
	if column == "open" {
		cell.Text = fmt.Sprintf("%d of %d", o.Rank, o.Ranks)
	}
}

// runStep takes a step with the values that were given and shows both ends.
func runStep(step func(context.Context, *ring.Ring, ring.Values) error) func(context.Context, *session.Session, command.Call) error {
	return func(ctx context.Context, s *session.Session, call command.Call) error {
		if s.Leads {
			return exit.Usagef("%s: this rank leads, and its followers take all steps at once: `close`, and walk the steps in a shell on every node", call.Name)
		}
		var v ring.Values
		command.Fill(call.Flags, &v)
		if err := s.DropMember(); err != nil {
			return err
		}
		end := s.Progress.Clock("%s, at most %s", call.Name, s.Ring.Timeout())
		err := step(ctx, s.Ring, v)
		end()
		if err != nil {
			return err
		}
		if call.Name == "reset" {
			h := workOf(s) // what was posted is dropped
			clear(h.posted)
			h.arrived = nil
		}
		return printEdges(ctx, s, call.Name, v.Side)
	}
}

func runClose(ctx context.Context, s *session.Session, _ command.Call) error {
	rank, size := s.Ring.Rank(), s.Ring.Size()
	over := Leaving(s)
	if err := s.Leave(ctx, over, session.Order{Do: session.OrderAgain}); err != nil && over == nil {
		return err
	}
	return s.Out.Note(render.Plain, "rank %d of %d has left the ring", rank, size)
}

// StepRows are the steps of a bring-up by hand, in their order.
func StepRows() []command.Row {
	return []command.Row{
		{
			Name: "connect", Group: command.GroupRing, Where: command.Line, Concurrency: command.Exclusive,
			Summary: "Take all steps at once, closing the ring that there is",
			Long: `Closes the ring that there is, and takes all steps of a bring-up: open, init,
exchange, rtr, rts, ping, with all nodes of the list: reconnect leaves some out.
The flags are kept as settings for the next time. All
ranks connect at the same time; followers do by themselves.`,
			Settings: session.HandSettings, Run: runConnectLine,
		},
		reconnectRow(),
		{
			Name: "open", Group: command.GroupRing, Where: command.Line, Concurrency: command.Exclusive,
			Summary: "Step 1: listen, and open the device: PD, CQ",
			Long: `Binds the TCP port of the exchange, chooses the local address and the GID, and
opens the device with a protection domain and a completion queue.`,
			Example:  "  open --index 0 --list node0,node1",
			Settings: settingsOfOpen, Run: runOpen,
		},
		{
			Name: "init", Group: command.GroupRing, Where: command.Line, Needs: command.Opened, Concurrency: command.Exclusive,
			Summary: "Step 2: create the queue pairs, register memory, go to INIT",
			Long: `Creates a queue pair to each neighbour, registers its slots and message
buffers, takes it from RESET to INIT and posts the receives.`,
			Flags: func(fs *pflag.FlagSet) {
				sideFlag(fs)
				psnFlag(fs, "first PSN of what this end sends, as the peer is told")
				command.OptionalFlag[int](fs, "receives", 0, 128, "receives to post (128)")
				command.OptionalFlag[int](fs, "pkey-index", 0, 65535, "index in the port's P_Key table (0)")
				rightsFlag(fs, "access", "what the peer may do: remote-write, remote-read, remote-atomic, comma separated, or none (all)")
			},
			Run: runStep(func(ctx context.Context, r *ring.Ring, v ring.Values) error { return r.Init(ctx, v) }),
		},
		{
			Name: "exchange", Group: command.GroupRing, Where: command.Line, Needs: command.Opened, Concurrency: command.Exclusive,
			Summary: "Step 3: swap QPN, PSN, GID, MTU, addresses and rkeys over TCP",
			Long: `Connects to both neighbours over TCP, in whatever order the nodes start, and
swaps what the queue pairs and regions are called. Repeated, it tells the
neighbours what holds now and takes what they say now.`,
			Run: runStep(func(ctx context.Context, r *ring.Ring, _ ring.Values) error { return r.Exchange(ctx) }),
		},
		{
			Name: "rtr", Group: command.GroupRing, Where: command.Line, Needs: command.Opened, Concurrency: command.Exclusive,
			Summary: "Step 4: compare both ends, go to RTR: ready to receive",
			Long: `Compares both ends of each edge and takes the queue pairs to RTR with the
peer's QPN, PSN, GID and MTU. Flags give other values than the proper ones, to
see what comes of it.`,
			Example: "  rtr\n  rtr --side left --psn 5 --mtu 1024",
			Flags: func(fs *pflag.FlagSet) {
				sideFlag(fs)
				psnFlag(fs, "PSN expected first from the peer (rq_psn)")
				command.OptionalFlag[int](fs, "mtu", 0, 1<<20, "path MTU in bytes (the smaller of both ends')")
				command.OptionalFlag[uint32](fs, "dest-qpn", 0, 1<<24-1, "the peer's QPN (as exchanged)")
				gidFlag(fs, "dgid", "the peer's GID (as exchanged)")
				command.Completes(fs, "dgid", "nothing")
				command.OptionalFlag[int](fs, "gid-index", 0, 255, "index of the own GID (as opened)")
				command.OptionalFlag[int](fs, "sl", 0, 15, "service level")
				command.OptionalFlag[int](fs, "traffic-class", 0, 255, "traffic class")
				command.OptionalFlag[int](fs, "hop-limit", 0, 255, "hop limit (64)")
				command.OptionalFlag[int](fs, "min-rnr-timer", 0, 255, "code of the delay asked for while no receive is posted")
				command.OptionalFlag[int](fs, "max-dest-rd-atomic", 0, 255, "READs and atomics to answer at once (16)")
			},
			Run: runStep(func(ctx context.Context, r *ring.Ring, v ring.Values) error { return r.RTR(ctx, v) }),
		},
		{
			Name: "rts", Group: command.GroupRing, Where: command.Line, Needs: command.Opened, Concurrency: command.Exclusive,
			Summary: "Step 5: go to RTS: ready to send",
			Long:    `Takes the queue pairs to RTS. Flags give other values than the proper ones.`,
			Flags: func(fs *pflag.FlagSet) {
				sideFlag(fs)
				psnFlag(fs, "PSN sent first (sq_psn)")
				command.OptionalFlag[int](fs, "qp-timeout", 0, 255, "ACK timeout, 4.096 us times 2 to this power")
				command.OptionalFlag[int](fs, "retry-cnt", 0, 255, "retries after an ACK timeout")
				command.OptionalFlag[int](fs, "rnr-retry", 0, 255, "retries while the peer has no receive posted (7: for ever)")
				command.OptionalFlag[int](fs, "max-rd-atomic", 0, 255, "READs and atomics in flight")
			},
			Run: runStep(func(ctx context.Context, r *ring.Ring, v ring.Values) error { return r.RTS(ctx, v) }),
		},
		{
			Name: "reset", Group: command.GroupRing, Where: command.Line, Needs: command.Opened, Concurrency: command.Exclusive,
			Summary: "Take the queue pairs back to RESET, to walk the steps again",
			Long: `Takes both queue pairs to RESET, whatever state they are in, ERR too. They keep
their numbers and PSNs; what was posted is dropped. Both ends of an edge need
it; then init, exchange, rtr and rts bring them up again.`,
			Run: runStep(func(ctx context.Context, r *ring.Ring, _ ring.Values) error { return r.Reset(ctx) }),
		},
		{
			Name: "qp", Group: command.GroupLook, Where: command.Line, Needs: command.Opened, Own: true, Harmless: true,
			Summary: "Show what disagrees between the queue pairs and the peers'",
			Long: `Compares every attribute of this rank's queue pairs, as they hold them now, with
those of the neighbour's facing one, which is asked over TCP and need do
nothing. What disagrees is explained first and marked; then come the attributes
that differ, as the numbers of queue pairs do in order, or with --all every one.
JSON and CSV have all. Needs init.`,
			Flags: qpFlags,
			Args:  "[left | right]", Words: []string{"left", "right"}, CheckArgs: checkSide, Run: runQP,
		},
		{
			Name: "close", Group: command.GroupRing, Where: command.Line, Needs: command.Opened, Concurrency: command.Exclusive,
			Summary: "Say goodbye to the neighbours and release everything",
			Run:     runClose,
		},
	}
}
