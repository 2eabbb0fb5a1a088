package local

import (
	"errors"
	"testing"
)

func TestSubnetsAreClaimed(t *testing.T) {
	a, err := ClaimSubnet(4, 18600)
	if err != nil {
		t.Fatal(err)
	}
	b := &subnet{prefix: a.prefix, n: a.n, tcpPort: a.tcpPort}
	if err := b.bind(true); err == nil {
		t.Error("a claimed subnet was claimed again")
	}
	if err := errors.Join(a.Close(), b.bind(true), b.Close()); err != nil {
		t.Errorf("a subnet that was given back: %v", err)
	}
}
