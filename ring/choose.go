package ring

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"ringcli/configs"
	"ringcli/configs/usage"
	"ringcli/trace"
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

// locality is this rank's own.
func (r *Ring) locality() locality {
	s := locality{Asked: r.opts.Device, AskedHostLocal: verbs.CapabilitiesOf(r.opts.Device).HostLocal}
	if r.opts.Host != nil {
		s.Host = *r.opts.Host
	} else {
		s.Host = route.ThisHost()
	}
	for _, o := range []struct {
		given bool
		text  string
	}{
		{r.opts.Impair != nil, "packets are to be lost, of which shared memory has none"},
		{r.opts.UDPPort != 0, "a UDP port was asked for"},
		{r.opts.GIDIndex != nil, "--gid-index was given, which is for devices of a network"},
		{r.opts.Port != configs.Default[int]("port"), "--port was given, which is for devices of a network"},
	} {
		if o.given && s.auto() {
			s.NoSHM = o.text
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

// ends names a rank's end and its peer's for choose.
func (r *Ring) ends(peer int) [2]string { return [2]string{r.nodeName(r.rank), r.nodeName(peer)} }

// deviceFor returns the open device of a kind, or opens it, for the edges to some
// ranks.
func (r *Ring) deviceFor(local bool, peers ...int) (*Device, error) {
	for _, d := range r.devices {
		if d.Attr.HostLocal == local {
			return d, nil
		}
	}
	name := r.opts.Device
	if p := hostLocal(); local && p != nil && name == route.Auto {
		name = p.Name()
	}
	device, why, err := route.Device(name, r.local)
	if err != nil {
		return nil, usage.If(err, verbs.ErrNoDevice, verbs.ErrInvalid)
	}
	return r.openDevice(device, why, peers)
}

// openExpected opens the devices that the edges to the neighbours will most likely use:
// Exchange, in which the neighbours say where they are, has the last word. A
// neighbour whose address is one of this machine will be on it.
func (r *Ring) openExpected() error {
	r.mishaps.begin()
	own := r.locality()
	var chosen [2]edgeDevice
	var shm [2]bool
	var network []int
	for side := range chosen {
		peer := r.neighbour(Side(side))
		shm[side] = own.AskedHostLocal || own.auto() && own.NoSHM == "" && isLocal(r.addrs[peer].Addr())
		switch {
		case own.AskedHostLocal || !own.auto():
			chosen[side].why = own.Asked + " was asked for"
		case shm[side]:
			chosen[side].why = r.nodeName(peer) + " has an address of this machine; exchange will tell"
		case own.NoSHM != "":
			chosen[side].why = "no shared memory: " + own.NoSHM
		default:
			chosen[side].why = r.nodeName(peer) + " is elsewhere; exchange will tell"
		}
		if !shm[side] {
			network = append(network, peer)
		}
	}
	for side := range chosen {
		d, err := r.deviceFor(shm[side], network...)
		if err != nil {
			return err
		}
		chosen[side] = edgeDevice{d, because(chosen[side].why, d)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chosen = chosen
	return nil
}

// because adds to why an edge is on a device why it is that one.
func because(why string, d *Device) string {
	if d.Attr.HostLocal || strings.HasPrefix(d.Why, why) {
		return why
	}
	return why + "; " + d.Why
}

// moveEdges makes the edges that are not on the device that both ends agree on anew,
// on that. It tells which neighbours have yet to do so.
func (r *Ring) moveEdges(remote [2]connectionData) (behind [2]bool, err error) {
	own := r.locality()
	var chosen [2]choice
	var network []int
	for side := range chosen {
		peer := r.neighbour(Side(side))
		if chosen[side], err = choose(own, remote[side].Locality, r.ends(peer)); err != nil {
			return behind, err
		}
		if !chosen[side].hostLocal {
			network = append(network, peer)
		}
	}
	for side, c := range chosen {
		d, err := r.deviceFor(c.hostLocal, network...)
		if err != nil {
			return behind, fmt.Errorf("%s: %w", c.why, err)
		}
		if r.edges[side].device != d {
			if err := r.move(Side(side), d); err != nil {
				return behind, fmt.Errorf("move the %s edge to %s: %w", Side(side), d.Name, err)
			}
		}
		r.mu.Lock()
		r.chosen[side] = edgeDevice{d, because(c.why, d)}
		r.edges[side].why = r.chosen[side].why
		r.mu.Unlock()
		behind[side] = remote[side].Capabilities.HostLocal != c.hostLocal
	}
	return behind, r.closeUnused()
}

// move makes an edge anew on another device, with what Init was given.
func (r *Ring) move(side Side, d *Device) error {
	old := r.edges[side]
	e, err := newEdge(side, old.Peer, d, r.room())
	if err != nil {
		return err
	}
	if err = r.describe(e); err == nil {
		err = r.initEdge(e, old.given)
	}
	if err != nil {
		return errors.Join(err, e.close())
	}
	trace.Debug(trace.Ring, "edge moved", slog.String("side", side.String()), slog.Int("neighbour", e.Peer), slog.String("from", old.device.Name), slog.String("to", d.Name))
	r.mu.Lock()
	r.edges[side] = e
	r.notify()
	r.mu.Unlock()
	return old.close()
}

// closeUnused closes devices that no edge uses.
func (r *Ring) closeUnused() error {
	var errs []error
	for _, d := range r.Devices() {
		if !slices.ContainsFunc(slices.Concat(r.edges[:], r.mesh), func(e *Edge) bool { return e.device == d }) {
			errs = append(errs, r.exclude(d))
		}
	}
	return errors.Join(errs...)
}
