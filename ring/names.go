package ring

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/locality"
)

// choose takes one address of each entry, of one family as far as entries have it: IPv6 where one
// has no other, else that in which the neighbours answer.
func (h *Host) choose(ctx context.Context, all [][]netip.AddrPort) []netip.AddrPort {
	chosen := hosts.First(all, h.of.nodes)
	prefer := func(is4 bool) {
		for i, some := range all {
			if at := slices.IndexFunc(some, func(a netip.AddrPort) bool { return a.Addr().Is4() == is4 }); at >= 0 {
				chosen[i] = some[at]
			}
		}
	}
	with := func(is4 bool) bool {
		return !slices.ContainsFunc(all, func(some []netip.AddrPort) bool {
			return !slices.ContainsFunc(some, func(a netip.AddrPort) bool { return a.Addr().Is4() == is4 })
		})
	}
	if !with(true) {
		if with(false) {
			prefer(false)
		}
		return chosen
	}
	for _, side := range bothSides {
		peer := h.of.neighbour(side)
		if some := all[peer]; len(some) > 1 && !slices.ContainsFunc(some, func(a netip.AddrPort) bool { return locality.IsLocal(a.Addr()) }) {
			first := h.reach(ctx, some)
			if first.Addr().Is4() != chosen[peer].Addr().Is4() {
				prefer(first.Addr().Is4())
			}
			for i, n := range h.of.nodes {
				if n.Host == h.of.nodes[peer].Host {
					chosen[i] = netip.AddrPortFrom(first.Addr(), uint16(n.Port))
				}
			}
		}
	}
	return chosen
}

// reachTimeout is how long an address may take to answer: one SYN may be lost.
const reachTimeout = 2 * time.Second

// reach returns the first of a host's addresses at which its port answers. A refusal is an
// answer, too, where none accepts the call: the rank there has yet to start. Without an answer it
// is the first.
func (h *Host) reach(ctx context.Context, some []netip.AddrPort) netip.AddrPort {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	dial := h.opts.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	answers := make([]chan error, len(some))
	for i, a := range some {
		answers[i] = make(chan error, 1)
		go func() { // ctx ends it
			conn, err := dial(ctx, "tcp", a.String())
			if err == nil {
				_ = conn.Close() // it was only a question
			}
			answers[i] <- err
		}()
	}
	best := some[0]
	refused := false
	for i, answer := range answers {
		switch err := <-answer; {
		case err == nil:
			return some[i]
		case errors.Is(err, syscall.ECONNREFUSED) && !refused:
			best, refused = some[i], true
		}
	}
	return best
}
