package sharedmem

import (
	"fmt"
	"strings"

	"ringcli/verbs/memory"
)

// Words of an inbox area in which a rank tells where its memory is.
const (
	refFlags  = iota
	refInput  // address of element 0 of the input
	refOutput // address of element 0 of the result
	refInputKey
	refOutputKey
	refWords

	flagInput   = 1 // the input can be mapped
	flagOutput  = 2 // the receive buffer can be mapped
	storesShift = 8 // above: the stores that rank 0 chose
)

// tellRefs tells the peers where the own memory is, and maps theirs.
func (e *puller) tellRefs(c *Call) error {
	e.t.phase = phaseRefs
	flags := uint64(e.stores) << storesShift
	if c.Send.Mapped {
		flags |= flagInput
	}
	if c.Recv.Mapped {
		flags |= flagOutput
	}
	parity := e.t.open()
	for _, p := range e.t.targets {
		ref := refOf(p.outArea[parity])
		ref[refFlags], ref[refInput], ref[refOutput] = flags, c.Send.Addr, c.Recv.Addr
		ref[refInputKey], ref[refOutputKey] = c.Send.Key, c.Recv.Key
		p.out[parity].store(e.t.tag)
	}
	if err := e.t.gather(parity); err != nil {
		return err
	}
	if e.t.rank != 0 {
		e.stores = stores(refOf(e.t.peers[0].inArea[parity])[refFlags] >> storesShift)
	}
	for _, p := range e.t.others {
		if err := e.resolve(p, refOf(p.inArea[parity]), c); err != nil {
			e.t.err = fmt.Errorf("%s: %w", c.Name, err)
			return e.t.err
		}
	}
	e.lay(c)
	return nil
}

func refOf(area []byte) []uint64 { return memory.Slice[uint64](memory.Addr(area), refWords) }

// resolve maps what the own rank reads of a peer's memory in this call, and that
// alone, so that a peer's wrong word is an error and not a fault.
func (e *puller) resolve(p *peer, ref []uint64, c *Call) error {
	p.input, p.output, p.ready = 0, 0, false
	inputMapped, outputMapped := ref[refFlags]&flagInput != 0, ref[refFlags]&flagOutput != 0
	var err error
	switch {
	case c.Rooted && !c.reduces() && p.rank != int(c.Root):
		p.output, p.ready = 1, true // there is no byte of it
	case c.reduces() && inputMapped:
		p.input, err = e.locate(p, ref[refInputKey], ref[refInput], e.t.lo, e.t.hi)
	case !c.reduces() && inputMapped:
		p.ready = true
		p.output, err = e.locate(p, ref[refInputKey], ref[refInput], p.lo, p.hi)
	}
	if c.reduces() && c.gathers() && e.resultMapped(outputMapped) && err == nil {
		p.output, err = e.locate(p, ref[refOutputKey], ref[refOutput], p.lo, p.hi)
	}
	return err
}

// locate maps the elements [lo, hi) of a vector whose element 0 is, or would be, at
// a peer's addr, and returns where element 0 would be here.
func (e *puller) locate(p *peer, key, addr uint64, lo, hi int) (uint64, error) {
	if lo == hi {
		return 1, nil // anything but 0: there is no byte of it
	}
	offset := uint64(lo * e.elem)
	local, err := e.t.find(p, key, addr+offset, uint64((hi-lo)*e.elem))
	return local - offset, err
}

// progress says how far a call has come, here and on some ranks, for errors.
func (e *puller) progress(b *strings.Builder, ranks []int) {
	fmt.Fprintf(b, "%s of %d steps: %d reduced", e.t.name, e.total, e.reduced)
	if e.sendSlots {
		fmt.Fprintf(b, ", %d staged", e.staged)
	}
	if e.gathers {
		fmt.Fprintf(b, ", %d taken", e.taken)
	}
	if e.t.phase == phaseFinish {
		b.WriteString("; awaited: that the others have read the buffers")
	}
	b.WriteByte(';')
	for _, r := range ranks {
		p := &e.t.peers[r]
		fmt.Fprintf(b, " rank %d has reduced %d", e.t.number(r), e.stepsOf(p.lines[reducedLine]))
		if p.input == 0 && e.kernel != nil {
			fmt.Fprintf(b, ", staged %d", e.stepsOf(p.lines[stagedLine]))
		}
		if e.gathers {
			fmt.Fprintf(b, ", taken %d", e.stepsOf(p.lines[takenLine]))
		}
		b.WriteByte(';')
	}
}

// stepsOf makes a counter one of this call.
func (e *puller) stepsOf(l *line) int64 { return max(0, int64(l.load()-e.base)) }
