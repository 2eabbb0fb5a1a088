package collective

import (
	"fmt"
	"strings"
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
)

var protocolNames = [...]struct {
	name    string
	aliases []string
}{
	Auto:            {"auto", nil},
	Eager:           {"eager", nil},
	RendezvousWrite: {"rendezvous-write", []string{"rendezvous", "rdv", "rndv", "write"}},
	RendezvousRead:  {"rendezvous-read", []string{"rdv-read", "rndv-read", "read"}},
	Direct:          {"direct", nil},
}

// Protocols returns the protocols that can be asked for, Auto first.
func Protocols() []Protocol {
	return []Protocol{Auto, Eager, RendezvousWrite, RendezvousRead, Direct}
}

// String returns the protocol's name, as ParseProtocol takes it.
func (p Protocol) String() string {
	if int(p) >= len(protocolNames) {
		return fmt.Sprintf("protocol %d", uint8(p))
	}
	return protocolNames[p].name
}

// ParseProtocol returns the protocol of that name or alias, in any case. The
// empty name is Auto. The error for an unknown name lists the known ones.
func ParseProtocol(name string) (Protocol, error) {
	want := strings.ToLower(strings.TrimSpace(name))
	if want == "" {
		return Auto, nil
	}
	var known []string
	for i, p := range protocolNames {
		if want == p.name {
			return Protocol(i), nil
		}
		for _, a := range p.aliases {
			if want == a {
				return Protocol(i), nil
			}
		}
		text := p.name
		if len(p.aliases) > 0 {
			text += " (" + strings.Join(p.aliases, ", ") + ")"
		}
		known = append(known, text)
	}
	return 0, fmt.Errorf("unknown protocol %q: expected one of %s", name, strings.Join(known, ", "))
}

// MarshalText writes the protocol's name.
func (p Protocol) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParseProtocol.
func (p *Protocol) UnmarshalText(text []byte) (err error) {
	*p, err = ParseProtocol(string(text))
	return err
}

func (p Protocol) valid() bool { return int(p) < len(protocolNames) }

// Operation is what a collective does.
type Operation uint8

// The operations. The values travel in headers between ranks: a new operation
// goes to the end.
const (
	OpAllReduce Operation = iota
	OpReduceScatter
	OpAllGather
	OpBarrier
)

var operationNames = [...]string{
	OpAllReduce: "all-reduce", OpReduceScatter: "reduce-scatter", OpAllGather: "all-gather", OpBarrier: "barrier",
}

// String returns the operation's name as the command line writes it.
func (o Operation) String() string {
	if int(o) >= len(operationNames) {
		return fmt.Sprintf("operation %d", uint8(o))
	}
	return operationNames[o]
}

// ParseOperation returns the operation of that name. The error for an unknown
// name lists the known ones.
func ParseOperation(name string) (Operation, error) {
	for i, known := range operationNames {
		if name == known {
			return Operation(i), nil
		}
	}
	return 0, fmt.Errorf("unknown operation %q: expected one of %s", name, strings.Join(operationNames[:], ", "))
}

// MarshalText writes the operation's name.
func (o Operation) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText is ParseOperation.
func (o *Operation) UnmarshalText(text []byte) (err error) {
	*o, err = ParseOperation(string(text))
	return err
}

// reduces tells whether the operation has a reduction.
func (o Operation) reduces() bool { return o == OpAllReduce || o == OpReduceScatter }
