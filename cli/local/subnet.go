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
	// maxLocalRanks is what a list may have that is one argument of a process (128 KiB).
	maxLocalRanks = 5000
	// perSubnet leaves room in a /24 for the claim.
	perSubnet = 250
	// claimHost is the address of a subnet that is held for as long as the ring
	// runs, so that another run that comes to the same subnet goes on.
	claimHost = 254
	// subnetAttempts: with hundreds of runs on one machine (of 65,000 subnets)
	// a few attempts are enough; this many failures have another reason.
	subnetAttempts = 64
)

// subnets are as many of 127.x.y.0/24, one after another, as n ranks need, that no other
// run uses.
type subnets struct {
	x, y       int
	n, tcpPort int // ranks, and where each listens
	claims     []net.Listener
}

// ClaimSubnets finds subnets in which an address for each of n ranks can be bound for the
// exchange (TCP) and for RoCEv2 (UDP). The sockets are closed again, for the
// ranks to open, except for the claims.
func ClaimSubnets(n, tcpPort int) (*subnets, error) {
	// If the kernel's rdma_rxe holds UDP 4791 on all addresses, a rank takes
	// another port and says so in the exchange; then TCP alone must do.
	for _, udp := range []bool{true, false} {
		var err error
		for range subnetAttempts {
			s := &subnets{x: 1 + rand.IntN(254), n: n, tcpPort: tcpPort}
			s.y = rand.IntN(256 - s.count())
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

func (s *subnets) count() int { return (s.n + perSubnet - 1) / perSubnet }

func (s *subnets) bind(udp bool) error {
	for i := range s.count() {
		claim, err := net.Listen("tcp4", s.host(i, claimHost, s.tcpPort))
		if err != nil {
			return errors.Join(err, s.Close())
		}
		s.claims = append(s.claims, claim)
	}
	for rank := range s.n {
		if err := probe(s.of(rank, s.tcpPort), s.of(rank, route.RoCEPort), udp); err != nil {
			return errors.Join(err, s.Close())
		}
	}
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

func (s *subnets) host(subnet, i, port int) string {
	return fmt.Sprintf("127.%d.%d.%d:%d", s.x, s.y+subnet, i, port)
}

func (s *subnets) of(rank, port int) string {
	return s.host(rank/perSubnet, rank%perSubnet+1, port)
}

// List is the server list of the ranks.
func (s *subnets) List() string {
	hosts := make([]string, s.n)
	for rank := range hosts {
		hosts[rank] = s.of(rank, s.tcpPort)
	}
	return strings.Join(hosts, ",")
}

// Close gives the subnets back.
func (s *subnets) Close() (err error) {
	for _, claim := range s.claims {
		err = errors.Join(err, claim.Close())
	}
	s.claims = nil
	return err
}
