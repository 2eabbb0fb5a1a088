package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// C is lab C: a queue pair on each of two hosts. Rank 0 listens on its entry of the
// list, rank 1 connects there; they swap a ConnInfo, and from then on tell each
// other of every step, so that both fail where one does. With a GPU it is lab D.
func C(ctx context.Context, rank int, list string, tcpPort int, o Options) (err error) {
	c := &labC{process: newProcess(&o), rank: rank}
	if err := c.locate(ctx, list, tcpPort); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	defer func() {
		if c.control != nil {
			c.control.Close()
		}
	}()
	return o.walk(ctx, c.steps())
}

type labC struct {
	*process
	rank      int
	own, peer netip.AddrPort // of TCP
	pair      *pair
}

func (c *labC) locate(ctx context.Context, list string, tcpPort int) error {
	nodes, err := hosts.Parse(list, tcpPort)
	if err != nil {
		return err
	}
	if len(nodes) != 2 {
		return usage.Errorf("lab c is between two hosts: the list has %d: expected --list HOST0,HOST1", len(nodes))
	}
	if c.rank < 0 || c.rank > 1 {
		return usage.Errorf("index %d: expected 0 or 1, this host's place in the list", c.rank)
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	found, err := hosts.Resolve(ctx, nodes, func([][]netip.AddrPort) {})
	if err != nil {
		return err
	}
	addrs := hosts.First(found, nodes)
	c.own, c.peer = addrs[c.rank], addrs[1-c.rank]
	c.Local, err = localAddress(nodes[c.rank], c.own.Addr(), c.peer)
	c.own = netip.AddrPortFrom(c.Local, c.own.Port())
	return err
}

// localAddress is the address to speak from: an entry of the list that is an
// address of this machine, else the one by which it reaches the peer; what the own
// name resolves to may be 127.0.1.1 (Debian's /etc/hosts).
func localAddress(own hosts.Node, addr netip.Addr, peer netip.AddrPort) (netip.Addr, error) {
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
	return c.o.explained("c", []Step{
		{Name: "open device, PD, CQ", Call: "ibv_open_device, ibv_alloc_pd, ibv_create_cq", take: c.openAll},
		{Name: "create QP, to INIT", Call: "ibv_create_qp, ibv_modify_qp", take: c.each(func(p *pair, v *Values) error {
			if err := p.create(new(Values)); err != nil { // which lab A shows
				return err
			}
			return p.toInit(v)
		})},
		{Name: "register a buffer", Call: "ibv_reg_mr", take: c.each((*pair).register)},
		{Name: "fill conn_info", Call: "ibv_query_gid", take: c.each(func(p *pair, v *Values) error {
			err := p.fillInfo()
			p.own.values(v)
			return err
		})},
		{Name: "exchange conn_info", Call: "TCP: send, recv", take: c.exchange},
		{Name: "INIT to RTR", Call: "ibv_modify_qp", take: func(ctx context.Context, s *Step) error {
			err := c.each((*pair).toRTR)(ctx, s)
			c.facing = s.Peer
			return err
		}},
		{Name: "RTR to RTS", Call: "ibv_modify_qp", take: c.each((*pair).toRTS)},
		{Name: "post RECV, then SEND", Call: "ibv_post_recv, ibv_post_send", take: c.postBoth},
		{Name: "poll the CQ", Call: "ibv_poll_cq", take: func(ctx context.Context, s *Step) error {
			return c.together(ctx, s, s.Name, func() error {
				done, err := c.waitAll(ctx, c.pair.wrID(verbs.WCSend), c.pair.wrID(verbs.WCRecv))
				completionValues(&s.Values, done...)
				return c.explain(c.pair, err, sending)
			})
		}},
		{Name: "verify the SEND", Call: "(memcmp)", take: func(ctx context.Context, s *Step) error {
			return c.each(func(p *pair, v *Values) error { return p.verify(ctx, partReceive, verbs.OpSend, v) })(ctx, s)
		}},
		{Name: "WRITE", Call: callWrite, take: c.bothWays(writing)},
		{Name: "READ", Call: callRead, take: c.bothWays(reading)},
	})
}

func (c *labC) openAll(_ context.Context, s *Step) error {
	if err := c.openDevice(c.peer.Addr(), &s.Values); err != nil {
		return err
	}
	if err := c.AllocPD(); err != nil {
		return err
	}
	if err := c.CreateCQ(cqDepth); err != nil {
		return err
	}
	s.Values.add("cqe", cqDepth)
	c.pair = c.addPair(c.rank, c.o.Wrong)
	return nil
}

// exchange swaps the ConnInfos. Rank 1 speaks first, so that rank 0 knows who calls.
func (c *labC) exchange(ctx context.Context, s *Step) (err error) {
	if c.control, err = meet(ctx, c.rank, c.own, c.peer, c.o); err != nil {
		return err
	}
	if err := c.control.Send(kindReport, report{Phase: s.Name, Info: &c.pair.own}); err != nil {
		return err
	}
	r, err := c.control.receive(ctx, s.Name)
	if err != nil {
		return err
	}
	if r.Info == nil {
		return fmt.Errorf("rank %d sent no conn_info", 1-c.rank)
	}
	c.pair.peer = *r.Info
	local, remote := c.control.Addrs()
	s.Values.add("rank", c.rank, "tcp", local)
	s.Peer.add("tcp", remote)
	c.pair.peer.values(&s.Peer)
	return c.pair.own.agree(c.pair.peer)
}

// postBoth posts the receive, waits until the other end has done so, and sends.
func (c *labC) postBoth(ctx context.Context, s *Step) error {
	if err := c.pair.source(ctx, verbs.OpSend); err != nil {
		return err
	}
	err := c.together(ctx, s, "receive posted", func() error {
		s.Values.add("recv_wr_id", hex(c.pair.wrID(verbs.WCRecv)), "recv_addr", hex(partAddr(c.pair.own.RAddr, partReceive, c.o.Bytes)))
		return c.pair.postRecv()
	})
	if err != nil {
		return err
	}
	return c.together(ctx, s, s.Name, func() error {
		s.Values.add("send_wr_id", hex(c.pair.wrID(verbs.WCSend)), "send_addr", hex(partAddr(c.pair.own.RAddr, partSource, c.o.Bytes)))
		s.Values.add("length", c.o.Bytes, "lkey", hex(c.pair.MR.LKey()))
		return c.pair.post(sending, &s.Values)
	})
}

// bothWays lets one rank after the other reach into the other's memory.
func (c *labC) bothWays(r request) func(context.Context, *Step) error {
	return func(ctx context.Context, s *Step) error {
		if err := c.oneSided(ctx, s, r, 0); err != nil {
			return err
		}
		return c.oneSided(ctx, s, r, 1)
	}
}
