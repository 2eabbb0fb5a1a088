package udp

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkEmptyPoll is a Recv that finds nothing: what waiting costs.
func BenchmarkEmptyPoll(b *testing.B) {
	for _, o := range []without{{}, {GRO: true}, {MMsg: true}} {
		b.Run(fmt.Sprintf("%+v", o), func(b *testing.B) {
			c := listening(b, loopback4, o)
			for b.Loop() {
				if got, err := c.Recv(); len(got) != 0 || err != nil {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}

// BenchmarkTrain sends trains of 15 segments and receives them on the same
// thread: the sum of both sides' work. With several trains before each Recv it
// shows what recvmmsg saves.
func BenchmarkTrain(b *testing.B) {
	for _, trains := range []int{1, 4, 8} {
		for _, o := range []without{{}, {MMsg: true}, {GSO: true, GRO: true}} {
			b.Run(fmt.Sprintf("%d/%+v", trains, o), func(b *testing.B) {
				from, to := listening(b, loopback4, o), listening(b, loopback4, o)
				dst := NewSockaddr(to.LocalAddr())
				const segment, segments = 4112, 15
				data := random(segment * segments)
				msgs := make([]Message, trains)
				for i := range msgs {
					msgs[i] = Message{Dst: &dst, Iov: []Iovec{IovecOf(data)}, SegmentSize: segment}
				}
				b.SetBytes(int64(len(data) * trains))
				b.ReportAllocs()
				for b.Loop() {
					if n, err := from.Send(msgs); n != trains || err != nil {
						b.Fatal(n, err)
					}
					for left := len(data) * trains; left > 0; {
						got, err := to.Recv()
						if err != nil {
							b.Fatal(err)
						}
						for i := range got {
							left -= len(got[i].Data)
						}
					}
				}
			})
		}
	}
}

// BenchmarkReceiveCalls compares the system calls below Recv: a small datagram
// or one train waits.
func BenchmarkReceiveCalls(b *testing.B) {
	for _, size := range []int{64, 4112 * 15} {
		from, to := listening(b, loopback4, without{}), listening(b, loopback4, without{})
		dst := NewSockaddr(to.LocalAddr())
		msgs := []Message{{Dst: &dst, Iov: []Iovec{IovecOf(random(size))}, SegmentSize: 4112}}
		r := &to.recv
		for name, fill := range map[string]func() int{
			"recvmsg":        func() int { n, _ := r.hdrs[0].call(unix.SYS_RECVMSG, to.fd); return n },
			"recvmmsg":       func() int { n, _ := callMany(unix.SYS_RECVMMSG, to.fd, r.hdrs); return n },
			"recvmsg to end": func() int { n, _ := r.fill(to.fd, false); return n },
		} {
			b.Run(fmt.Sprintf("%s/%d bytes", name, size), func(b *testing.B) {
				for b.Loop() {
					if n, err := from.Send(msgs); n != 1 || err != nil {
						b.Fatal(n, err)
					}
					for fill() != 1 {
					}
					r.reset(0)
				}
			})
			b.Run(name+"/empty", func(b *testing.B) {
				for b.Loop() {
					if fill() != 0 {
						b.Fatal("something arrived")
					}
				}
			})
		}
	}
}
