package ledger

import (
	"fmt"
	"io"
	"slices"

	"ringcli/configs/codes"
	"ringcli/ring/bootstrap"
)

// hostNames are the hosts of a run's rings, and what is held against them.
type hostNames struct {
	ofRank  []string // of the last ring
	all     []string // of every one, in the order of the list
	named   map[string]bool
	doubted map[string]bool // one of several, of which nothing says which
}

// joined takes the hosts of a ring, by rank.
func (h *hostNames) joined(list []any) {
	h.ofRank = nil
	for _, each := range list {
		host, _ := each.(string)
		h.ofRank = append(h.ofRank, host)
		if !slices.Contains(h.all, host) {
			h.all = append(h.all, host)
		}
	}
}

// forget takes back what is held against hosts.
func (h *hostNames) forget() { h.named, h.doubted = map[string]bool{}, map[string]bool{} }

// blame holds something against ranks: each is at fault, or one of several may be.
func (h *hostNames) blame(certain bool, ranks ...int) {
	for _, rank := range ranks {
		if rank < 0 || rank >= len(h.ofRank) {
			continue
		}
		if certain {
			h.named[h.ofRank[rank]] = true
		} else {
			h.doubted[h.ofRank[rank]] = true
		}
	}
}

// verdict takes that of a ring's failure. A rank is at fault if that was proven; ends of an
// edge, and suspects, are in neither list.
func (h *hostNames) verdict(v record) {
	rank, named := v.number("rank")
	if !named {
		rank = -1
	}
	switch v.text("kind") {
	case string(bootstrap.KindLeft), string(bootstrap.KindCanceled), string(bootstrap.KindRegrouped):
		return
	case string(bootstrap.KindLost), string(bootstrap.KindSilent), string(bootstrap.KindStopped), string(bootstrap.KindIsolated):
		named = named && v.text("confidence") != string(bootstrap.Suspect)
	case string(bootstrap.KindEdge):
		named = named && v.text("confidence") == string(bootstrap.Certain)
	default:
		named = named && v.text("code") == string(codes.Absent)
	}
	h.blame(named, int(rank))
	if from, to, is := v.edge(); is {
		h.blame(false, from, to)
	}
}

// finding takes that of the links: of a sender, a receiver or a node, which are at fault, or
// of a pair, of which one is. Groups are a matter of the network.
func (h *hostNames) finding(r record) {
	if culprit := r.text("culprit"); culprit != "group" {
		h.blame(culprit != "pair", append(r.ranks("from"), r.ranks("to")...)...)
	}
}

// lists are the hosts that nothing was found about, and those that were named. Where a run
// has failed and nothing says by whose fault, there are none of either.
func (h *hostNames) lists(code int) (good, bad []string) {
	for _, host := range h.all {
		switch {
		case h.named[host]:
			bad = append(bad, host)
		case !h.doubted[host] && (code == 0 || len(h.named)+len(h.doubted) > 0):
			good = append(good, host)
		}
	}
	return good, bad
}

// writeHosts writes a list that --list @FILE reads.
func writeHosts(w io.Writer, list []string) error {
	for _, host := range list {
		if _, err := fmt.Fprintln(w, host); err != nil {
			return err
		}
	}
	return nil
}
