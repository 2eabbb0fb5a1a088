package udptest

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"
)

// Bandwidth moves messages of messageSize bytes from the Sender to the
// Receiver, one behind the other without a pause: up to 1 MiB (or what the
// receive buffer allows) is on its way at a time. Both ends call it with the
// same sizes and each other's address. Divide MessageSize by the median
// duration for the bandwidth.
func Bandwidth(ctx context.Context, role Role, local, peer netip.AddrPort, messageSize, messages int) (Result, error) {
	if err := check(role, local, peer, messageSize, messages); err != nil {
		return Result{}, err
	}
	s, err := open(ctx, local, peer)
	if err != nil {
		return Result{}, err
	}
	defer s.close()
	window, err := s.meet(role, messageSize, messages)
	if err != nil {
		return Result{}, err
	}
	st := stream{socket: s, window: window, messages: messages,
		wire:   messageSize + (messageSize+Payload-1)/Payload*Header,
		result: Result{MessageSize: messageSize, Durations: make([]time.Duration, 0, messages)},
	}
	st.last = time.Now()
	if role == Sender {
		err = st.send()
	} else {
		err = st.receive()
	}
	return st.result, err
}

// stream is one run of Bandwidth. Positions count bytes with headers.
type stream struct {
	*socket
	window   int
	wire     int // bytes of a message
	messages int
	result   Result
	last     time.Time // when the latest message ended
}

// creditAfter is how many bytes the receiver takes before it says so: four
// credits a window keep the sender going.
func (st *stream) creditAfter() int { return st.window / 4 }

// reached notes the messages that end at or before position.
func (st *stream) reached(position int) {
	done := position / st.wire
	if done == len(st.result.Durations) {
		return
	}
	now := time.Now()
	// Several small messages may end with one credit: they share its time.
	n := done - len(st.result.Durations)
	each := now.Sub(st.last) / time.Duration(n)
	for range n {
		st.result.Durations = append(st.result.Durations, each)
	}
	st.last = now
}

func (st *stream) send() error {
	const packet = Header + Payload
	message := make([]byte, st.wire)
	for at := 0; at < st.wire; at += packet {
		message[at] = kindData
	}
	train := min(st.segments*packet, max(st.window/4/packet, 1)*packet)
	sent, credit, asked := 0, 0, 0
	for range st.messages {
		for at := 0; at < st.wire; {
			n := min(train, st.wire-at)
			for sent+n-credit > st.window || sent-asked >= st.creditAfter() {
				b, err := st.recv()
				if err != nil {
					return err
				}
				asked = sent
				if b != nil && kind(b) == kindCredit {
					credit = first(b)
					st.reached(credit)
				} else if b == nil && sent+n-credit > st.window {
					if err := st.idle(); err != nil {
						return err
					}
				}
			}
			for p := at; p < at+n; p += packet {
				binary.LittleEndian.PutUint64(message[p+8:], uint64(sent+p-at))
			}
			if err := st.socket.send(message[at : at+n]); err != nil {
				return err
			}
			at += n
			sent += n
		}
	}
	for credit < sent {
		b, err := st.wait()
		if err != nil {
			return err
		}
		if kind(b) == kindCredit {
			credit = first(b)
			st.reached(credit)
		}
	}
	return nil
}

func (st *stream) receive() error {
	var n note
	total := st.wire * st.messages
	got, credited := 0, 0
	for got < total {
		b, err := st.wait()
		if err != nil {
			return err
		}
		if kind(b) == kindHello {
			if err := st.greet(st.window); err != nil {
				return err
			}
			continue
		}
		if kind(b) != kindData {
			continue
		}
		if at := first(b); at != got {
			return fmt.Errorf("udptest: a packet of byte %d came where byte %d was next: %w", at, got, ErrLost)
		}
		messages := len(st.result.Durations)
		got += len(b)
		st.reached(got)
		ended := len(st.result.Durations) > messages && st.wire >= st.creditAfter()
		if ended || got == total || got-credited >= st.creditAfter() {
			if err := st.socket.send(n.set(kindCredit, got, 0)); err != nil {
				return err
			}
			credited = got
		}
	}
	return nil
}
