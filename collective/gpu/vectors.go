package gpu

import (
	"context"
	"errors"

	"ringcli/collective"
	"ringcli/verbs/gpu"
)

// Vectors are an operation's buffers in the memory of this rank's device, and beside each the one of
// the host through which it is filled and looked at, and through which a staged call goes.
type Vectors struct {
	team       *Team
	comm       *collective.Comm
	memory     *gpu.Memory // of both sides
	send, recv *side       // the same one in place
	// sends and receives are symmetric, where the devices reach each other; else nil.
	sends, receives *Region
}

// side is a buffer of the host's and its like on the device. Both begin at the same element.
type side struct {
	host   *collective.Buffer
	addr   uint64 // of the device
	pinned bool
}

// apart is where in the allocation a side begins: as an allocation would.
const apart = 256

// Vectors makes buffers of the device's memory beside two of the host's, of comm, which may be one.
// All ranks call it, and it fails on all alike. They are not filled.
func (t *Team) Vectors(ctx context.Context, comm *collective.Comm, send, recv *collective.Buffer) (v *Vectors, err error) {
	v = &Vectors{team: t, comm: comm}
	err = v.alloc(send, recv)
	if _, err = share(ctx, t, "vectors on devices", "", err); err == nil && t.apart == "" {
		err = v.share(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, v.Drop())
	}
	return v, nil
}

// share makes the buffers symmetric.
func (v *Vectors) share(ctx context.Context) (err error) {
	if v.sends, err = v.team.Region(ctx, v.send.addr, v.send.host.Len()); err != nil {
		return err
	}
	v.receives = v.sends
	if v.send != v.recv {
		v.receives, err = v.team.Region(ctx, v.recv.addr, v.recv.host.Len())
	}
	return err
}

// alloc makes memory of the device like buffers of the host's, which it pins.
func (v *Vectors) alloc(send, recv *collective.Buffer) (err error) {
	n, second := send.Len(), (send.Len()+apart-1)/apart*apart
	if send != recv {
		n = second + max(recv.Len(), 1)
	}
	if v.memory, err = v.team.device.Alloc(n); err != nil {
		return err
	}
	v.send = &side{host: send, addr: v.memory.Addr()}
	if v.recv = v.send; send != recv {
		v.recv = &side{host: recv, addr: v.memory.Addr() + uint64(second)}
	}
	for _, s := range v.sides() {
		if s.host.Len() == 0 {
			continue
		}
		if err := v.team.device.Pin(s.host.Addr(), s.host.Len()); err != nil {
			return err
		}
		s.pinned = true
	}
	return nil
}

// ToDevice copies what the host's buffers hold to the device.
func (v *Vectors) ToDevice(ctx context.Context) error {
	for _, s := range v.sides() {
		if err := v.team.stream.ToDevice(s.addr, s.host.Addr(), s.host.Len()); err != nil {
			return err
		}
	}
	return v.wait(ctx)
}

// sides are those that there are.
func (v *Vectors) sides() []*side {
	if v.send == nil {
		return nil
	}
	if v.send == v.recv {
		return []*side{v.send}
	}
	return []*side{v.send, v.recv}
}

// wait is for the device's own work alone.
func (v *Vectors) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, v.team.ring.Timeout())
	defer cancel()
	return v.team.stream.Wait(ctx)
}

// Prepared is a call on vectors of a device's memory as it runs.
type Prepared struct {
	// Call is as it was planned, its addresses those of the host's buffers.
	Call collective.Call
	Path Path
	Why  string // not by IPC; "" if it is

	v     *Vectors
	asked collective.Call
}

// Prepare plans a call whose addresses lie in the host's buffers.
func (v *Vectors) Prepare(call collective.Call) (p Prepared, err error) {
	p.v, p.asked = v, call
	p.Call, p.Path, p.Why, err = v.team.Plan(v.comm, call)
	return p, err
}

// OnDevice is a call on the host's buffers with the addresses of the device's, for others than the
// team.
func (v *Vectors) OnDevice(call collective.Call) collective.Call {
	call.Send += v.send.addr - v.send.host.Addr()
	call.Recv += v.recv.addr - v.recv.host.Addr()
	return call
}

// Run runs the call on the device's buffers. All ranks call it.
func (p *Prepared) Run(ctx context.Context) error {
	v, t, call := p.v, p.v.team, &p.Call
	sendAt, recvAt := call.Send-v.send.host.Addr(), call.Recv-v.recv.host.Addr()
	if p.Path == IPC {
		return t.allReduce(ctx, &vectors{*call, v.sends, v.receives, sendAt, recvAt})
	}
	sends, receives := call.Buffers(t.size, t.rank)
	size := call.Type.Size()
	if err := t.stream.FromDevice(call.Send, v.send.addr+sendAt, sends.Len()*size); err != nil {
		return err
	}
	if err := v.wait(ctx); err != nil {
		return err
	}
	if err := v.comm.Run(ctx, p.asked); err != nil {
		return err
	}
	if err := t.stream.ToDevice(v.recv.addr+recvAt, call.Recv, receives.Len()*size); err != nil {
		return err
	}
	return v.wait(ctx)
}

// FromDevice has the host's receive buffer hold what the device's does, and nothing else.
func (p *Prepared) FromDevice(ctx context.Context) error {
	v := p.v
	clear(v.recv.host.Bytes())
	if err := v.team.stream.FromDevice(v.recv.host.Addr(), v.recv.addr, v.recv.host.Len()); err != nil {
		return err
	}
	return v.wait(ctx)
}

// Free gives the device's memory back, once no rank reads it. All ranks call it.
func (v *Vectors) Free(ctx context.Context) error {
	var errs []error
	if v.sends != nil {
		errs = append(errs, v.sends.Close(ctx))
	}
	if v.receives != nil && v.receives != v.sends {
		errs = append(errs, v.receives.Close(ctx))
	}
	return errors.Join(append(errs, v.Drop())...)
}

// Drop is Free for a rank that has failed, and waits for nobody.
func (v *Vectors) Drop() error {
	var errs []error
	for _, r := range []*Region{v.sends, v.receives} {
		if r != nil {
			errs = append(errs, r.release())
		}
	}
	for _, s := range v.sides() {
		if s.pinned {
			s.pinned = false
			errs = append(errs, v.team.device.Unpin(s.host.Addr()))
		}
	}
	return errors.Join(append(errs, v.memory.Free())...)
}
