// Package topology says which ranks of a ring share a host, and which of them do the same part
// of an operation on their hosts.
package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ringcli/configs/usage"
)

// Hosts are the hosts of n ranks, numbered in the order of their first ranks. A rank has a
// place on its host, by the order of the ranks there: 0, 1, ... L-1.
//
// Every rank owns one chunk of a vector. On each host one rank takes care of it, the owner's
// counterpart: the one whose place has the same share of its host as the owner's of its own,
//
//	counterpart of place l of L on a host of M ranks: place floor(l*M/L)
//
// which on hosts of as many ranks is the same place, and on one of a single rank that rank.
// The chunks of which a rank takes care are its set. In the order of the owners' shares l/L,
// and then of their hosts, all sets are runs: see Order.
type Hosts struct {
	host  []int   // by rank
	place []int   // by rank
	ranks [][]int // by host and place
	order []int
	spans []Span // by rank
}

// Span is a run [Lo, Hi) of Order.
type Span struct{ Lo, Hi int }

// Of returns the hosts of ranks of which each says on which it is, by any name.
func Of(names []string) *Hosts {
	h := &Hosts{host: make([]int, len(names)), place: make([]int, len(names)), order: make([]int, len(names)), spans: make([]Span, len(names))}
	number := map[string]int{}
	for rank, name := range names {
		host, ok := number[name]
		if !ok {
			host = len(h.ranks)
			number[name] = host
			h.ranks = append(h.ranks, nil)
		}
		h.host[rank], h.place[rank], h.order[rank] = host, len(h.ranks[host]), rank
		h.ranks[host] = append(h.ranks[host], rank)
	}
	slices.SortFunc(h.order, func(a, b int) int {
		// l/L against m/M without a division
		return cmp.Or(cmp.Compare(h.place[a]*len(h.On(b)), h.place[b]*len(h.On(a))), cmp.Compare(h.host[a], h.host[b]))
	})
	for rank := range h.spans {
		s := Span{Lo: -1}
		for at, owner := range h.order {
			if h.Counterpart(owner, h.host[rank]) != rank {
				continue
			}
			if s.Lo < 0 {
				s.Lo = at
			}
			s.Hi = at + 1
		}
		h.spans[rank] = s
	}
	return h
}

// Sized returns the hosts of ranks that follow one another: the first so many share a host, the
// next so many another.
func Sized(ranks ...int) *Hosts {
	var names []string
	for host, n := range ranks {
		names = append(names, slices.Repeat([]string{strconv.Itoa(host)}, n)...)
	}
	return Of(names)
}

// Parse returns the hosts of so many ranks that follow one another, as an operator writes them:
// how many ranks the first host has, the next, and so on, as in "3,1", or "4x2" for four hosts
// of two ranks.
func Parse(text string, ranks int) (*Hosts, error) {
	var sizes []int
	total := 0
	for _, item := range strings.Split(text, ",") {
		times, each, many := strings.Cut(strings.TrimSpace(item), "x")
		if !many {
			times, each = "1", times
		}
		hosts, err := strconv.Atoi(times)
		size, err2 := strconv.Atoi(each)
		if err != nil || err2 != nil || hosts < 1 || size < 1 || hosts > ranks || size > ranks {
			return nil, usage.Errorf("hosts %q: %q: expected the ranks of each host in turn, 1 to %d, as in 3,1 or 4x2", text, item, ranks)
		}
		sizes = append(sizes, slices.Repeat([]int{size}, hosts)...)
		total += hosts * size
	}
	if total != ranks {
		return nil, usage.Errorf("hosts %q: %d ranks: expected %d, those of the ring", text, total, ranks)
	}
	return Sized(sizes...), nil
}

// Number is how many hosts there are.
func (h *Hosts) Number() int { return len(h.ranks) }

// Most is the number of ranks on the host that has most of them.
func (h *Hosts) Most() (n int) {
	for _, ranks := range h.ranks {
		n = max(n, len(ranks))
	}
	return n
}

// Host is the number of a rank's host.
func (h *Hosts) Host(rank int) int { return h.host[rank] }

// Place is a rank's among those of its host.
func (h *Hosts) Place(rank int) int { return h.place[rank] }

// On returns the ranks of a rank's host, itself among them. They are not the caller's.
func (h *Hosts) On(rank int) []int { return h.ranks[h.host[rank]] }

// Ranks returns the ranks of a host. They are not the caller's.
func (h *Hosts) Ranks(host int) []int { return h.ranks[host] }

// Counterpart is the rank of a host that takes care of a rank's chunk.
func (h *Hosts) Counterpart(rank, host int) int {
	return h.ranks[host][h.place[rank]*len(h.ranks[host])/len(h.On(rank))]
}

// Order has the owners of chunks such that the set of each rank is a run. It is not the
// caller's.
func (h *Hosts) Order() []int { return h.order }

// Ordered tells whether Order is that of the ranks.
func (h *Hosts) Ordered() bool { return slices.IsSorted(h.order) }

// Set is the run of Order that a rank takes care of.
func (h *Hosts) Set(rank int) Span { return h.spans[rank] }

// Crossings is how often a ring of the ranks in their order goes from host to host: at least once
// a host, where there are several.
func (h *Hosts) Crossings() (n int) {
	for rank, host := range h.host {
		if h.host[(rank+1)%len(h.host)] != host {
			n++
		}
	}
	return n
}

// Peers is the most other ranks that a rank has to do with: those of its host, and the owners
// and counterparts of the chunks of which it and they take care.
func (h *Hosts) Peers() (most int) {
	for rank := range h.host {
		set := map[int]bool{}
		for _, peer := range h.On(rank) {
			set[peer] = true
		}
		for at := h.spans[rank].Lo; at < h.spans[rank].Hi; at++ {
			set[h.order[at]] = true
		}
		for host := range h.ranks {
			set[h.Counterpart(rank, host)] = true
		}
		most = max(most, len(set)-1)
	}
	return most
}

// String is as in "2 hosts of 4 ranks" or "hosts of 3 and 1 ranks".
func (h *Hosts) String() string {
	var sizes []string
	even := true
	for _, ranks := range h.ranks {
		sizes = append(sizes, strconv.Itoa(len(ranks)))
		even = even && len(ranks) == len(h.ranks[0])
	}
	last := len(sizes) - 1
	switch {
	case last == 0:
		return fmt.Sprintf("one host of %s ranks", sizes[0])
	case even && sizes[0] == "1":
		return fmt.Sprintf("%d hosts of one rank", len(sizes))
	case even:
		return fmt.Sprintf("%d hosts of %s ranks", len(sizes), sizes[0])
	}
	return fmt.Sprintf("hosts of %s and %s ranks", strings.Join(sizes[:last], ", "), sizes[last])
}
