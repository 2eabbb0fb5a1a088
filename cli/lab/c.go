package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// C is lab C: a queue pair on each of two hosts. Rank 0 listens on its entry of the
// list, rank 1 connects there; they swap a ConnInfo, and from then on tell each
// other of every step, so that both fail where one does.
func C(ctx context.Context, rank int, list []string, tcpPort int, o Options) (err error) {
	c := &labC{process: newProcess(&o), rank: rank}
	if err := c.locate(ctx, list, tcpPort); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	defer func() {
		if c.control != nil {
			err = errors.Join(err, c.control.Close())
		}
	}()
	return o.walk(ctx, c.steps())
}

type labC struct {
	*process
	rank      int
	own, peer netip.AddrPort // of TCP
	pair      *pair
	control   *control
	info      ConnInfo // this end's
	theirs    ConnInfo
	// facing is what the peer's queue pair said in RTR: whom it expects.
	facing Values
}

// locate finds out who and where both ends are.
func (c *labC) locate(ctx context.Context, list []string, tcpPort int) error {
	var entries string
	for _, e := range list {
		entries += e + ","
	}
	nodes, err := bootstrap.ParseList(entries, tcpPort)
	if err != nil {
		return err
	}
	if len(nodes) != 2 {
		return usage.Errorf("lab c is between two hosts: the list has %d: expected --list HOST0,HOST1", len(nodes))
	}
	if c.rank < 0 || c.rank > 1 {
		return usage.Errorf("index %d: expected 0 or 1, this host's place in the list", c.rank)
	}
	addrs, err := bootstrap.Resolve(ctx, nodes)
	if err != nil {
		return err
	}
	c.own, c.peer = addrs[c.rank], addrs[1-c.rank]
	c.Local, err = localAddress(nodes[c.rank], c.own.Addr(), c.peer)
	c.own = netip.AddrPortFrom(c.Local, c.own.Port())
	return err
}

// localAddress is the address to speak from: an entry of the list that is an
// address of this machine, else the one by which it reaches the peer; what the own
// name resolves to may be 127.0.1.1 (Debian's /etc/hosts).
func localAddress(own bootstrap.Node, addr netip.Addr, peer netip.AddrPort) (netip.Addr, error) {
	if _, err := netip.ParseAddr(own.Host); err == nil {
		if _, err := route.NetDev(addr); err == nil {
			return addr, nil
		}
	}
	local, err := route.Source(peer)
	if err != nil {
		return addr, fmt.Errorf("no route to %s: %w", peer.Addr(), err)
	}
	return local, nil
}

