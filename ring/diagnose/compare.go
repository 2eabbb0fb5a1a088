// Package diagnose compares the two ends of an edge and explains what went wrong on it.
// It is pure: what it says follows from the two ends and the error that it is given.
package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"ringcli/verbs"
)

// Severity says how bad a finding is.
type Severity string

// The severities. A healthy ring has notes at most, in any state.
const (
	Fault   Severity = "fault"   // what is sent does not arrive, or fails
	Warning Severity = "warning" // some operations fail, or will
	Note    Severity = "note"    // good to know
)

// Finding is one thing that a comparison or a diagnosis found.
type Finding struct {
	Severity  Severity `json:"severity"`
	Attribute string   `json:"attribute"` // as an End names it in JSON: of the own end, where the ends name it differently
	Rank      int      `json:"rank"`      // where it is to be mended, as far as that can be told
	Own       string   `json:"own"`       // value at the own end
	Peer      string   `json:"peer"`      // value at the peer's
	Text      string   `json:"text"`      // cause and consequence
	Fix       string   `json:"fix"`       // what to do

	// Tells is the error that Text repeats, if it does.
	Tells error `json:"-"`

	right verbs.Access // that is missing
}

// String is one line.
func (f Finding) String() string {
	if f.Fix == "" {
		return f.Text
	}
	return fmt.Sprintf("%s: %s", f.Text, f.Fix)
}

func finding(severity Severity, attribute string, rank int, own, peer, text, fix string) Finding {
	return Finding{Severity: severity, Attribute: attribute, Rank: rank, Own: own, Peer: peer, Text: text, Fix: fix}
}

// Compare compares both ends of an edge: what must be equal, and what of one end
// must be what the other says. The worst comes first. It needs nothing but the
// two ends; PSNs are compared as they are now only if neither end is in the
// middle of something, so the ends should be of one moment, as Ends gives them.
func Compare(own, peer *End) []Finding {
	c := &comparison{own: own, peer: peer}
	c.states()
	c.addresses()
	c.mtu()
	for _, f := range []direction{{own, peer, true}, {peer, own, false}} {
		c.psn(f)
		c.rights(f)
		c.receives(f)
		c.depths(f)
		c.patience(f)
	}
	bySeverity(c.found)
	return c.found
}

// bySeverity sorts faults first, and leaves the order alone otherwise.
func bySeverity(found []Finding) {
	weight := map[Severity]int{Fault: 0, Warning: 1, Note: 2}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(weight[a.Severity], weight[b.Severity]) })
}

type comparison struct {
	own, peer *End
	found     []Finding
}

func (c *comparison) add(f Finding) { c.found = append(c.found, f) }

// direction is one of the two of an edge.
type direction struct {
	from, to *End
	outward  bool // from is the own end
}

// values puts the values of both ends of a direction to their places in a finding.
func (f direction) values(from, to any) (own, peer string) {
	own, peer = fmt.Sprint(from), fmt.Sprint(to)
	if !f.outward {
		own, peer = peer, own
	}
	return own, peer
}

// attribute is the one of the own end.
func (f direction) attribute(from, to string) string {
	if f.outward {
		return from
	}
	return to
}

func qpn(n uint32) string { return fmt.Sprintf("0x%06x", n) }

const again = "reset on both ranks, then init, exchange, rtr and rts again"

// states says which queue pair drops what it is sent, and which has failed.
func (c *comparison) states() {
	for _, f := range []direction{{c.peer, c.own, false}, {c.own, c.peer, true}} {
		e, other := f.to, f.from
		ownState, peerState := f.values(other.QPState, e.QPState)
		g := Finding{Attribute: "qp_state", Rank: e.Rank, Own: ownState, Peer: peerState, Fix: again}
		switch {
		case e.is(verbs.StateErr, verbs.StateSQE):
			g.Severity = Fault
			g.Text = fmt.Sprintf("the queue pair of %s to rank %d is %s: it drops what arrives and flushes what is posted; %s", e.Who(), other.Rank, e.QPState, e.downfall())
		case e.is(verbs.StateSQD):
			g.Severity, g.Fix = Warning, "take it to RTS"
			g.Text = fmt.Sprintf("the queue pair of %s to rank %d is SQD: it begins nothing that is posted", e.Who(), other.Rank)
		case e.is(verbs.StateReset, verbs.StateInit) && other.armed():
			g.Severity = Warning
			g.Text = fmt.Sprintf("the queue pair of %s to rank %d is still %s and that of %s is %s: what arrives in %s is dropped silently, and its sender's retries end with RETRY_EXC (12)",
				e.Who(), other.Rank, e.QPState, other.Who(), other.QPState, e.QPState)
			g.Fix = fmt.Sprintf("take rank %d to RTR (rtr), then send again", e.Rank)
			if e.is(verbs.StateReset) || other.is(verbs.StateErr) {
				g.Fix = again
			}
		default:
			continue
		}
		c.add(g)
	}
}

