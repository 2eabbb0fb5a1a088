// Command spoofer forges RoCEv2 packets as fast as the kernel takes them, and says how many
// went out (package spoof). It needs no rights.
//
//	spoofer -from 127.1.2.2 -to 127.1.2.1:4791 -duration 10m
//	spoofer -ring ./ringcli -duration 10m              # `make spoof TIME=10m`
//
// With -ring it brings up a ring of soft devices on loopback that computes checked
// all-reduces all the time, forges packets of each rank's neighbour as user nobody (if it may become
// that), and says whether the ring lived, how fast it was with them and without, and how
// much memory its ranks took.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"ringcli/verbs/soft/wire/wiretest/spoof"
)

func main() {
	from := flag.String("from", "127.0.0.1", "addresses to send from, comma separated: one for each endpoint, or one for all")
	to := flag.String("to", "127.0.0.1:4791", "endpoints, comma separated")
	duration := flag.Duration("duration", 10*time.Second, "how long")
	program := flag.String("ring", "", "the ringcli of which a ring is to live through it")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	var err error
	if *program != "" {
		err = besiege(ctx, *program, *duration)
	} else {
		err = flood(ctx, strings.Split(*from, ","), strings.Split(*to, ","), *duration)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "spoofer:", err)
		os.Exit(1) //nolint:gocritic // cancel has nothing more to do
	}
}

func flood(ctx context.Context, from, to []string, duration time.Duration) error {
	var aims []spoof.Aim
	for i, text := range to {
		at, err := netip.ParseAddrPort(text)
		if err != nil {
			return err
		}
		source, err := netip.ParseAddr(from[i%len(from)])
		if err != nil {
			return err
		}
		aims = append(aims, spoof.Aim{From: source, To: at})
	}
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	s, err := spoof.Flood(ctx, aims)
	if err != nil {
		return err
	}
	fmt.Printf("%d packets in %s, %.0f a second from %s as user %d; %d trains were not taken\n",
		s.Packets, s.Took.Round(time.Millisecond), float64(s.Packets)/s.Took.Seconds(), strings.Join(from, ","), os.Getuid(), s.Refused)
	return nil
}
