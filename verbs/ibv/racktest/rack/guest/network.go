//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"ringcli/verbs/ibv/racktest/rack/wire"
)

// makeNetwork brings up lo, eth0 and, unless the node is plain, rxe0 on eth0.
func makeNetwork(c wire.Config) error {
	// There is nobody else on this network: duplicate address detection would
	// only keep the addresses, and the GIDs made of them, back for a second.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/eth0/accept_dad", []byte("0"), 0); err != nil {
		return err
	}
	// One process for all: under emulation starting one costs more than its work.
	batch := fmt.Sprintf(`link set lo up
link set eth0 mtu %[1]d
addr add 10.77.0.%[2]d/24 dev eth0
addr add fd77::%[2]x/64 dev eth0 nodad
link set eth0 up
`, c.MTU, c.Node)
	if err := run(batch, "ip", "-batch", "-"); err != nil {
		return err
	}
	if c.Plain {
		return nil
	}
	return run("", "rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "eth0")
}

func run(stdin, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, strings.TrimSpace(string(out)))
	}
	return nil
}
