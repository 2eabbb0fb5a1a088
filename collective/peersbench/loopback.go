//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"

	"ringcli/configs"
)

// claimLoopback finds a 127.x.y.0/24 that nobody uses, which it claims by a listener,
// and returns the list of n ranks in it.
func claimLoopback(n int) (claim net.Listener, list string, err error) {
	const claimHost, attempts = 254, 64 // of 65,000 networks
	for range attempts {
		net24 := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(255))
		if claim, err = net.Listen("tcp4", net24+strconv.Itoa(claimHost)+":"+strconv.Itoa(configs.Default[int]("tcp-port"))); err != nil {
			continue
		}
		hosts := make([]string, n)
		for r := range hosts {
			hosts[r] = net24 + strconv.Itoa(r+1)
		}
		return claim, strings.Join(hosts, ","), nil
	}
	return nil, "", fmt.Errorf("no loopback network is free: %w", err)
}
