package udptest

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// PingPong sends a message of messageSize bytes (one packet) from the Sender to
// the Receiver and back, rounds times. The Sender's result has half of each
// round trip.
func PingPong(ctx context.Context, role Role, local, peer netip.AddrPort, messageSize, rounds int) (Result, error) {
	if err := check(role, local, peer, messageSize, rounds); err != nil {
		return Result{}, err
	}
	if messageSize > Payload {
		return Result{}, fmt.Errorf("udptest: ping-pong of %d bytes, expected at most the %d of one packet", messageSize, Payload)
	}
	s, err := open(ctx, local, peer)
	if err != nil {
		return Result{}, err
	}
	defer s.close()
	window, err := s.meet(role, messageSize, rounds)
	if err != nil {
		return Result{}, err
	}
	if role == Receiver {
		return Result{MessageSize: messageSize}, s.echo(window, rounds)
	}

	r := Result{MessageSize: messageSize, Durations: make([]time.Duration, rounds)}
	packet := make([]byte, Header+messageSize)
	var n note
	start := time.Now()
	for i := range r.Durations {
		copy(packet[:Header], n.set(kindEcho, i, 0))
		if err := s.send(packet); err != nil {
			return r, err
		}
		for {
			b, err := s.wait()
			if err != nil {
				return r, err
			}
			if kind(b) == kindEcho && first(b) == i && len(b) == len(packet) {
				break
			}
		}
		now := time.Now()
		r.Durations[i] = now.Sub(start) / 2
		start = now
	}
	return r, nil
}

// echo sends back what comes.
func (s *socket) echo(window, rounds int) error {
	for done := 0; done < rounds; {
		b, err := s.wait()
		if err != nil {
			return err
		}
		switch kind(b) {
		case kindHello:
			if err := s.greet(window); err != nil {
				return err
			}
		case kindEcho:
			if err := s.send(b); err != nil {
				return err
			}
			done++
		}
	}
	return nil
}