// downfall says what took a queue pair to ERR.
func (e *End) downfall() string {
	switch {
	case e.Failure != nil && !e.Failure.HasStatus(verbs.FlushError):
		return "its first failure was " + e.FirstError
	case e.Killed:
		return "it was taken there by Modify, no request of its own failed"
	default:
		return "no request of its own failed: it refused one of its peer's, or was taken there by force"
	}
}

// addresses compares what each end calls the other with what that one is.
func (c *comparison) addresses() {
	reach := Reach(c.own.address(), c.peer.address())
	if c.own.Capabilities.HostLocal != c.peer.Capabilities.HostLocal {
		c.found = append(c.found, reach...) // nothing else is worth comparing
		return
	}
	for _, f := range []direction{{c.own, c.peer, true}, {c.peer, c.own, false}} {
		from, to := f.from, f.to
		if from.PortState.known && !from.PortState.Is(verbs.PortActive) {
			own, peer := f.values(from.PortState, to.PortState)
			c.add(finding(Fault, "port_state", from.Rank, own, peer,
				fmt.Sprintf("port %d of %s at %s is %s: nothing comes or goes", from.Port, from.Device, from.Who(), from.PortState),
				"bring the link up (ip link show "+from.NetDev+"); on InfiniBand INIT means that there is no subnet manager (sminfo)"))
		}
		if !from.Addressed() {
			continue
		}
		if from.DestQPN != to.QPN {
			own, peer := f.values(qpn(from.DestQPN), qpn(to.QPN))
			c.add(finding(Fault, f.attribute("dest_qpn", "qpn"), from.Rank, own, peer,
				fmt.Sprintf("%s sends to queue pair %s, and that of %s is %s: requests and ACKs go astray, which ends with RETRY_EXC (12) at whoever sends",
					from.Who(), qpn(from.DestQPN), to.Who(), qpn(to.QPN)), again+", without --dest-qpn"))
		}
		if from.LinkLayer.Is(verbs.LinkInfiniBand) {
			c.fabric(f)
		}
		if from.DGID != to.GID && !from.byLID() {
			own, peer := f.values(from.DGID, to.GID)
			c.add(finding(Fault, f.attribute("dgid", "gid"), from.Rank, own, peer,
				fmt.Sprintf("%s sends to GID %s, and that of %s is %s: packets go elsewhere, and what comes from %s is taken for a stranger's: RETRY_EXC (12)",
					from.Who(), from.DGID, to.Who(), to.GID, to.GID), again+", without --dgid, with the --gid-index that the other rank was told of"))
		}
	}
	c.found = append(c.found, reach...)
	if c.own.Addressed() && c.peer.Addressed() && c.own.TrafficClass != c.peer.TrafficClass {
		c.add(finding(Warning, "traffic_class", c.own.Rank, fmt.Sprint(c.own.TrafficClass), fmt.Sprint(c.peer.TrafficClass),
			fmt.Sprintf("the traffic classes differ: %s has %d and %s has %d: switches treat the two directions differently (DSCP, ECN)",
				c.own.Who(), c.own.TrafficClass, c.peer.Who(), c.peer.TrafficClass), "give all ranks the same --traffic-class"))
	}
}

// fabric compares LIDs, which a subnet manager gives.
func (c *comparison) fabric(f direction) {
	from, to := f.from, f.to
	if from.DLID == to.LID {
		return
	}
	own, peer := f.values(from.DLID, to.LID)
	c.add(finding(Fault, f.attribute("dlid", "lid"), from.Rank, own, peer,
		fmt.Sprintf("%s sends to LID %d, and that of %s is %d: did the subnet manager give it another since? RETRY_EXC (12)", from.Who(), from.DLID, to.Who(), to.LID), again))
}

