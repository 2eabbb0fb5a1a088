package collective

import (
	"context"
	"errors"
	"log/slog"

	"ringcli/collective/reduce"
	"ringcli/collective/sharedmem"
	"ringcli/collective/topology"
	"ringcli/ring"
	"ringcli/trace"
)

// inside is what a call along hosts does in the memory of this host, before its script, which
// then knows messages between hosts alone, and behind it. Package script has the table.
//
// What the ranks of a host have reduced before the script is in the receive buffer, where that has the
// place, each rank's set there; else in sums of the Comm's, whose next use is in a later call. The
// others read of it what a rank gives behind the script, and the rank returns when they have.
type inside struct {
	in, out        vector // of the script
	before, behind stage
	copied         bool // before has copied what the own send buffer holds to the receive buffer
}

// stage is a call of the team, if there is one: with no phases the ranks meet.
type stage struct {
	sharedmem.Call
	does bool
}

// shareWithin makes what the ranks of this host share. It is collective. It tells whether the ranks of
// each host can, where there are several.
func (c *Comm) shareWithin(ctx context.Context, here []int, all []capabilities) (ok bool, err error) {
	var said []capabilities
	for _, rank := range here {
		said = append(said, all[rank])
	}
	s, why, err := c.share(ctx, here, turnsOf(said) > 1, func() (*ring.Device, error) {
		if why := c.notTeam("host", len(here)); why != "" {
			return nil, errors.New(why)
		}
		return c.ring.SharedMemory(ctx)
	})
	if why != "" || err != nil {
		trace.Debug(trace.Collective, "the ranks of some host do not share memory", slog.String("why", why))
		return false, err
	}
	c.within = s
	c.mayBeMapped()
	return true, nil
}

// prepare finds out what a call does in the memory of this host. There may be nobody to share it
// with: s is nil.
func (s *shared) prepare(p *prepared) (err error) {
	i, k := &p.inside, &p.call
	i.in, i.out = p.in, p.out
	if s == nil || !p.role.Between {
		return nil
	}
	c, h := s.c, s.c.agreement.Load().Hosts
	sets := s.sets(p, h)
	// The sums of this host, of the own set.
	results := func() error {
		if k.Op == OpAllReduce || k.Op == OpReduce && k.Root == c.rank {
			i.in = p.out
			return nil
		}
		i.in, err = s.sums(sets[s.me], k.Type.Size())
		return err
	}
	if k.Op.Reduces() {
		if err := results(); err != nil {
			return err
		}
		i.before = s.stage(p, sharedmem.Reduce, sets, &p.in, &i.in)
		i.before.More = k.Op == OpAllReduce
	}
	there := k.Op.Rooted() && h.Host(k.Root) == h.Host(c.rank)
	switch {
	case k.Op == OpBroadcast && there:
		whole := make([][]sharedmem.Run, len(s.ranks))
		for rank := range whole {
			whole[rank] = []sharedmem.Run{{}}
			if s.ranks[rank] == k.Root {
				whole[rank][0].Hi = k.Count
			}
		}
		from := &p.out
		if k.Root == c.rank {
			from = &p.in
		}
		i.before, i.copied = s.stage(p, sharedmem.Gather, whole, from, &p.out), true
	case k.Op == OpReduce && there:
		i.out = i.in
		i.behind = s.stage(p, sharedmem.Gather, sets, &i.out, &i.out)
		i.behind.Gives = k.Root != c.rank
	case k.Op == OpAllReduce || k.Op == OpAllGather || k.Op == OpBroadcast:
		i.behind = s.stage(p, sharedmem.Gather, sets, &p.out, &p.out)
	case k.Op == OpBarrier:
		i.before = s.stage(p, 0, nil, &p.in, &p.out)
		i.behind = i.before
	}
	return nil
}

// stage is a call of the team. Averages are divided where they are complete.
func (s *shared) stage(p *prepared, phases sharedmem.Phases, sets [][]sharedmem.Run, from, to *vector) stage {
	k := &p.call
	d := sharedmem.Call{
		Name: k.Op.String(), Phases: phases, Type: k.Type, Reduction: k.Reduction, Signature: p.signature, Sets: sets,
		Send: s.buffer(from), Recv: s.buffer(to),
	}
	if d.Reduction == reduce.Avg {
		d.Reduction = reduce.Sum
	}
	return stage{d, true}
}

// sets are the elements of which the ranks take care, by rank in the team.
func (s *shared) sets(p *prepared, h *topology.Hosts) [][]sharedmem.Run {
	k := &p.call
	list := make([][]sharedmem.Run, len(s.ranks))
	for i, rank := range s.ranks {
		set := h.Set(rank)
		if p.role.Order == nil {
			lo, _ := reduce.Chunk(k.Count, s.c.size, set.Lo)
			hi, _ := reduce.Chunk(k.Count, s.c.size, set.Hi)
			list[i] = []sharedmem.Run{{Lo: lo, Hi: hi}}
			continue
		}
		for at := set.Lo; at < set.Hi; at++ {
			lo, hi := reduce.Chunk(k.Count, s.c.size, p.role.Order[at])
			list[i] = append(list[i], sharedmem.Run{Lo: lo, Hi: hi})
		}
	}
	return list
}

// sums is memory for the elements from the first to the last of some runs. Of what devices do not pin,
// only what is used becomes memory.
func (s *shared) sums(runs []sharedmem.Run, size int) (v vector, err error) {
	lo, hi := runs[0].Lo, runs[0].Hi
	for _, run := range runs {
		lo, hi = min(lo, run.Lo), max(hi, run.Hi)
	}
	b, err := s.c.grow(&s.c.sums, max(1, uint64((hi-lo)*size)))
	if err != nil {
		return v, err
	}
	return vector{base: b.addr - uint64(lo*size), keys: b.reg.Keys(), serial: b.serial}, nil
}

// perform has the team perform a stage of the call that runs.
func (s *shared) perform(ctx context.Context, p *prepared, d *stage) error {
	if !d.does {
		return nil
	}
	c := s.c
	s.ctx, s.running, s.last = ctx, p, c.seq
	s.team.Record(c.seq, c.flow.step)
	err := s.guarded(func() error {
		if d.Phases == 0 {
			return s.team.Inbox(&d.Call)
		}
		return s.team.Pull(&d.Call)
	})
	end := trace.Now()
	s.team.Recorded(end)
	c.flow.step = end
	if err != nil {
		return s.explain(err)
	}
	return nil
}
