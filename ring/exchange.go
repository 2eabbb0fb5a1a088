package ring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"ringcli/ring/edges"
	"ringcli/ring/locality"
	"ringcli/trace"
	"ringcli/verbs"
)

// Exchange finds both neighbours and swaps the queue pairs' addresses with them,
// in whatever order the nodes start. It may be repeated, until RTR and after a
// Reset: each neighbour then says what it would say now, as soon as its queue
// pair is in INIT or further.
func (r *Ring) Exchange(ctx context.Context) error {
	return stepTo(r, StateExchanged, Values{}).take(ctx, func(ctx context.Context, _ Token) error {
		x := &exchange{r: r}
		if err := x.hear(ctx); err != nil {
			return err
		}
		r.met = true // also if what follows fails, and is repeated by hand
		if err := x.moveEdges(); err != nil {
			return err
		}
		// The neighbours that are behind say anew how their ends are, once those are on the
		// device that both agree on, too.
		for side := range x.remote {
			if x.behind[side] {
				var err error
				request := dataRequest{r.table.edges[side].device.Attr.HostLocal}
				if x.remote[side], err = ask[edges.Offer](ctx, r.control, Side(side), askConnectionData, request); err != nil {
					return err
				}
			}
		}
		r.table.mu.Lock()
		r.table.exchanged = true
		for side, first := range r.table.edges {
			for channel, e := range first.Channels() {
				e.Remote = x.remote[side].Of(channel)
			}
		}
		r.table.mu.Unlock()
		for _, e := range slices.Concat(r.table.edges[Left].Channels(), r.table.edges[Right].Channels()) {
			trace.Debug(trace.Ring, "exchanged with neighbour", slog.Int("neighbour", e.Peer), slog.String("side", e.Side.String()), slog.Int("channel", e.ID.Channel()),
				slog.String("qpn", verbs.Hex(e.Remote.QPN)), slog.String("psn", verbs.Hex(e.Remote.PSN)), slog.String("gid", e.Remote.GID.String()))
		}
		return nil
	})
}

// exchange is a call of Exchange.
type exchange struct {
	r      *Ring
	remote [2]edges.Offer // what the neighbours say
	behind [2]bool        // they have yet to move their ends to the device that both agree on
}

// hear swaps connection data with the neighbours. The first time finds them.
func (x *exchange) hear(ctx context.Context) (err error) {
	r := x.r
	if r.met {
		x.remote, err = askBoth[edges.Offer](ctx, r.control, askConnectionData)
		return err
	}
	fromLeft, fromRight, err := r.control.boot.Exchange(ctx, r.table.edges[Left].offer(), r.table.edges[Right].offer())
	if err != nil {
		return err
	}
	r.control.epoch.Store(r.control.boot.Epoch())
	r.host.addrs = r.control.boot.Addrs()
	for side, raw := range [2]json.RawMessage{Left: fromLeft, Right: fromRight} {
		if err := json.Unmarshal(raw, &x.remote[side]); err != nil {
			return fmt.Errorf("what %s sent is no queue pair's address: %w", r.NodeName(r.table.edges[side].Peer), err)
		}
	}
	return nil
}

// moveEdges makes the edges that are not on the device that both ends agree on anew,
// on that.
func (x *exchange) moveEdges() (err error) {
	r := x.r
	own := r.opts.Locality()
	var chosen [2]locality.Choice
	var network []int
	for side := range chosen {
		peer := r.neighbour(Side(side))
		if chosen[side], err = locality.Choose(own, x.remote[side].Locality, bothNames(&r.membership, peer)); err != nil {
			return err
		}
		if !chosen[side].HostLocal {
			network = append(network, peer)
		}
	}
	for side, c := range chosen {
		on, err := r.devices.chosen(c, network...)
		if err != nil {
			return err
		}
		if r.table.edges[side].device != on.device {
			if err := x.move(Side(side), on); err != nil {
				return fmt.Errorf("move the %s edge to %s: %w", Side(side), on.device.Name, err)
			}
		}
		r.table.change(func() { r.table.chosen[side], r.table.edges[side].why = on, on.why })
		x.behind[side] = x.remote[side].Capabilities.HostLocal != c.HostLocal
	}
	return r.devices.closeUnused()
}

// move makes an edge anew on another device, with what Init was given.
func (x *exchange) move(side Side, on edgeDevice) error {
	r := x.r
	old := r.table.edges[side]
	first, err := r.devices.newChannels(side, on)
	if err != nil {
		return err
	}
	for _, e := range first.Channels() {
		if err = e.describe(); err == nil {
			err = e.toInit(old.given)
		}
		if err != nil {
			return errors.Join(err, first.close())
		}
	}
	trace.Debug(trace.Ring, "edge moved", slog.String("side", side.String()), slog.Int("neighbour", first.Peer), slog.String("from", old.device.Name), slog.String("to", on.device.Name))
	r.table.mu.Lock()
	r.table.edges[side] = first
	r.table.stepped.notify()
	r.table.mu.Unlock()
	return old.close()
}
