package topology

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ringcli/configs/usage"
)

// TestSets: whatever the hosts are, each host takes care of each chunk once, each rank of its
// own, and what a rank takes care of is a run of the order.
func TestSets(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		names := make([]string, 1+rng.IntN(20))
		for i := range names {
			names[i] = fmt.Sprint("host", rng.IntN(5))
		}
		h := Of(names)
		total := 0
		for rank, name := range names {
			set := h.Set(rank)
			total += set.Hi - set.Lo
			for at, owner := range h.Order() {
				if in := at >= set.Lo && at < set.Hi; in != (h.Counterpart(owner, h.Host(rank)) == rank) {
					t.Fatalf("%v: rank %d has the run %v of %v: is rank %d's in it?", names, rank, set, h.Order(), owner)
				}
			}
			if h.Counterpart(rank, h.Host(rank)) != rank || h.On(rank)[h.Place(rank)] != rank || names[h.On(rank)[0]] != name {
				t.Fatalf("%v: rank %d is at place %d of %v", names, rank, h.Place(rank), h.On(rank))
			}
		}
		if total != len(names)*h.Number() {
			t.Fatalf("%v: %d chunks are taken care of on %d hosts", names, total, h.Number())
		}
	}
}

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		hosts   *Hosts
		order   []int
		ordered bool
		peers   int
		crosses int
		text    string
	}{
		{Sized(2, 2), []int{0, 2, 1, 3}, false, 2, 2, "2 hosts of 2 ranks"},
		{Sized(4, 4, 4, 4), []int{0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}, false, 6, 4, "4 hosts of 4 ranks"},
		{Of([]string{"a", "b", "a", "b"}), []int{0, 1, 2, 3}, true, 2, 4, "2 hosts of 2 ranks"},
		{Sized(3, 1), []int{0, 3, 1, 2}, false, 3, 2, "hosts of 3 and 1 ranks"},
		{Sized(1, 7), []int{0, 1, 2, 3, 4, 5, 6, 7}, true, 7, 2, "hosts of 1 and 7 ranks"},
		{Sized(2, 3, 1), []int{0, 2, 5, 3, 1, 4}, false, 5, 3, "hosts of 2, 3 and 1 ranks"},
		{Sized(5), []int{0, 1, 2, 3, 4}, true, 4, 0, "one host of 5 ranks"},
		{Sized(1, 1, 1), []int{0, 1, 2}, true, 2, 3, "3 hosts of one rank"},
	} {
		if got := c.hosts; !slices.Equal(got.Order(), c.order) || got.Ordered() != c.ordered || got.Peers() != c.peers || got.Crossings() != c.crosses || got.String() != c.text {
			t.Errorf("%s: order %v (%v), %d peers; expected %+v", got, got.Order(), got.Ordered(), got.Peers(), c)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"3,1": "hosts of 3 and 1 ranks", "2x2": "2 hosts of 2 ranks", "2x1, 2": "hosts of 1, 1 and 2 ranks", "4": "one host of 4 ranks",
	} {
		if h, err := Parse(text, 4); err != nil || h.String() != want {
			t.Errorf("%q: %v, %v: expected %s", text, h, err, want)
		}
	}
	for text, want := range map[string]string{
		"3": "3 ranks: expected 4", "3,2": "5 ranks: expected 4", "2x": `"2x": expected`, "": `"": expected`, "0,4": `"0": expected`, "-4": `"-4"`, "9x9": `"9x9"`, "a": `"a"`,
		"999999999999999999999x1": "expected the ranks of each host in turn, 1 to 4, as in 3,1 or 4x2",
	} {
		if _, err := Parse(text, 4); !usage.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v: expected %s", text, err, want)
		}
	}
}