// steps are those of the document's checklist, which a SEND, a WRITE and a READ
// follow.
func (c *labC) steps() []Step {
	var steps []Step
	add := func(name, call string, take func(context.Context, *Step) error) {
		steps = append(steps, Step{Name: name, Call: call, Explain: Explain("c: " + name), take: take})
	}
	in := func(do func() error, state verbs.QPState) func(context.Context, *Step) error {
		return func(ctx context.Context, s *Step) error {
			return c.together(ctx, s, s.Name, func() error {
				if err := do(); err != nil {
					return err
				}
				return c.pair.stateValues(&s.Values, state)
			})
		}
	}
	add("open device, PD, CQ", "ibv_open_device, ibv_alloc_pd, ibv_create_cq", c.openAll)
	add("create QP, to INIT", "ibv_create_qp, ibv_modify_qp", func(_ context.Context, s *Step) error {
		if err := c.pair.create(); err != nil {
			return err
		}
		if err := c.pair.toInit(); err != nil {
			return err
		}
		return c.pair.stateValues(&s.Values, verbs.StateInit)
	})
	add("register a buffer", "ibv_reg_mr", func(_ context.Context, s *Step) error {
		if err := c.pair.register(); err != nil {
			return err
		}
		c.pair.memoryValues(&s.Values)
		return nil
	})
	add("fill conn_info", "ibv_query_gid", func(_ context.Context, s *Step) (err error) {
		c.info, err = c.pair.info()
		c.info.values(&s.Values)
		return err
	})
	add("exchange conn_info", "TCP: send, recv", c.exchange)
	toRTR := in(func() error { return c.pair.toRTR(c.theirs, c.o.Wrong) }, verbs.StateRTR)
	add("INIT to RTR", "ibv_modify_qp", func(ctx context.Context, s *Step) error {
		err := toRTR(ctx, s)
		c.facing = s.Peer
		return err
	})
	add("RTR to RTS", "ibv_modify_qp", in(func() error { return c.pair.ToRTS() }, verbs.StateRTS))
	add("post RECV, then SEND", "ibv_post_recv, ibv_post_send", c.postBoth)
	add("poll the CQ", "ibv_poll_cq", func(ctx context.Context, s *Step) error {
		return c.together(ctx, s, s.Name, func() error {
			done, err := c.waitAll(ctx, c.control.gone, c.pair.wrID(verbs.WCSend), c.pair.wrID(verbs.WCRecv))
			completionValues(&s.Values, done...)
			return c.explain(err, sending)
		})
	})
	add("verify the SEND", "(memcmp)", func(ctx context.Context, s *Step) error {
		return c.together(ctx, s, s.Name, func() error {
			return c.verify(partReceive, verbs.OpSend, &s.Values)
		})
	})
	add("WRITE", "ibv_post_send (IBV_WR_RDMA_WRITE), ibv_poll_cq", func(ctx context.Context, s *Step) error { return c.oneSided(ctx, s, writing) })
	add("READ", "ibv_post_send (IBV_WR_RDMA_READ), ibv_poll_cq", func(ctx context.Context, s *Step) error { return c.oneSided(ctx, s, reading) })
	return steps
}

func (c *labC) openAll(_ context.Context, s *Step) error {
	if err := c.Open(c.peer.Addr()); err != nil {
		return err
	}
	c.deviceValues(&s.Values)
	if err := c.AllocPD(); err != nil {
		return err
	}
	if err := c.CreateCQ(cqDepth); err != nil {
		return err
	}
	s.Values.add("cqe", "%d", cqDepth)
	c.pair = c.newPair(c.rank)
	return nil
}

// exchange swaps the ConnInfos. Rank 1 speaks first, so that rank 0 knows who calls.
func (c *labC) exchange(ctx context.Context, s *Step) (err error) {
	if c.control, err = meet(ctx, c.rank, c.own, c.peer, c.o.Timeout); err != nil {
		return err
	}
	if err := c.control.send(report{Phase: s.Name, Info: &c.info}); err != nil {
		return err
	}
	r, err := c.control.receive(ctx, s.Name)
	if err != nil {
		return err
	}
	if r.Info == nil {
		return fmt.Errorf("rank %d sent no conn_info", 1-c.rank)
	}
	c.theirs = *r.Info
	s.Values.add("rank", "%d", c.rank)
	s.Values.add("tcp", "%s", c.control.conn.LocalAddr())
	s.Peer.add("tcp", "%s", c.control.conn.RemoteAddr())
	c.theirs.values(&s.Peer)
	return c.info.agree(c.theirs)
}

