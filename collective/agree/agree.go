// Package agree is what the ranks of a ring tell each other over the control ring, once, before
// the first operation: what each of them can.
package agree

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"ringcli/collective/plan"
	"ringcli/collective/topology"
	"ringcli/configs/usage"
	"ringcli/ring"
	"ringcli/verbs/cpu"
)

// Capabilities is what a rank says of itself.
type Capabilities struct {
	Size  int         `json:"size"`            // of its ring
	Nonce uint32      `json:"nonce,omitempty"` // of rank 0
	Table *plan.Table `json:"table,omitempty"` // of rank 0
	// Software: one of its edges is on a device in software.
	Software  bool   `json:"software,omitempty"`
	Rails     bool   `json:"rails,omitempty"`      // its channels are on several devices
	LinkMbps  int    `json:"link_mbps,omitempty"`  // of its slower port; 0: not known
	NotShared string `json:"not_shared,omitempty"` // why it cannot share memory with all others
	Allowed   string `json:"allowed,omitempty"`    // CPUs that it may run on, as in 0-3,8; "": not known
	Host      string `json:"host"`                 // the same of ranks that share one
	Hosts     string `json:"hosts,omitempty"`      // of rank 0: the setting hosts
}

// Agreed is what the ranks have told each other.
type Agreed struct {
	plan.Agreement
	Table *plan.Table // of rank 0
	Nonce uint32      // the same on all ranks
	All   []Capabilities
	// Turns is how many ranks take turns on a CPU, if all share a host; 0: not known.
	Turns int
}

// Own returns what this rank says of itself, which is why it cannot share memory with all others, or
// "", and the table, if it is rank 0.
func Own(r *ring.Ring, table *plan.Table, notShared string) Capabilities {
	mine := Capabilities{
		Size: r.Size(), Software: Software(r), Rails: rails(r), NotShared: notShared, Host: r.Host().Name(),
		LinkMbps: slower(r.Left().Device().LinkMbps(), r.Right().Device().LinkMbps()),
	}
	if cpus, err := cpu.Allowed(); err == nil {
		mine.Allowed = cpu.FormatList(cpus)
	}
	if r.Rank() == 0 {
		mine.Table, mine.Nonce, mine.Hosts = table, rand.Uint32(), r.Options().Hosts
	}
	return mine
}

// Agree has all ranks learn what each of them can. It is collective. What this rank knows of
// itself is in own, and a rank that does not come is named.
func Agree(ctx context.Context, r *ring.Ring, mine Capabilities, own plan.Agreement) (a *Agreed, err error) {
	all, err := Gather(ctx, r, ring.Purpose{What: "agreement", Do: ring.BeReady}, mine)
	if err != nil {
		return nil, err
	}
	a = &Agreed{Agreement: own, Table: all[0].Table, Nonce: all[0].Nonce, All: all}
	a.NotShared, a.Software, a.Reached = "", false, true
	for rank, theirs := range all {
		if theirs.Size != r.Size() {
			return nil, usage.Errorf("rank %d is in a ring of %d: expected %d", rank, theirs.Size, r.Size())
		}
		a.Software = a.Software || theirs.Software
		a.Rails = a.Rails || theirs.Rails
		a.LinkMbps = slower(a.LinkMbps, theirs.LinkMbps)
		if theirs.NotShared != "" && a.NotShared == "" {
			a.NotShared = fmt.Sprintf("rank %d: %s", rank, theirs.NotShared)
		}
	}
	if a.Table == nil {
		return nil, usage.Errorf("rank 0 sends no table")
	}
	if err := a.Table.Validate(); err != nil {
		return nil, fmt.Errorf("rank 0: %w", err)
	}
	if a.Hosts, err = hostsOf(all); err != nil {
		return nil, err
	}
	a.Turns = Turns(all)
	if a.Agreement.Turns = a.Turns; a.Hosts.Number() > 1 {
		a.Agreement.Turns = 0 // between hosts what a message takes is another matter
	}
	return a, nil
}

// Gather has every rank say something, and returns what they said.
func Gather[T any](ctx context.Context, r *ring.Ring, purpose ring.Purpose, mine T) ([]T, error) {
	data, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	parts, err := r.Gather(ctx, purpose, data)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(parts))
	for rank, part := range parts {
		if err := json.Unmarshal(part, &all[rank]); err != nil {
			return nil, fmt.Errorf("what rank %d says makes no sense: %w", rank, err)
		}
	}
	return all, nil
}

// hostsOf is where the ranks are: where they find themselves, or where rank 0 is told that they
// are.
func hostsOf(all []Capabilities) (*topology.Hosts, error) {
	if by := all[0].Hosts; by != "" && by != ring.HostsAuto {
		return topology.Parse(by, len(all))
	}
	names := make([]string, len(all))
	for rank, theirs := range all {
		names[rank] = theirs.Host
	}
	return topology.Of(names), nil
}

// Turns is how many ranks take turns on a CPU if all share a host; 0 is not known. Ranks may be
// bound to CPUs of their own, as mpirun binds them: of any CPUs those ranks take turns that may
// run on no others.
func Turns(all []Capabilities) (turns int) {
	ranks := map[string]int{} // by where they may run
	for _, theirs := range all {
		ranks[theirs.Allowed]++
	}
	sets := map[string][]int{}
	var union []int
	for list := range ranks {
		cpus, err := cpu.ParseList(list)
		if err != nil {
			return 0
		}
		sets[list] = cpus
		union = append(union, cpus...)
	}
	slices.Sort(union)
	union = slices.Compact(union)
	sets[cpu.FormatList(union)] = union
	for _, set := range sets {
		bound := 0
		for list, n := range ranks {
			if !slices.ContainsFunc(sets[list], func(one int) bool { return !slices.Contains(set, one) }) {
				bound += n
			}
		}
		turns = max(turns, (bound+len(set)-1)/len(set))
	}
	return turns
}

// Software tells whether an edge of this rank's is on a device in software.
func Software(r *ring.Ring) bool {
	return r.Left().Local.Capabilities.Software || r.Right().Local.Capabilities.Software
}

// rails tells whether the channels to a neighbour are on several devices.
func rails(r *ring.Ring) bool {
	return slices.ContainsFunc(slices.Concat(r.Left().Channels(), r.Right().Channels()), func(e *ring.Edge) bool { return e.Device().Rail > 0 })
}

// slower is the lower of two rates, of which one or both may be 0: not known, or no port's.
func slower(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