// mtu compares the path MTUs with each other and with the links.
func (c *comparison) mtu() {
	own, peer := c.own, c.peer
	if own.Addressed() && peer.Addressed() && own.PathMTU != peer.PathMTU {
		rank := own.Rank
		if proper := min(own.MTU, peer.MTU); own.PathMTU == proper {
			rank = peer.Rank
		}
		c.add(finding(Fault, "path_mtu", rank, fmt.Sprint(own.PathMTU), fmt.Sprint(peer.PathMTU),
			fmt.Sprintf("the path MTUs differ: %s has %d and %s has %d: messages of up to %d bytes pass, longer ones are refused for the length of their packets: REM_INV_REQ (9)",
				own.Who(), own.PathMTU, peer.Who(), peer.PathMTU, min(own.PathMTU, peer.PathMTU)),
			again+", with one --mtu"))
	}
	for _, f := range []direction{{own, peer, true}, {peer, own, false}} {
		link := f.from
		if f.to.ActiveMTU != 0 && f.to.ActiveMTU < link.ActiveMTU {
			link = f.to
		}
		if link.ActiveMTU != 0 && f.from.PathMTU > link.ActiveMTU {
			o, p := f.values(f.from.PathMTU, link.ActiveMTU)
			c.add(finding(Fault, "path_mtu", f.from.Rank, o, p,
				fmt.Sprintf("the path MTU of %s is %d, and the link of %s (%s) carries %d: short messages arrive, longer ones are dropped: RETRY_EXC (12)",
					f.from.Who(), f.from.PathMTU, link.Who(), link.NetDev, link.ActiveMTU),
				fmt.Sprintf("use --mtu %d, or jumbo frames on %s", link.ActiveMTU, link.NetDev)))
		}
	}
}

// psnDiff is how far a is ahead of b, of 24-bit numbers.
func psnDiff(a, b uint32) int { return int(int32((a-b)<<8) >> 8) }

func psnText(name string, now, first uint32) string {
	if now == first {
		return fmt.Sprintf("%s %d", name, now)
	}
	return fmt.Sprintf("%s %d (began with %d)", name, now, first)
}

// psn compares what one end sends with what the other expects: what they began
// with, which holds at any time, and if that agrees and nothing is under way, what
// they have now.
func (c *comparison) psn(f direction) {
	from, to := f.from, f.to
	if from.SQPSNFirst == nil || to.RQPSNFirst == nil {
		return
	}
	g := Finding{Severity: Fault, Attribute: f.attribute("sq_psn", "rq_psn"), Rank: from.Rank}
	g.Own, g.Peer = f.values(psnText("sq_psn", from.SQPSN, *from.SQPSNFirst), psnText("rq_psn", to.RQPSN, *to.RQPSNFirst))
	now := psnDiff(from.SQPSN, to.RQPSN)
	quiet := from.SendsPosted == 0 && from.Busy == "" && to.Busy == ""
	if first := psnDiff(*from.SQPSNFirst, *to.RQPSNFirst); first != 0 {
		if *to.RQPSNFirst != from.FirstPSN {
			g.Rank = to.Rank
		}
		g.Fix = again + ", without --psn"
		g.Text = fmt.Sprintf("%s sends from PSN %d on and %s expects %d first: ", from.Who(), *from.SQPSNFirst, to.Who(), *to.RQPSNFirst)
		switch {
		case first > 0:
			g.Text += fmt.Sprintf("ahead by %d: rank %d takes packets for lost that were never sent and answers with sequence NAKs, until RETRY_EXC (12) ends it at rank %d",
				first, to.Rank, from.Rank)
		case quiet && now == 0 && !from.is(verbs.StateErr):
			g.Severity = Warning
			g.Text += fmt.Sprintf("behind by %d: rank %d took the first packets for duplicates and discarded them, though rank %d saw success; they are in step by now",
				-first, to.Rank, from.Rank)
		default:
			// The ACK of a duplicate is for the last PSN that was expected; a
			// requester ignores it until it has sent that one.
			g.Text += fmt.Sprintf("behind by %d: rank %d takes the first %d packets for duplicates and discards them, but acknowledges PSN %d: rank %d sees success once it has sent that one (RETRY_EXC (12) if it never does), and rank %d waits in vain",
				-first, to.Rank, -first, (*to.RQPSNFirst-1)&(1<<24-1), from.Rank, to.Rank)
		}
		c.add(g)
		return
	}
	if now == 0 || !from.is(verbs.StateRTS, verbs.StateSQD) || !to.is(verbs.StateRTR, verbs.StateRTS, verbs.StateSQD) {
		return
	}
	if !quiet {
		if now > 0 && from.SendsPosted > 0 {
			g.Severity, g.Fix = Note, ""
			g.Text = fmt.Sprintf("%s is %d packets ahead of what %s has taken: they are under way or wait to be sent again", from.Who(), now, to.Who())
			c.add(g)
		}
		return
	}
	g.Fix = again
	g.Text = fmt.Sprintf("%s sends PSN %d next and %s expects %d, with nothing under way: one of the queue pairs began anew without the other", from.Who(), from.SQPSN, to.Who(), to.RQPSN)
	if now > 0 {
		g.Text += fmt.Sprintf("; ahead by %d: sequence NAKs until RETRY_EXC (12)", now)
	} else {
		g.Text += fmt.Sprintf("; behind by %d: taken for duplicates, acknowledged and discarded", -now)
	}
	c.add(g)
}

