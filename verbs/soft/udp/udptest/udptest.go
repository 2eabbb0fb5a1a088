// Package udptest measures what UDP itself allows between two ends: sendmsg
// and recvmsg with UDP_SEGMENT and UDP_GRO on connected sockets, polled with
// MSG_DONTWAIT, packets as large as those of RoCEv2 at a path MTU of 4096. It
// has no CRC, no protocol beyond a credit message and no place to put the data,
// so a transport over UDP can approach it and not pass it: the yardstick for
// package soft's benchmarks.
//
// The two ends are two processes, or two goroutines of one. Each call locks its
// goroutine to an operating system thread while it runs; cputest.Pin chooses the
// CPU. Nothing is sent again: a lost packet ends the measurement with ErrLost.
package udptest

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Role is the part that a call plays.
type Role int

// One end calls with Sender, the other with Receiver; either may start first.
const (
	Sender   Role = iota // sends the messages; starts each round trip
	Receiver             // takes them; answers
)

// ErrLost means that packets did not arrive, or that the other end went away.
var ErrLost = errors.New("packets lost")

// Packets carry Payload bytes of a message behind Header bytes of our own, as
// long as a BTH and the CRC of RoCEv2 are.
const (
	Payload = 4096
	Header  = 16
)

// Result has one figure a message.
type Result struct {
	MessageSize int // bytes, headers not counted

	// Durations holds, for Bandwidth, the time from the end of one message to
	// the end of the next, as the sender learns it from credits and as the
	// receiver sees the last byte; the first counts from the start. For
	// PingPong it is half of each round trip; the receiver has none.
	Durations []time.Duration
}

// patience is how long either end goes on without hearing from the other.
const patience = 5 * time.Second

func check(role Role, local, peer netip.AddrPort, size, count int) error {
	switch {
	case role != Sender && role != Receiver:
		return fmt.Errorf("udptest: role %d, expected Sender or Receiver", role)
	case !local.IsValid() || !peer.IsValid():
		return fmt.Errorf("udptest: addresses %v and %v, expected an IP address and port each", local, peer)
	case size < 1 || count < 1:
		return fmt.Errorf("udptest: %d messages of %d bytes, expected 1 or more of both", count, size)
	}
	return nil
}
