package ring

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"ringcli/configs"
	"ringcli/ring/bootstrap"
	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// shmProvider is the name of the provider of shared memory.
const shmProvider = "shm"

// stance is what one end of an edge says about devices: from both ends' follows
// what the edge uses.
type stance struct {
	Asked string     `json:"asked"` // --device: auto, a provider, or a device
	Host  route.Host `json:"host"`
	// NoSHM says why this end does not use shared memory, even with a peer on this
	// host; "" if it does.
	NoSHM string `json:"no_shm,omitempty"`
}

func (s stance) auto() bool { return s.Asked == route.Auto }

// asksSHM tells whether shared memory was asked for by its name.
func (s stance) asksSHM() bool { return isSHM(s.Asked) }

// isSHM tells whether a device's name is one of shared memory.
func isSHM(device string) bool {
	provider, _, _ := strings.Cut(device, ":")
	return provider == shmProvider
}

// choice is what an edge uses, and why.
type choice struct {
	shm bool // shared memory; else what route.Device says at each end
	why string
}

// choose decides what an edge uses. Both ends run it on the same pair, and so come
// to the same end. who names the ends.
func choose(own, peer stance, who [2]string) (choice, error) {
	asking, other, asker := own, peer, 0
	if own.auto() || peer.asksSHM() && !own.asksSHM() {
		asking, other, asker = peer, own, 1
	}
	apart := own.Host.Apart(peer.Host)
	if apart == "" {
		for i, s := range []stance{own, peer} {
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
	case !asking.asksSHM():
		return choice{false, fmt.Sprintf("%s was asked for at %s", asking.Asked, who[asker])}, nil
	case !other.auto() && !other.asksSHM():
		return choice{}, bootstrap.Usagef("the device differs: %s has %s and %s has %s: shared memory needs it at both ends: give both ranks --device %s or %s",
			who[0], own.Asked, who[1], peer.Asked, shmProvider, route.Auto)
	case apart != "":
		return choice{}, bootstrap.Usagef("--device %s at %s: %s and %s cannot share memory: %s: give all ranks --device %s, which takes it where it can",
			asking.Asked, who[asker], who[0], who[1], apart, route.Auto)
	}
	return choice{true, fmt.Sprintf("%s was asked for at %s", asking.Asked, who[asker])}, nil
}

// stance is this rank's own.
func (r *Ring) stance() stance {
	s := stance{Asked: r.opts.Device}
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
	if _, err := verbs.Find(shmProvider); err != nil {
		s.NoSHM = "there is none: " + err.Error()
	}
	return s
}

// ends names a rank's end and its peer's for choose.
func (r *Ring) ends(peer int) [2]string { return [2]string{r.nodeName(r.rank), r.nodeName(peer)} }

// deviceFor returns the open device of a kind, or opens it, for the edges to some
// ranks.
func (r *Ring) deviceFor(shm bool, peers ...int) (*Device, error) {
	for _, d := range r.devices {
		if isSHM(d.Name) == shm {
			return d, nil
		}
	}
	name := r.opts.Device
	if shm && name == route.Auto {
		name = shmProvider
	}
	device, why, err := route.Device(name, r.local)
	if err != nil {
		return nil, bootstrap.UsageIf(err, verbs.ErrNoDevice, verbs.ErrInvalid)
	}
	return r.openDevice(device, why, peers)
}

// likely opens the devices that the edges to the neighbours will most likely use:
// Exchange, in which the neighbours say where they are, has the last word. A
// neighbour whose address is one of this machine will be on it.
func (r *Ring) likely() error {
	r.mishaps.begin()
	own := r.stance()
	var ways [2]way
	var shm [2]bool
	var network []int
	for side := range ways {
		peer := r.neighbour(Side(side))
		shm[side] = own.asksSHM() || own.auto() && own.NoSHM == "" && isLocal(r.addrs[peer].Addr())
		switch {
		case own.asksSHM() || !own.auto():
			ways[side].why = own.Asked + " was asked for"
		case shm[side]:
			ways[side].why = r.nodeName(peer) + " has an address of this machine; exchange will tell"
		case own.NoSHM != "":
			ways[side].why = "no shared memory: " + own.NoSHM
		default:
			ways[side].why = r.nodeName(peer) + " is elsewhere; exchange will tell"
		}
		if !shm[side] {
			network = append(network, peer)
		}
	}
	for side := range ways {
		d, err := r.deviceFor(shm[side], network...)
		if err != nil {
			return err
		}
		ways[side] = way{d, because(ways[side].why, d)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ways = ways
	return nil
}

// because adds to why an edge is on a device why it is that one.
func because(why string, d *Device) string {
	if isSHM(d.Name) || strings.HasPrefix(d.Why, why) {
		return why
	}
	return why + "; " + d.Why
}

// settle makes the edges that are not on the device that both ends agree on anew,
// on that. It tells which neighbours have yet to do so.
func (r *Ring) settle(remote [2]offer) (behind [2]bool, err error) {
	own := r.stance()
	var chosen [2]choice
	var network []int
	for side := range chosen {
		peer := r.neighbour(Side(side))
		if chosen[side], err = choose(own, remote[side].Stance, r.ends(peer)); err != nil {
			return behind, err
		}
		if !chosen[side].shm {
			network = append(network, peer)
		}
	}
	for side, c := range chosen {
		d, err := r.deviceFor(c.shm, network...)
		if err != nil {
			return behind, fmt.Errorf("%s: %w", c.why, err)
		}
		if r.edges[side].device != d {
			if err := r.move(Side(side), d); err != nil {
				return behind, fmt.Errorf("move the %s edge to %s: %w", Side(side), d.Name, err)
			}
		}
		r.mu.Lock()
		r.ways[side] = way{d, because(c.why, d)}
		r.edges[side].why = r.ways[side].why
		r.mu.Unlock()
		behind[side] = isSHM(remote[side].Device) != c.shm
	}
	return behind, r.leave()
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

// leave closes devices that no edge uses.
func (r *Ring) leave() error {
	var errs []error
	for _, d := range r.Devices() {
		if !slices.ContainsFunc(slices.Concat(r.edges[:], r.mesh), func(e *Edge) bool { return e.device == d }) {
			errs = append(errs, r.exclude(d))
		}
	}
	return errors.Join(errs...)
}