// together does a part of a step that both ends do, and tells the other how it went.
// It fails where either fails.
func (c *labC) together(ctx context.Context, s *Step, phase string, do func() error) error {
	err := do()
	mine := report{Phase: phase, Values: s.Values}
	if err != nil {
		mine.Error, mine.Gone = err.Error(), errors.Is(err, errPeerGone) || ctx.Err() != nil
		mine.Status, _ = failedStatus(err)
	}
	if sent := c.control.send(mine); sent != nil {
		return errors.Join(err, sent)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	theirs, received := c.control.receive(ctx, phase)
	s.Peer = theirs.Values
	switch {
	case err != nil && !mine.Gone:
		return err // what the other end says follows from it
	case received != nil:
		return received
	case theirs.Error != "":
		return &Diagnosis{Err: &PeerError{Rank: 1 - c.rank, Text: theirs.Error}, Meaning: meaning(theirs.Status)}
	}
	return err
}

// PeerError is what has failed at the other end.
type PeerError struct {
	Rank int
	Text string
}

func (e *PeerError) Error() string { return fmt.Sprintf("at rank %d: %s", e.Rank, e.Text) }

// postBoth posts the receive, waits until the other end has done so, and sends.
func (c *labC) postBoth(ctx context.Context, s *Step) error {
	fill(c.pair.part(partSource), c.rank, verbs.OpSend)
	err := c.together(ctx, s, "receive posted", func() error {
		s.Values.add("recv_wr_id", "%#x", c.pair.wrID(verbs.WCRecv))
		s.Values.add("recv_addr", "%#x", partAddr(c.info.RAddr, partReceive, c.o.Bytes))
		return c.pair.postRecv()
	})
	if err != nil {
		return err
	}
	return c.together(ctx, s, s.Name, func() error {
		s.Values.add("send_wr_id", "%#x", c.pair.wrID(verbs.WCSend))
		s.Values.add("send_addr", "%#x", partAddr(c.info.RAddr, partSource, c.o.Bytes))
		s.Values.add("length", "%d", c.o.Bytes)
		s.Values.add("lkey", "%#x", c.pair.MR.LKey())
		return c.pair.post(sending, c.theirs, c.o.Wrong, &s.Values)
	})
}

// oneSided lets one rank after the other reach into the other's memory, and whoever
// got the bytes verify them.
func (c *labC) oneSided(ctx context.Context, s *Step, r request) error {
	fill(c.pair.part(partSource), c.rank, r.op)
	for rank := range 2 {
		active := rank == c.rank
		// The bytes to be read must be there before they are.
		if err := c.together(ctx, s, fmt.Sprintf("%s by rank %d: ready", s.Name, rank), func() error { return nil }); err != nil {
			return err
		}
		if err := c.together(ctx, s, fmt.Sprintf("%s by rank %d", s.Name, rank), func() error {
			if !active {
				return nil
			}
			if err := c.pair.post(r, c.theirs, c.o.Wrong, &s.Values); err != nil {
				return err
			}
			done, err := c.waitAll(ctx, c.control.gone, c.pair.wrID(r.done))
			completionValues(&s.Values, done...)
			return c.explain(err, r)
		}); err != nil {
			return c.stateAfter(err, s)
		}
		if err := c.together(ctx, s, fmt.Sprintf("%s by rank %d: verified", s.Name, rank), func() error {
			switch {
			case active && r.op == verbs.OpRead:
				return c.verify(partRead, r.op, &s.Values)
			case !active && r.op == verbs.OpWrite:
				return c.verify(partWritten, r.op, &s.Values)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// stateAfter adds what the queue pair says after a failure.
func (c *labC) stateAfter(err error, s *Step) error {
	if a, _, wrong := c.pair.QP.Query(); wrong == nil {
		s.Values.add("state", "%s", a.State)
	}
	return err
}

func (c *labC) verify(part int, op verbs.Opcode, v *Values) error {
	got := c.pair.part(part)
	if err := check(got, 1-c.rank, op); err != nil {
		return err
	}
	v.add("verified", "%d bytes of rank %d", len(got), 1-c.rank)
	return nil
}

// explain adds what the values of both ends have to do with a failure.
func (c *labC) explain(err error, r request) error {
	if err == nil {
		return nil
	}
	err = c.pair.diagnose(err, r, c.theirs, c.o.Wrong)
	var d *Diagnosis
	if !errors.As(err, &d) || r.op != verbs.OpSend {
		return err
	}
	if text := lostPackets(c.o.Wrong, c.theirs); text != "" {
		d.Causes = append(d.Causes, text)
	}
	for _, a := range []struct{ name, is string }{{"rq_psn", psnText(c.info.PSN)}, {"dest_qp_num", qpnText(c.info.QPN)}} {
		if its := c.facing.Get(a.name); its != a.is {
			d.Causes = append(d.Causes, fmt.Sprintf("rank %d's queue pair has %s %s, and this end's is %s", 1-c.rank, a.name, its, a.is))
		}
	}
	return err
}
