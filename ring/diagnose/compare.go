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

// Compare compares both ends of an edge: what must be equal, and what of one end
// must be what the other says. The worst comes first. It needs nothing but the
// two ends; PSNs are compared as they are now only if neither end is in the
// middle of something, so the ends should be of one moment, as Ends gives them.
func Compare(own, peer *End) []Finding {
	c := &comparison{own: own, peer: peer}
	c.states()
	c.addresses()
	c.mtu()
	for _, f := range directions(own, peer) {
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

func directions(own, peer *End) [2]direction {
	return [...]direction{{own, peer, true}, {peer, own, false}}
}

// mirrored are the attributes whose name depends on the direction: as the end that sends
// has it, and as the other.
var mirrored = map[string]string{
	"sq_psn": "rq_psn", "dest_qpn": "qpn", "dgid": "gid", "dlid": "lid", "dest_udp_port": "udp_port", "sends_posted": "receives_posted", "max_rd_atomic": "max_dest_rd_atomic",
}

// finding makes one of an attribute and its values as the two ends of a direction have
// them.
func (f direction) finding(severity Severity, attribute string, rank int, from, to any, text, fix string) Finding {
	if !f.outward {
		from, to, attribute = to, from, cmp.Or(mirrored[attribute], attribute)
	}
	return Finding{Severity: severity, Attribute: attribute, Rank: rank, Own: fmt.Sprint(from), Peer: fmt.Sprint(to), Text: text, Fix: fix}
}

const again = "reset on both ranks, then init, exchange, rtr and rts again"

// states says which queue pair drops what it is sent, and which has failed.
func (c *comparison) states() {
	both := directions(c.own, c.peer)
	for _, f := range slices.Backward(both[:]) {
		sender, e := f.from, f.to
		add := func(s Severity, text, fix string) {
			c.add(f.finding(s, "qp_state", e.Rank, sender.QPState, e.QPState, fmt.Sprintf("the queue pair of %s to rank %d is %s", e.Who(), sender.Rank, text), fix))
		}
		switch {
		case e.is(verbs.StateErr, verbs.StateSQE):
			add(Fault, fmt.Sprintf("%s: it drops what arrives and flushes what is posted; %s", e.QPState, e.downfall()), again)
		case e.is(verbs.StateSQD):
			add(Warning, "SQD: it begins nothing that is posted", "take it to RTS")
		case e.is(verbs.StateReset, verbs.StateInit) && sender.armed():
			fix := fmt.Sprintf("take rank %d to RTR (rtr), then send again", e.Rank)
			if e.is(verbs.StateReset) || sender.is(verbs.StateErr) {
				fix = again
			}
			add(Warning, fmt.Sprintf("still %s and that of %s is %s: what arrives in %s is dropped silently, and its sender's retries end with RETRY_EXC (12)",
				e.QPState, sender.Who(), sender.QPState, e.QPState), fix)
		}
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
	own, peer := c.own, c.peer
	reach := Reach(own, peer)
	if own.Capabilities.HostLocal != peer.Capabilities.HostLocal {
		c.found = append(c.found, reach...) // nothing else is worth comparing
		return
	}
	for _, f := range directions(own, peer) {
		from, to := f.from, f.to
		if from.PortState.known && !from.PortState.Is(verbs.PortActive) {
			c.add(f.finding(Fault, "port_state", from.Rank, from.PortState, to.PortState,
				fmt.Sprintf("port %d of %s at %s is %s: nothing comes or goes", from.Port, from.Device, from.Who(), from.PortState),
				"bring the link up (ip link show "+from.NetDev+"); on InfiniBand INIT means that there is no subnet manager (sminfo)"))
		}
		if !from.Addressed() {
			continue
		}
		if from.DestQPN != to.QPN {
			c.add(f.finding(Fault, "dest_qpn", from.Rank, verbs.Hex(from.DestQPN), verbs.Hex(to.QPN),
				fmt.Sprintf("%s sends to queue pair %s, and that of %s is %s: requests and ACKs go astray, which ends with RETRY_EXC (12) at whoever sends",
					from.Who(), verbs.Hex(from.DestQPN), to.Who(), verbs.Hex(to.QPN)), again+", without --dest-qpn"))
		}
		infiniBand := from.LinkLayer.Is(verbs.LinkInfiniBand)
		if infiniBand && from.DLID != to.LID {
			c.add(f.finding(Fault, "dlid", from.Rank, from.DLID, to.LID,
				fmt.Sprintf("%s sends to LID %d, and that of %s is %d: did the subnet manager give it another since? RETRY_EXC (12)",
					from.Who(), from.DLID, to.Who(), to.LID), again))
		}
		if byLID := infiniBand && from.DGID.IsZero(); from.DGID != to.GID && !byLID {
			c.add(f.finding(Fault, "dgid", from.Rank, from.DGID, to.GID,
				fmt.Sprintf("%s sends to GID %s, and that of %s is %s: packets go elsewhere, and what comes from %s is taken for a stranger's: RETRY_EXC (12)",
					from.Who(), from.DGID, to.Who(), to.GID, to.GID), again+", without --dgid, with the --gid-index that the other rank was told of"))
		}
	}
	c.found = append(c.found, reach...)
	if own.Addressed() && peer.Addressed() && own.TrafficClass != peer.TrafficClass {
		c.add(direction{own, peer, true}.finding(Warning, "traffic_class", own.Rank, own.TrafficClass, peer.TrafficClass,
			fmt.Sprintf("the traffic classes differ: %s has %d and %s has %d: switches treat the two directions differently (DSCP, ECN)",
				own.Who(), own.TrafficClass, peer.Who(), peer.TrafficClass), "give all ranks the same --traffic-class"))
	}
}

// mtu compares the path MTUs with each other and with the links.
func (c *comparison) mtu() {
	own, peer := c.own, c.peer
	if own.Addressed() && peer.Addressed() && own.PathMTU != peer.PathMTU {
		rank := own.Rank
		if proper := min(own.MTU, peer.MTU); own.PathMTU == proper {
			rank = peer.Rank
		}
		c.add(direction{own, peer, true}.finding(Fault, "path_mtu", rank, own.PathMTU, peer.PathMTU,
			fmt.Sprintf("the path MTUs differ: %s has %d and %s has %d: messages of up to %d bytes pass, longer ones are refused for the length of their packets: REM_INV_REQ (9)",
				own.Who(), own.PathMTU, peer.Who(), peer.PathMTU, min(own.PathMTU, peer.PathMTU)),
			again+", with one --mtu"))
	}
	for _, f := range directions(own, peer) {
		link := f.from
		if f.to.ActiveMTU != 0 && f.to.ActiveMTU < link.ActiveMTU {
			link = f.to
		}
		if link.ActiveMTU != 0 && f.from.PathMTU > link.ActiveMTU {
			c.add(f.finding(Fault, "path_mtu", f.from.Rank, f.from.PathMTU, link.ActiveMTU,
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
		return fmt.Sprintf("%s %s", name, verbs.Hex(now))
	}
	return fmt.Sprintf("%s %s (began with %s)", name, verbs.Hex(now), verbs.Hex(first))
}

// psn compares what one end sends with what the other expects: what they began
// with, which holds at any time, and if that agrees and nothing is under way, what
// they have now.
func (c *comparison) psn(f direction) {
	from, to := f.from, f.to
	if from.SQPSNFirst == nil || to.RQPSNFirst == nil {
		return
	}
	g := f.finding(Fault, "sq_psn", from.Rank, psnText("sq_psn", from.SQPSN, *from.SQPSNFirst), psnText("rq_psn", to.RQPSN, *to.RQPSNFirst), "", again)
	now := psnDiff(from.SQPSN, to.RQPSN)
	quiet := from.SendsPosted == 0 && from.Busy == "" && to.Busy == ""
	if first := psnDiff(*from.SQPSNFirst, *to.RQPSNFirst); first != 0 {
		if *to.RQPSNFirst != from.FirstPSN {
			g.Rank = to.Rank
		}
		g.Fix = again + ", without --psn"
		g.Text = fmt.Sprintf("%s sends from PSN %s on and %s expects %s first: ", from.Who(), verbs.Hex(*from.SQPSNFirst), to.Who(), verbs.Hex(*to.RQPSNFirst))
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
			g.Text += fmt.Sprintf("behind by %d: rank %d takes the first %d packets for duplicates and discards them, but acknowledges PSN %s: rank %d sees success once it has sent that one (RETRY_EXC (12) if it never does), and rank %d waits in vain",
				-first, to.Rank, -first, verbs.Hex((*to.RQPSNFirst-1)&(1<<24-1)), from.Rank, to.Rank)
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
	g.Text = fmt.Sprintf("%s sends PSN %s next and %s expects %s, with nothing under way: one of the queue pairs began anew without the other", from.Who(), verbs.Hex(from.SQPSN), to.Who(), verbs.Hex(to.RQPSN))
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
		g := f.finding(right.severity, "access", f.to.Rank, f.from.Access, f.to.Access,
			fmt.Sprintf("the queue pair of %s gives rank %d no %s: %s", f.to.Who(), f.from.Rank, right.flag, right.text), again+", without --access at init")
		g.right = right.flag
		c.add(g)
	}
}

// receives says who has nothing to receive into.
func (c *comparison) receives(f direction) {
	from, to := f.from, f.to
	if to.ReceivesPosted > 0 || !from.armed() || !to.is(verbs.StateRTR, verbs.StateRTS, verbs.StateSQD) {
		return
	}
	severity := Warning
	switch {
	case from.SendsPosted > 0:
		severity = Fault
	case to.Busy != "":
		severity = Note // it is about to
	}
	wait := fmt.Sprintf("end with RNR_RETRY_EXC (13) after %d retries", from.RNRRetry)
	if from.RNRRetry == 7 {
		wait = "wait for ever (rnr_retry 7)"
	}
	c.add(f.finding(severity, "sends_posted", to.Rank, fmt.Sprintf("sends_posted %d, rnr_retry %d", from.SendsPosted, from.RNRRetry), "receives_posted 0",
		fmt.Sprintf("%s has no receive posted, and each SEND and WRITE_IMM takes one: those of rank %d %s", to.Who(), from.Rank, wait),
		fmt.Sprintf("post receives on rank %d before rank %d sends", to.Rank, from.Rank)))
}

// depths compares the READs and atomics in flight.
func (c *comparison) depths(f direction) {
	from, to := f.from, f.to
	if !from.armed() || !to.Addressed() {
		return
	}
	add := func(at *End, text string) {
		c.add(f.finding(Warning, "max_rd_atomic", at.Rank, fmt.Sprintf("max_rd_atomic %d", from.MaxRDAtomic), fmt.Sprintf("max_dest_rd_atomic %d", to.MaxDestRDAtomic),
			text, again))
	}
	switch {
	case from.MaxRDAtomic == 0:
		add(from, from.Who()+" may have no READ in flight (max_rd_atomic 0): a READ fails at once with LOC_QP_OP (2)")
	case from.MaxRDAtomic > to.MaxDestRDAtomic:
		add(to, fmt.Sprintf("%s may have %d READs in flight and %s answers %d at once: what is beyond is refused with REM_INV_REQ (9)",
			from.Who(), from.MaxRDAtomic, to.Who(), to.MaxDestRDAtomic))
	}
}

// patience is about retries, which are the sender's own matter.
func (c *comparison) patience(f direction) {
	e := f.from
	if !e.armed() {
		return
	}
	for _, x := range []struct {
		attribute   string
		value, odd  uint8
		severity    Severity
		text, fixed string
	}{
		{"qp_timeout", e.QPTimeout, 0, Warning, "waits for ever for an ACK (qp_timeout 0): a lost packet is never noticed", "use a --qp-timeout above 0"},
		{"retry_cnt", e.RetryCnt, 0, Warning, "does not retry (retry_cnt 0): one lost packet ends the connection", "use a --retry-cnt above 0"},
		{"retry_cnt", e.RetryCnt, 7, Note, "has retry_cnt 7, which never decrements on rdma_rxe: a peer that is gone makes it hang there", "use at most 6 on rxe"},
	} {
		if x.value == x.odd {
			c.add(f.finding(x.severity, x.attribute, e.Rank, x.value, "", e.Who()+" "+x.text, x.fixed))
		}
	}
}
