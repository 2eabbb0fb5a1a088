package collective

import "fmt"

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
)

var protocols = [...]struct {
	naming
	what string // in a sentence
}{
	Auto:            {naming: naming{name: "auto"}},
	Eager:           {naming: naming{name: "eager"}},
	RendezvousWrite: {naming{"rendezvous-write", []string{"rendezvous", "rdv", "rndv", "write"}}, "rendezvous"},
	RendezvousRead:  {naming{"rendezvous-read", []string{"rdv-read", "rndv-read", "read"}}, "rendezvous"},
	Direct:          {naming{name: "direct"}, "direct"},
}

// Protocols returns the protocols that can be asked for, Auto first.
func Protocols() []Protocol {
	list := make([]Protocol, len(protocols))
	for i := range list {
		list[i] = Protocol(i)
	}
	return list
}

// String returns the protocol's name, as ParseProtocol takes it.
func (p Protocol) String() string {
	if int(p) >= len(protocols) {
		return fmt.Sprintf("protocol %d", uint8(p))
	}
	return protocols[p].name
}

// ParseProtocol returns the protocol of that name or alias, in any case. The
// empty name is Auto. The error for an unknown name lists the known ones.
func ParseProtocol(name string) (Protocol, error) {
	var rows []naming
	for i := range protocols {
		rows = append(rows, protocols[i].naming)
	}
	i, err := parseName("protocol", name, rows)
	return Protocol(i), err
}

// MarshalText writes the protocol's name.
func (p Protocol) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParseProtocol.
func (p *Protocol) UnmarshalText(text []byte) (err error) {
	*p, err = ParseProtocol(string(text))
	return err
}

func (p Protocol) valid() bool { return int(p) < len(protocols) }
