package plan

import (
	"cmp"
	"strings"

	"ringcli/collective/reduce"
)

// Protocol is how segments travel from a rank to its right neighbour.
type Protocol uint8

// The protocols. The values travel in headers between ranks: a new protocol
// goes to the end.
const (
	Auto            Protocol = iota // chosen by the size of a chunk, see Plan
	Eager                           // WRITE_WITH_IMM into slots, credits back
	RendezvousWrite                 // RTS, CTS, WRITE_WITH_IMM into place
	RendezvousRead                  // RTS, READ into place, FIN
	Direct                          // every rank reads the others' buffers in place
	// ReceiverInitiated is a rendezvous whose receiver says where to write before the
	// sender asks: S. Pakin, "Receiver-initiated message passing over RDMA networks", 2008;
	// Rashti and Afsahi, "Improving communication progress and overlap in MPI rendezvous
	// protocol over RDMA-enabled interconnects", 2008. Here the first phase of all-reduce,
	// through slots, brings the address of the second.
	ReceiverInitiated
)

// Handshakes tells whether each segment is asked for, by RTS, before its data goes.
func (p Protocol) Handshakes() bool { return p == RendezvousWrite || p == RendezvousRead }

var protocols = [...]struct {
	reduce.Naming
	what string // in a sentence
}{
	Auto:              {Naming: reduce.Naming{Name: "auto"}},
	Eager:             {Naming: reduce.Naming{Name: "eager"}},
	RendezvousWrite:   {reduce.Naming{Name: "rendezvous-write", Aliases: []string{"rendezvous", "rdv", "rndv", "write"}}, "rendezvous"},
	RendezvousRead:    {reduce.Naming{Name: "rendezvous-read", Aliases: []string{"rdv-read", "rndv-read", "read"}}, "rendezvous"},
	Direct:            {reduce.Naming{Name: "direct"}, "direct"},
	ReceiverInitiated: {reduce.Naming{Name: "receiver-initiated", Aliases: []string{"recv-init"}}, "rendezvous"},
}

var protocolNames = reduce.Names[Protocol]{
	What: "protocol", Unknown: "protocol %d", Count: len(protocols), Of: func(p Protocol) reduce.Naming { return protocols[p].Naming },
}

// Protocols returns the protocols that can be asked for, Auto first.
func Protocols() []Protocol { return protocolNames.All() }

// String returns the protocol's name, as ParseProtocol takes it.
func (p Protocol) String() string { return protocolNames.Text(p) }

// ParseProtocol returns the protocol of that name or alias, in any case. The
// empty name is Auto. The error for an unknown name lists the known ones.
func ParseProtocol(name string) (Protocol, error) {
	return protocolNames.Parse(cmp.Or(strings.TrimSpace(name), Auto.String()))
}

// MarshalText writes the protocol's name.
func (p Protocol) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParseProtocol.
func (p *Protocol) UnmarshalText(text []byte) (err error) {
	*p, err = ParseProtocol(string(text))
	return err
}

func (p Protocol) valid() bool { return int(p) < len(protocols) }