// rights says what a queue pair does not let its peer do.
func (c *comparison) rights(f direction) {
	if f.to.is(verbs.StateReset) {
		return
	}
	for _, right := range []struct {
		flag     verbs.Access
		severity Severity
		text     string
	}{
		{verbs.AccessRemoteWrite, Fault, "every WRITE and WRITE_IMM to it is refused with REM_INV_REQ (9); collectives need them"},
		{verbs.AccessRemoteRead, Warning, "every READ from it is refused with REM_INV_REQ (9); --protocol rendezvous-read needs them"},
		{verbs.AccessRemoteAtomic, Note, "every atomic on it is refused with REM_INV_REQ (9); collectives need none"},
	} {
		if f.to.Access&right.flag != 0 {
			continue
		}
		own, peer := f.values(f.from.Access, f.to.Access)
		c.add(Finding{Severity: right.severity, Attribute: "access", Rank: f.to.Rank, Own: own, Peer: peer, right: right.flag,
			Text: fmt.Sprintf("the queue pair of %s gives rank %d no %s: %s", f.to.Who(), f.from.Rank, right.flag, right.text),
			Fix:  again + ", without --access at init"})
	}
}

// receives says who has nothing to receive into.
func (c *comparison) receives(f direction) {
	from, to := f.from, f.to
	if to.ReceivesPosted > 0 || !from.armed() || !to.is(verbs.StateRTR, verbs.StateRTS, verbs.StateSQD) {
		return
	}
	g := Finding{Severity: Warning, Attribute: f.attribute("sends_posted", "receives_posted"), Rank: to.Rank, Fix: fmt.Sprintf("post receives on rank %d before rank %d sends", to.Rank, from.Rank)}
	switch {
	case from.SendsPosted > 0:
		g.Severity = Fault
	case to.Busy != "":
		g.Severity = Note // it is about to
	}
	g.Own, g.Peer = f.values(fmt.Sprintf("sends_posted %d, rnr_retry %d", from.SendsPosted, from.RNRRetry), "receives_posted 0")
	wait := fmt.Sprintf("end with RNR_RETRY_EXC (13) after %d retries", from.RNRRetry)
	if from.RNRRetry == 7 {
		wait = "wait for ever (rnr_retry 7)"
	}
	g.Text = fmt.Sprintf("%s has no receive posted, and each SEND and WRITE_IMM takes one: those of rank %d %s", to.Who(), from.Rank, wait)
	c.add(g)
}

// depths compares the READs and atomics in flight.
func (c *comparison) depths(f direction) {
	from, to := f.from, f.to
	if !from.armed() || !to.Addressed() {
		return
	}
	g := Finding{Severity: Warning, Attribute: f.attribute("max_rd_atomic", "max_dest_rd_atomic"), Fix: again}
	g.Own, g.Peer = f.values(fmt.Sprintf("max_rd_atomic %d", from.MaxRDAtomic), fmt.Sprintf("max_dest_rd_atomic %d", to.MaxDestRDAtomic))
	switch {
	case from.MaxRDAtomic == 0:
		g.Rank = from.Rank
		g.Text = fmt.Sprintf("%s may have no READ in flight (max_rd_atomic 0): a READ fails at once with LOC_QP_OP (2)", from.Who())
	case from.MaxRDAtomic > to.MaxDestRDAtomic:
		g.Rank = to.Rank
		g.Text = fmt.Sprintf("%s may have %d READs in flight and %s answers %d at once: what is beyond is refused with REM_INV_REQ (9)",
			from.Who(), from.MaxRDAtomic, to.Who(), to.MaxDestRDAtomic)
	default:
		return
	}
	c.add(g)
}

// patience is about retries, which are the sender's own matter.
func (c *comparison) patience(f direction) {
	e := f.from
	if !e.armed() {
		return
	}
	add := func(s Severity, attribute string, value uint8, text, fix string) {
		g := Finding{Severity: s, Attribute: attribute, Rank: e.Rank, Text: e.Who() + text, Fix: fix}
		g.Own, g.Peer = f.values(value, "")
		c.add(g)
	}
	if e.QPTimeout == 0 {
		add(Warning, "qp_timeout", 0, " waits for ever for an ACK (qp_timeout 0): a lost packet is never noticed", "use a --qp-timeout above 0")
	}
	switch e.RetryCnt {
	case 0:
		add(Warning, "retry_cnt", 0, " does not retry (retry_cnt 0): one lost packet ends the connection", "use a --retry-cnt above 0")
	case 7:
		add(Note, "retry_cnt", 7, " has retry_cnt 7, which never decrements on rdma_rxe: a peer that is gone makes it hang there", "use at most 6 on rxe")
	}
}
