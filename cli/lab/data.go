package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ringcli/verbs"
	"ringcli/verbs/gpu"
)

// register allocates memory and registers it: the host's, or in lab D a GPU's.
func (p *pair) register(v *Values) error {
	n := parts * p.process.o.Bytes
	if d := p.process.o.GPU; d == nil {
		if err := p.Register(uint64(n), access); err != nil {
			return err
		}
	} else {
		region, err := gpu.NewRegion(p.process.PD, d, n, access)
		if err != nil {
			return err
		}
		region.Limit = p.process.o.Timeout
		p.region, p.MR, p.Block = region, region.MR, region
		v.add("memory", d.Place, "gpu_addr", hex(region.Addr()), "path", region.Path)
		if len(region.Why) > 0 {
			v.add("not", fmt.Sprintf("%q", strings.ReplaceAll(errors.Join(region.Why...).Error(), "\n", "; ")))
		}
	}
	v.add("addr", hex(p.MR.Addr()), "length", p.MR.Length(), "lkey", hex(p.MR.LKey()), "rkey", hex(p.MR.RKey()))
	v.add("access", strings.ReplaceAll(p.MR.Access().String(), ", ", "|"))
	return nil
}

// part are the bytes of a part, in lab D those through which the GPU's are seen.
func (p *pair) part(which int) []byte {
	n := p.process.o.Bytes
	return p.Block.Bytes()[which*n : (which+1)*n]
}

// source writes what an operation sends into the memory that it is sent from.
func (p *pair) source(ctx context.Context, op verbs.Opcode) error {
	fill(p.part(partSource), p.index, op)
	if p.region == nil {
		return nil
	}
	defer p.process.o.Waiting("copies of " + p.process.o.GPU.Place.String())()
	n := p.process.o.Bytes
	if err := p.region.Store(ctx, partSource*n, n); err != nil {
		return err
	}
	clear(p.part(partSource)) // what leaves comes from the GPU
	return p.region.Leaving(ctx, partSource*n, n)
}

// arrived has the memory's own bytes be seen of what has come.
func (p *pair) arrived(ctx context.Context, part int) error {
	if p.region == nil {
		return nil
	}
	defer p.process.o.Waiting("copies of " + p.process.o.GPU.Place.String())()
	n := p.process.o.Bytes
	if err := p.region.Arrived(ctx, part*n, n); err != nil {
		return err
	}
	clear(p.part(part)) // what is compared comes from the GPU
	return p.region.Load(ctx, part*n, n)
}

// verify checks the bytes of the other end that have come, and says so.
func (p *pair) verify(ctx context.Context, part int, op verbs.Opcode, v *Values) error {
	if err := p.arrived(ctx, part); err != nil {
		return err
	}
	from := 1 - p.index
	if err := check(p.part(part), from, op); err != nil {
		return err
	}
	text := fmt.Sprintf("%d bytes", p.process.o.Bytes)
	if p.process.control != nil {
		text += fmt.Sprintf(" of rank %d", from)
	}
	if p.region != nil {
		text += " in " + p.process.o.GPU.Place.String()
	}
	v.add("verified", text)
	return nil
}
