package local

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestSubnetsAreClaimed(t *testing.T) {
	for _, n := range []int{4, perSubnet, perSubnet + 1, 3*perSubnet + 7} {
		a, err := ClaimSubnets(n, 18600)
		if err != nil {
			t.Fatal(err)
		}
		list := strings.Split(a.List(), ",")
		if slices.Sort(list); len(slices.Compact(list)) != n {
			t.Errorf("the list of %d ranks: %s", n, a.List())
		}
		b := &subnets{x: a.x, y: a.y, n: n, tcpPort: a.tcpPort}
		if err := b.bind(true); err == nil {
			t.Error("claimed subnets were claimed again")
		}
		if err := errors.Join(a.Close(), b.bind(true), b.Close()); err != nil {
			t.Errorf("subnets that were given back: %v", err)
		}
	}
}
