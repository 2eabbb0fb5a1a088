package ring

import (
	"fmt"
	"strings"

	"ringcli/configs"
	"ringcli/configs/usage"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// locality is where one end of an edge is, and which device it asks for: from both
// ends' follows what the edge uses.
type locality struct {
	Asked          string     `json:"asked"`            // --device: auto, a provider, or a device
	AskedHostLocal bool       `json:"asked_host_local"` // that device reaches processes of its host alone
	Host           route.Host `json:"host"`
	// NoSHM says why this end does not use shared memory, even with a peer on this
	// host; "" if it does.
	NoSHM string `json:"no_shm,omitempty"`
}

func (l locality) auto() bool { return l.Asked == route.Auto }

// hostLocal returns the provider of shared memory, nil if there is none.
func hostLocal() verbs.Provider {
	for _, p := range verbs.Providers() {
		if p.Capabilities().HostLocal {
			return p
		}
	}
	return nil
}

// choice is what an edge uses, and why.
type choice struct {
	hostLocal bool // shared memory; else what route.Device says at each end
	why       string
}

// choose decides what an edge uses. Both ends run it on the same pair, and so come
// to the same end. who names the ends.
func choose(own, peer locality, who [2]string) (choice, error) {
	asking, other, asker := own, peer, 0
	if own.auto() || peer.AskedHostLocal && !own.AskedHostLocal {
		asking, other, asker = peer, own, 1
	}
	apart := own.Host.Apart(peer.Host)
	if apart == "" {
		for i, s := range []locality{own, peer} {
			if s.NoSHM != "" && apart == "" {
				apart = fmt.Sprintf("at %s %s", who[i], s.NoSHM)
			}
		}
	}
	switch {
	case asking.auto() && apart == "":
		return choice{true, who[0] + " and " + who[1] + " are processes of one host and one user"}, nil
	case asking.auto():
		return choice{false, who[0] + " and " + who[1] + " cannot share memory: " + apart}, nil
	case !asking.AskedHostLocal:
		return choice{false, fmt.Sprintf("%s was asked for at %s", asking.Asked, who[asker])}, nil
	case !other.auto() && !other.AskedHostLocal:
		return choice{}, usage.Errorf("the device differs: %s has %s and %s has %s: shared memory needs it at both ends: give both ranks --device %s or %s",
			who[0], own.Asked, who[1], peer.Asked, asking.Asked, route.Auto)
	case apart != "":
		return choice{}, usage.Errorf("--device %s at %s: %s and %s cannot share memory: %s: give all ranks --device %s, which takes it where it can",
			asking.Asked, who[asker], who[0], who[1], apart, route.Auto)
	}
	return choice{true, fmt.Sprintf("%s was asked for at %s", asking.Asked, who[asker])}, nil
}

// locality is that of a rank with these options.
func (o *Options) locality() locality {
	s := locality{Asked: o.Device, AskedHostLocal: verbs.CapabilitiesOf(o.Device).HostLocal}
	if o.Host != nil {
		s.Host = *o.Host
	} else {
		s.Host = route.ThisHost()
	}
	for _, no := range []struct {
		given bool
		text  string
	}{
		{o.Impair != nil, "packets are to be lost, of which shared memory has none"},
		{o.UDPPort != 0, "a UDP port was asked for"},
		{o.GIDIndex != nil, "--gid-index was given, which is for devices of a network"},
		{o.Port != configs.Default[int]("port"), "--port was given, which is for devices of a network"},
	} {
		if no.given && s.auto() {
			s.NoSHM = no.text
			return s
		}
	}
	if p := hostLocal(); p == nil {
		s.NoSHM = "this build has none"
	} else if _, err := verbs.Find(p.Name()); err != nil {
		s.NoSHM = "there is none: " + err.Error()
	}
	return s
}

// bothNames names a rank's end and its peer's for choose.
func bothNames(r *Ring, peer int) [2]string { return [2]string{r.nodeName(r.rank), r.nodeName(peer)} }

// because adds to why an edge is on a device why it is that one.
func because(why string, d *Device) string {
	if d.Attr.HostLocal || strings.HasPrefix(d.Why, why) {
		return why
	}
	return why + "; " + d.Why
}
