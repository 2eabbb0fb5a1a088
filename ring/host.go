package ring

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"ringcli/ring/locality"
	"ringcli/verbs"
	"ringcli/verbs/cpu"
)

// Host is what this rank has of its host: addresses, CPUs and devices.
type Host struct {
	of        *membership
	opts      *Options // never changed
	table     *edgeTable
	control   *Control
	devices   *devices
	hold      func(context.Context) (Token, error)
	noCarrier atomic.Int64 // ns, by linkWatch

	// Changed with the token: whoever has it may look.
	addrs []netip.AddrPort // of the list, by Open
	local netip.Addr       // to speak from, by Open
}

// Name names this rank's host, the same for all ranks on it: those that have one kernel and
// one network namespace, between which nothing goes over a network.
func (h *Host) Name() string {
	at := h.opts.Locality().Host
	if at.Missing != "" {
		return h.of.nodes[h.of.rank].Host
	}
	return at.BootID + " " + at.NetNS
}

// Addr returns the IP address that this rank speaks from, after Open.
func (h *Host) Addr() netip.Addr { return h.local }

// Affinity returns the CPU that this rank's polling thread comes back to, nil if there is
// none: after Open.
func (h *Host) Affinity() *cpu.Affinity {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	return h.control.affinity
}

// NoCarrier is for how long interfaces under devices of the ring had no carrier, of those
// that have it again.
func (h *Host) NoCarrier() time.Duration { return time.Duration(h.noCarrier.Load()) }

// shares tells whether another rank may be on this host, whom shared memory reaches.
func (h *Host) shares() bool {
	own := h.opts.Locality()
	return own.Auto() && own.NoSHM == "" && slices.ContainsFunc(slices.Delete(slices.Clone(h.addrs), h.of.rank, h.of.rank+1), func(a netip.AddrPort) bool {
		return locality.IsLocal(a.Addr())
	})
}

// NewWaiter returns a waiter on the CQ, of the policy in Options. With several
// devices there is no one channel to block on, and it sleeps instead.
func (h *Host) NewWaiter() verbs.Waiter {
	w := verbs.Waiter{Policy: h.opts.Wait, Affinity: h.Affinity()}
	var used []*Device
	for _, e := range h.table.queuePairs() {
		if !slices.Contains(used, e.device) {
			used = append(used, e.device)
		}
	}
	if len(used) == 1 {
		w.CQ, w.Channel = used[0].CQ, used[0].Channel
	}
	for i, d := range used {
		if i == 0 || d.Attr.MaxSpins < w.MaxSpins {
			w.MaxSpins = d.Attr.MaxSpins
		}
	}
	return w
}

// Device returns the device for queue pairs to some ranks that are no edges, as both ends
// chose it.
func (h *Host) Device(ctx context.Context, c locality.Choice, peers ...int) (*Device, error) {
	t, err := h.hold(ctx)
	if err != nil {
		return nil, err
	}
	defer t.Release()
	on, err := h.devices.chosen(c, peers...)
	return on.device, err
}
