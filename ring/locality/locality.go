// Package locality says where the ranks of a ring are, and what follows from it: which
// address a rank speaks from, where it listens, and which device reaches a peer.
package locality

import (
	"fmt"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// Locality is where one end of an edge is, and which device it asks for: from both
// ends' follows what the edge uses.
type Locality struct {
	Asked          string     `json:"asked"`            // --device: auto, a provider, or a device
	AskedHostLocal bool       `json:"asked_host_local"` // that device reaches processes of its host alone
	Host           route.Host `json:"host"`
	// NoSHM says why this end does not use shared memory, even with a peer on this
	// host; "" if it does.
	NoSHM string `json:"no_shm,omitempty"`
}

// Auto tells whether the choice of a device is left to the ring.
func (l Locality) Auto() bool { return l.Asked == route.Auto }

// SharedMemory returns the provider of shared memory, nil if there is none.
func SharedMemory() verbs.Provider {
	for _, p := range verbs.Providers() {
		if p.Capabilities().HostLocal {
			return p
		}
	}
	return nil
}

// Of is the locality of a rank that asks for a device, on a host or, if that is nil, on this one.
// Where the choice is left to the ring, network says why that is to be one of a network.
func Of(asked string, host *route.Host, network string) Locality {
	s := Locality{Asked: asked, AskedHostLocal: verbs.CapabilitiesOf(asked).HostLocal}
	if host != nil {
		s.Host = *host
	} else {
		s.Host = route.ThisHost()
	}
	p := SharedMemory()
	switch {
	case s.Auto() && network != "":
		s.NoSHM = network
	case p == nil:
		s.NoSHM = "this build has none"
	default:
		if _, err := verbs.Find(p.Name()); err != nil {
			s.NoSHM = "there is none: " + err.Error()
		}
	}
	return s
}

// Choice is what an edge uses, and why.
type Choice struct {
	HostLocal bool // shared memory; else what route.Device says at each end
	Why       string
}

// Choose decides what an edge uses. Both ends run it on the same pair, and so come
// to the same end. who names the ends.
func Choose(own, peer Locality, who [2]string) (Choice, error) {
	asking, other, asker := own, peer, 0
	if own.Auto() || peer.AskedHostLocal && !own.AskedHostLocal {
		asking, other, asker = peer, own, 1
	}
	apart := own.Host.Apart(peer.Host)
	if apart == "" {
		for i, s := range []Locality{own, peer} {
			if s.NoSHM != "" && apart == "" {
				apart = fmt.Sprintf("at %s %s", who[i], s.NoSHM)
			}
		}
	}
	switch {
	case asking.Auto() && apart == "":
		return Choice{true, who[0] + " and " + who[1] + " are processes of one host and one user"}, nil
	case asking.Auto():
		return Choice{false, who[0] + " and " + who[1] + " cannot share memory: " + apart}, nil
	case !asking.AskedHostLocal:
		return Choice{false, fmt.Sprintf("%s was asked for at %s", asking.Asked, who[asker])}, nil
	case !other.Auto() && !other.AskedHostLocal:
		return Choice{}, usage.Codedf(codes.DeviceMismatch, "the device differs: %s has %s and %s has %s: shared memory needs it at both ends: give both ranks --device %s or %s",
			who[0], own.Asked, who[1], peer.Asked, asking.Asked, route.Auto)
	case apart != "":
		return Choice{}, usage.Codedf(codes.DeviceMismatch, "--device %s at %s: %s and %s cannot share memory: %s: give all ranks --device %s, which takes it where it can",
			asking.Asked, who[asker], who[0], who[1], apart, route.Auto)
	}
	return Choice{true, fmt.Sprintf("%s was asked for at %s", asking.Asked, who[asker])}, nil
}
