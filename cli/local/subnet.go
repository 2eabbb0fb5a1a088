package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"

	"golang.org/x/sys/unix"

	"ringcli/verbs/route"
)

const (
	// maxLocalRanks leaves room in a /24 for the claim.
	maxLocalRanks = 250
	// claimHost is the address of a subnet that is held for as long as the ring
	// runs, so that another run that comes to the same subnet goes on.
	claimHost = 254
	// subnetAttempts: with hundreds of runs on one machine (of 65,000 subnets)
	// a few attempts are enough; this many failures have another reason.
	subnetAttempts = 64
)

// subnet is a 127.x.y.0/24 that no other run uses.
type subnet struct {
	prefix     string // "127.x.y."
	n, tcpPort int    // ranks, and where each listens
	claim      net.Listener
}

// ClaimSubnet finds a subnet in which the addresses 1 to n can be bound for the
// exchange (TCP) and for RoCEv2 (UDP). The sockets are closed again, for the
// ranks to open, except for the claim.
func ClaimSubnet(n, tcpPort int) (*subnet, error) {
	// If the kernel's rdma_rxe holds UDP 4791 on all addresses, a rank takes
	// another port and says so in the exchange; then TCP alone must do.
	for _, udp := range []bool{true, false} {
		var err error
		for range subnetAttempts {
			s := &subnet{prefix: fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(255)), n: n, tcpPort: tcpPort}
			if err = s.bind(udp); err == nil {
				return s, nil
			}
			if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EMFILE) {
				break
			}
		}
		if !udp {
			return nil, fmt.Errorf("no loopback subnet has %d free addresses: %w; expected lo to be up and TCP port %d to be free: give another --tcp-port", n, err, tcpPort)
		}
	}
	panic("unreachable")
}

func (s *subnet) bind(udp bool) error {
	claim, err := net.Listen("tcp4", s.host(claimHost, s.tcpPort))
	if err != nil {
		return err
	}
	for i := 1; i <= s.n; i++ {
		if err := probe(s.host(i, s.tcpPort), s.host(i, route.RoCEPort), udp); err != nil {
			return errors.Join(err, claim.Close())
		}
	}
	s.claim = claim
	return nil
}

func probe(tcpAddr, udpAddr string, udp bool) error {
	l, err := net.Listen("tcp4", tcpAddr)
	if err != nil {
		return err
	}
	if err := l.Close(); err != nil || !udp {
		return err
	}
	p, err := net.ListenPacket("udp4", udpAddr)
	if err != nil {
		return err
	}
	return p.Close()
}

func (s *subnet) host(i, port int) string { return fmt.Sprintf("%s%d:%d", s.prefix, i, port) }

// List is the server list of the ranks.
func (s *subnet) List() string {
	hosts := make([]string, s.n)
	for i := range hosts {
		hosts[i] = s.host(i+1, s.tcpPort)
	}
	return strings.Join(hosts, ",")
}

// Close gives the subnet back.
func (s *subnet) Close() error { return s.claim.Close() }
