package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"ringcli/ring/bootstrap"
	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/path"
)

// station is one process's device and what both of its labs share of it: the
// context, the port, a protection domain and a completion queue.
type station struct {
	o       *Options
	local   netip.Addr // to speak from
	ctx     verbs.Context
	attr    verbs.DeviceAttr
	port    path.Port
	choice  path.Choice
	pd      verbs.PD
	channel verbs.CompChannel
	cq      verbs.CQ
	pairs   []*pair // in the order of their creation
}

// open opens the device and chooses the GID. A device or a GID index that is not
// there is an error of usage.
func (s *station) open(peer netip.Addr) error {
	err := s.choose(peer)
	if errors.Is(err, verbs.ErrNoDevice) || errors.Is(err, verbs.ErrInvalid) {
		return bootstrap.Usagef("%v", err)
	}
	return err
}

func (s *station) choose(peer netip.Addr) error {
	d, _, err := path.Device(s.o.Device, s.local)
	if err != nil {
		return err
	}
	if s.ctx, err = d.Open(verbs.OpenOptions{LocalAddr: s.local}); err != nil {
		return fmt.Errorf("open %s: %w", d.Name(), err)
	}
	if s.attr, err = s.ctx.QueryDevice(); err != nil {
		return fmt.Errorf("query %s: %w", d.Name(), err)
	}
	if s.port, err = path.QueryPort(s.ctx, s.o.Port); err != nil {
		return err
	}
	s.choice, err = s.port.Choose(path.Want{Index: s.o.GIDIndex, Local: s.local, Peer: peer})
	return err
}

func (s *station) allocPD() (err error) {
	s.pd, err = s.ctx.AllocPD()
	return err
}

// cqDepth holds what both queue pairs can have outstanding, several times over.
const cqDepth = 16

func (s *station) createCQ() (err error) {
	if s.channel, err = s.ctx.CreateCompChannel(); err != nil {
		return err
	}
	s.cq, err = s.ctx.CreateCQ(cqDepth, s.channel)
	return err
}

// Close releases everything, the last made first.
func (s *station) Close() error {
	var errs []error
	for _, p := range s.pairs {
		errs = append(errs, p.closeQP())
	}
	for _, p := range s.pairs {
		errs = append(errs, p.closeMemory())
	}
	if s.cq != nil {
		errs = append(errs, s.cq.Close())
	}
	if s.channel != nil {
		errs = append(errs, s.channel.Close())
	}
	if s.pd != nil {
		errs = append(errs, s.pd.Close())
	}
	if s.ctx != nil {
		errs = append(errs, s.ctx.Close())
	}
	return errors.Join(errs...)
}

// deviceValues are what the device, its port and the GID that was chosen say.
func (s *station) deviceValues(v *Values) {
	p := s.port.Attr
	v.add("device", "%s", s.ctx.Device().Name())
	v.add("port", "%d", s.port.Num)
	v.add("state", "%s", p.State)
	v.add("link_layer", "%s", p.LinkLayer)
	v.add("active_mtu", "%s", p.ActiveMTU)
	v.add("lid", "%d", p.LID)
	v.add("gid_index", "%d", s.choice.Entry.Index)
	v.add("gid", "%s", s.choice.Entry.GID)
	v.add("gid_type", "%s", s.choice.Entry.Type)
}

// pair is a queue pair with its memory.
type pair struct {
	s     *station
	index int // 0 or 1: the lab's end
	block *memory.Block
	mr    verbs.MR
	qp    verbs.QP
	psn   uint32 // of its first packet
}

func (s *station) newPair(index int) *pair {
	p := &pair{s: s, index: index, psn: rand.Uint32N(1 << 24)}
	s.pairs = append(s.pairs, p)
	return p
}

// access is what a peer may do to a lab's memory.
const access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead

// The parts of a pair's memory, each of Options.Bytes.
const (
	partSource = iota // what is sent, written, and read by the peer
	partReceive
	partWritten // the peer WRITEs here
	partRead    // a READ lands here
	parts
)

func (p *pair) register() (err error) {
	if p.block, err = memory.Alloc(uint64(parts * p.s.o.Bytes)); err != nil {
		return err
	}
	p.mr, err = p.s.pd.RegMR(p.block.Addr(), uint64(p.block.Len()), access)
	return err
}

func (p *pair) memoryValues(v *Values) {
	v.add("addr", "%#x", p.mr.Addr())
	v.add("length", "%d", p.mr.Length())
	v.add("lkey", "%#x", p.mr.LKey())
	v.add("rkey", "%#x", p.mr.RKey())
	v.add("access", "%s", strings.ReplaceAll(p.mr.Access().String(), ", ", "|"))
}

// part is a piece of the pair's memory.
func (p *pair) part(which int) []byte {
	n := p.s.o.Bytes
	return p.block.Bytes()[which*n : (which+1)*n]
}

// partAddr is where a part of a region begins.
func partAddr(base uint64, which, bytes int) uint64 { return base + uint64(which*bytes) }

func (p *pair) closeQP() error {
	if p.qp == nil {
		return nil
	}
	return p.qp.Close()
}

func (p *pair) closeMemory() error {
	var err error
	if p.mr != nil {
		if err = p.mr.Close(); err != nil {
			return err // the device may still reach the memory: it stays mapped
		}
	}
	return p.block.Free()
}

// fill writes what an end sends in a step, and check tells whether it came: each
// end and each operation has bytes of its own, and no stretch of 251 repeats at a
// power of two.
func fill(b []byte, end int, op verbs.Opcode) {
	for i := range b {
		b[i] = patternAt(i, end, op)
	}
}

func check(b []byte, end int, op verbs.Opcode) error {
	for i, got := range b {
		if want := patternAt(i, end, op); got != want {
			return fmt.Errorf("wrong data: byte %d of %d of end %d's %s is %#02x, expected %#02x", i, len(b), end, op, got, want)
		}
	}
	return nil
}

func patternAt(i, end int, op verbs.Opcode) byte { return byte(1 + (i+83*end+31*int(op))%251) }
