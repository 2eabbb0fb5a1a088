package bench

import (
	"net"
	"time"

	"ringcli/cli/session"
	"ringcli/ring"
)

const (
	// hostSpan is long enough to have the host's other work in it, and short beside an
	// operation that is worth a bound.
	hostSpan = 20 * time.Millisecond
	// copied is beyond what caches hold, sent what a socket takes at once.
	copied, sent = 8 << 20, 32 << 10
)

// hostRate is what this rank's host moves at present without a ring, in GB/s, in the way
// of the devices to both neighbours: shared memory copies, software sends and receives
// over UDP, no faster than the port. 0 is not known, as where hardware moves the data.
func hostRate(m *session.Member) (least float64) {
	for _, e := range []*ring.Edge{m.Ring.Left(), m.Ring.Right()} {
		switch d := e.Device(); {
		case d == nil:
		case d.Provider() == "shm":
			least = lower(least, copyRate())
		case d.Attr.Software:
			least = lower(least, lower(socketRate(moved), float64(d.Port.Attr.SpeedMbps)/8e3))
		}
		if m.Ring.Left().Device() == m.Ring.Right().Device() {
			break
		}
	}
	return least
}

// moved is the rate in GB/s of a step that moves so many bytes.
func moved(n int, step func() error) float64 {
	done := 0
	for begun := time.Now(); ; done += n {
		if took := time.Since(begun); took >= hostSpan {
			return float64(done) / float64(took)
		}
		if step() != nil {
			return 0
		}
	}
}

func copyRate() float64 {
	from, to := make([]byte, copied), make([]byte, copied)
	copy(to, from) // memory that is there
	return moved(copied, func() error { copy(to, from); return nil })
}

// socketRate is the rate of one socket of the loopback interface to another; 0 if there is
// none.
func socketRate(rate func(n int, step func() error) float64) float64 {
	in, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0
	}
	defer func() { _ = in.Close() }()
	out, err := net.DialUDP("udp4", nil, in.LocalAddr().(*net.UDPAddr))
	if err != nil {
		return 0
	}
	defer func() { _ = out.Close() }()
	b := make([]byte, sent)
	// What is lost is not waited for.
	if in.SetReadDeadline(time.Now().Add(100*hostSpan)) != nil {
		return 0
	}
	return rate(sent, func() error {
		if _, err := out.Write(b); err != nil {
			return err
		}
		_, err := in.Read(b)
		return err
	})
}
