package hostteam

import (
	"context"

	"ringcli/collective/buffer"
	"ringcli/collective/exec"
	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/collective/sharedmem"
	"ringcli/collective/topology"
	"ringcli/trace"
)

// Stage is a call of the team, within a call along hosts.
type Stage struct {
	sharedmem.Call
	team *Team
}

// Stages finds out what a call along hosts does in the memory of this host: before its script, which
// then knows messages between hosts alone, and behind it. Package script has the table.
//
// What the ranks of a host have reduced before the script is in the receive buffer, where that has the
// place, each rank's set there; else in sums of the team's, whose next use is in a later call. The
// others read of it what a rank gives behind the script, and the rank returns when they have.
func (s *Team) Stages(j *exec.Job, h *topology.Hosts) (err error) {
	k, me := &j.Call, s.Ring.Rank()
	sets := s.sets(j, h)
	if k.Op.Reduces() {
		if k.Op == plan.OpAllReduce || k.Op == plan.OpReduce && k.Root == me {
			j.ScriptIn = j.Out
		} else if j.ScriptIn, err = s.sumsOf(sets[s.me], k.Type.Size()); err != nil {
			return err
		}
		before := s.stage(j, sharedmem.Reduce, sets, &j.In, &j.ScriptIn)
		before.More = k.Op == plan.OpAllReduce
		j.Before = before
	}
	there := k.Op.Rooted() && h.Host(k.Root) == h.Host(me)
	switch {
	case k.Op == plan.OpBroadcast && there:
		whole := make([][]sharedmem.Run, len(s.ranks))
		for rank := range whole {
			whole[rank] = []sharedmem.Run{{}}
			if s.ranks[rank] == k.Root {
				whole[rank][0].Hi = k.Count
			}
		}
		from := &j.Out
		if k.Root == me {
			from = &j.In
		}
		j.Before, j.Copied = s.stage(j, sharedmem.Gather, whole, from, &j.Out), true
	case k.Op == plan.OpReduce && there:
		j.ScriptOut = j.ScriptIn
		behind := s.stage(j, sharedmem.Gather, sets, &j.ScriptOut, &j.ScriptOut)
		behind.Gives = k.Root != me
		j.Behind = behind
	case k.Op == plan.OpAllReduce || k.Op == plan.OpAllGather || k.Op == plan.OpBroadcast:
		j.Behind = s.stage(j, sharedmem.Gather, sets, &j.Out, &j.Out)
	case k.Op == plan.OpBarrier:
		j.Before = s.stage(j, 0, nil, &j.In, &j.Out)
		j.Behind = j.Before
	}
	return nil
}

// stage is a call of the team. Averages are divided where they are complete.
func (s *Team) stage(j *exec.Job, phases sharedmem.Phases, sets [][]sharedmem.Run, from, to *buffer.Vector) *Stage {
	k := &j.Call
	d := sharedmem.Call{
		Name: k.Op.String(), Phases: phases, Type: k.Type, Reduction: k.Reduction, Signature: j.Signature, Sets: sets,
		Send: s.buffer(from), Recv: s.buffer(to),
	}
	if d.Reduction == reduce.Avg {
		d.Reduction = reduce.Sum
	}
	return &Stage{d, s}
}

// sets are the elements of which the ranks take care, by rank in the team.
func (s *Team) sets(j *exec.Job, h *topology.Hosts) [][]sharedmem.Run {
	k, size := &j.Call, len(h.Order())
	list := make([][]sharedmem.Run, len(s.ranks))
	for i, rank := range s.ranks {
		set := h.Set(rank)
		if j.Role.Order == nil {
			lo, _ := reduce.Chunk(k.Count, size, set.Lo)
			hi, _ := reduce.Chunk(k.Count, size, set.Hi)
			list[i] = []sharedmem.Run{{Lo: lo, Hi: hi}}
			continue
		}
		for at := set.Lo; at < set.Hi; at++ {
			lo, hi := reduce.Chunk(k.Count, size, j.Role.Order[at])
			list[i] = append(list[i], sharedmem.Run{Lo: lo, Hi: hi})
		}
	}
	return list
}

// sumsOf is memory for the elements from the first to the last of some runs. Of what devices do not pin,
// only what is used becomes memory.
func (s *Team) sumsOf(runs []sharedmem.Run, size int) (v buffer.Vector, err error) {
	lo, hi := runs[0].Lo, runs[0].Hi
	for _, run := range runs {
		lo, hi = min(lo, run.Lo), max(hi, run.Hi)
	}
	b, err := s.buffers.Grow(&s.sums, max(1, uint64((hi-lo)*size)))
	if err != nil {
		return v, err
	}
	v = b.Vector()
	v.Base -= uint64(lo * size)
	return v, nil
}

// Perform performs the stage, of the call that runs, as a step that began then. With no phases the
// ranks meet.
func (d *Stage) Perform(ctx context.Context, begun trace.Stamp) (end trace.Stamp, err error) {
	s := d.team
	s.ctx, s.running, s.last = ctx, running{d.Signature, true}, s.Seq
	s.team.Record(s.Seq, begun)
	err = s.guarded(func() error {
		if d.Phases == 0 {
			return s.team.Inbox(&d.Call)
		}
		return s.team.Pull(&d.Call)
	})
	end = trace.Now()
	s.team.Recorded(end)
	if err != nil {
		return end, s.explain(err)
	}
	return end, nil
}
