package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/route"
)

// symptom is a failed request: at which end, and what the other one says.
type symptom struct {
	direction // from the end that failed to the other
	status    verbs.Status
	failed    *Failure // nil if it is not known
}

// suspects lists, by status, the attributes that bring it about, likeliest first,
// as the end that failed names them; "peer:" is an attribute of the other end.
var suspects = map[verbs.Status][]string{
	verbs.RetryExceeded: {
		"peer:qp_state", "port_state", "dest_qpn", "peer:dest_qpn", "dgid", "peer:dgid", "dlid", "peer:dlid", "dest_udp_port", "gid_type", "gid", "link_layer", "pkey",
		"sq_psn", "path_mtu", "peer:dest_udp_port",
	},
	verbs.RNRRetryExceeded:     {"sends_posted"},
	verbs.RemoteInvalidRequest: {"access", "path_mtu", "max_rd_atomic"},
	verbs.BadResponseError:     {"path_mtu"},
	verbs.LocalQPOpError:       {"max_rd_atomic"},
}

// suspect tells whether a finding is about an attribute of a list, and which.
func (s symptom) suspect(f Finding) int {
	return slices.IndexFunc(suspects[s.status], func(name string) bool {
		theirs := strings.HasPrefix(name, "peer:")
		name = strings.TrimPrefix(name, "peer:")
		at := s.from.Rank
		if theirs {
			at = s.to.Rank
		}
		other, directed := mirrored[name]
		switch {
		case name == "qp_state":
			return f.Attribute == name && f.Rank == at
		case name == "access": // the other's
			return f.Attribute == name && f.Rank == s.to.Rank && (s.failed == nil || f.right != 0 && f.right == s.failed.needs())
		case name == "path_mtu":
			return f.Attribute == name && (s.failed == nil || s.failed.Length > uint64(min(s.from.PathMTU, s.to.PathMTU)))
		case !directed:
			return f.Attribute == name
		case s.outward != theirs: // the own end's
			return f.Attribute == name
		default:
			return f.Attribute == other
		}
	})
}

// fault makes a finding about the two ends of the symptom.
func (s symptom) fault(attribute string, rank int, from, to, text, fix string) *Finding {
	f := s.finding(Fault, attribute, rank, from, to, text, fix)
	return &f
}

// evidence says what the failed request and the counters tell, where what the
// ends say of themselves does not explain the status. It returns nil if nothing.
func (s symptom) evidence() *Finding {
	switch s.status {
	case verbs.RetryExceeded:
		if s.from.Stale || s.to.Stale {
			return nil // its counters are those of then
		}
		return s.silence()
	case verbs.RNRRetryExceeded:
		return s.fault("sends_posted", s.to.Rank, fmt.Sprintf("rnr_retry %d", s.from.RNRRetry), fmt.Sprintf("receives_posted %d", s.to.ReceivesPosted),
			fmt.Sprintf("%s had no receive posted (it has %d by now), and each SEND and WRITE_IMM takes one: RNR_RETRY_EXC (13) at rank %d after rnr_retry %d",
				s.to.Who(), s.to.ReceivesPosted, s.from.Rank, s.from.RNRRetry),
			fmt.Sprintf("post receives on rank %d before rank %d sends; a higher --rnr-retry or --min-rnr-timer waits longer", s.to.Rank, s.from.Rank))
	case verbs.RemoteInvalidRequest:
		return s.tooLong(s.to.Failure, s.failed)
	case verbs.LocalLengthError:
		return s.swapped().tooLong(s.failed, s.to.Failure)
	case verbs.RemoteAccessError:
		return s.key()
	case verbs.RemoteOpError:
		if s.to.Failure != nil {
			return s.fault("first_error", s.to.Rank, s.text(), s.to.FirstError,
				fmt.Sprintf("%s could not carry out a request of rank %d: its own error was %s", s.to.Who(), s.from.Rank, s.to.FirstError),
				"mend the receive of rank "+fmt.Sprint(s.to.Rank)+": lkey, address and length must lie in a region of its own; then "+again)
		}
	case verbs.LocalProtectionError:
		return s.localKey()
	}
	return nil
}

// swapped is the other direction. The findings stay those of the own end.
func (s symptom) swapped() symptom {
	s.from, s.to, s.outward = s.to, s.from, !s.outward
	return s
}

func (s symptom) text() string {
	if s.failed == nil {
		return s.status.Err().Error()
	}
	return s.failed.String()
}

// tooLong explains a message that was longer than the receive that it met.
func (s symptom) tooLong(receive, send *Failure) *Finding {
	if !receive.HasStatus(verbs.LocalLengthError) {
		return nil
	}
	length := "a message"
	if send != nil {
		length = fmt.Sprintf("a message of %d bytes", send.Length)
	}
	return s.fault("length", s.from.Rank, length, fmt.Sprintf("a receive of %d bytes", receive.Length),
		fmt.Sprintf("%s sent %s and the receive of %s holds %d: LOC_LEN (1) there, REM_INV_REQ (9) at the sender", s.from.Who(), length, s.to.Who(), receive.Length),
		"post longer receives, or send less; then "+again)
}

func regionTexts(regions []Region, key func(Region) string) (texts []string) {
	for _, g := range regions {
		texts = append(texts, fmt.Sprintf("%s: %s, %d bytes from %#x, %s", g.Name, key(g), g.Length, g.Addr, g.Access))
	}
	return texts
}

// key explains a request that the other end's memory did not allow: what was
// asked for beside what was advertised.
func (s symptom) key() *Finding {
	slots := Region{Name: "slots", Addr: s.to.Slots.Addr, Length: s.to.Slots.Length, RKey: s.to.Slots.RKey, Access: SlotAccess}
	regions := append([]Region{slots}, s.to.Regions...)
	offered := regionTexts(regions, func(g Region) string { return fmt.Sprintf("rkey %#x", g.RKey) })
	advertised := strings.Join(offered, "; ")
	if s.failed == nil {
		return s.fault("rkey", s.from.Rank, "", advertised,
			fmt.Sprintf("%s refused a key, address or range of rank %d (REM_ACCESS, 10); it offers %s", s.to.Who(), s.from.Rank, advertised), "use what it offers; then "+again)
	}
	f := s.failed
	asked := fmt.Sprintf("%s of %d bytes at %#x with rkey %#x", f.Opcode, f.Length, f.RemoteAddr, f.RKey)
	refused := fmt.Sprintf("%s refused rank %d's %s (REM_ACCESS, 10): ", s.to.Who(), s.from.Rank, asked)
	i := slices.IndexFunc(regions, func(g Region) bool { return g.RKey == f.RKey })
	if i < 0 {
		return s.fault("rkey", s.from.Rank, asked, advertised, refused+"no region of it has this rkey; it offers "+advertised, "use an rkey that it offers; then "+again)
	}
	g := regions[i]
	switch right := f.needs(); {
	case g.Access&right == 0:
		return s.fault("access", s.to.Rank, asked, offered[i], refused+fmt.Sprintf("its region %s gives no %s", offered[i], right),
			fmt.Sprintf("register the region with %s, or use another; then %s", right, again))
	case f.RemoteAddr < g.Addr || f.RemoteAddr-g.Addr > g.Length || f.Length > g.Length-(f.RemoteAddr-g.Addr):
		return s.fault("range", s.from.Rank, asked, offered[i], refused+"that is outside its region "+offered[i], "stay within the region; then "+again)
	default:
		return s.fault("rkey", s.to.Rank, asked, offered[i], refused+"its region "+offered[i]+" would allow it by now: it was registered later, or closed", "register it before the request; then "+again)
	}
}

func (s symptom) localKey() *Finding {
	have := regionTexts(s.from.Regions, func(g Region) string { return fmt.Sprintf("lkey %#x", g.LKey) })
	regions := cmp.Or(strings.Join(have, "; "), "none by hand")
	text := fmt.Sprintf("%s posted memory that no region covers with its lkey (LOC_PROT, 4)", s.from.Who())
	sge := ""
	if s.failed != nil {
		sge = fmt.Sprintf("lkey %#x, %d bytes at %#x", s.failed.LKey, s.failed.Length, s.failed.Addr)
		text = fmt.Sprintf("%s posted %s, which no region covers (LOC_PROT, 4); its regions: %s", s.from.Who(), sge, regions)
	}
	return s.fault("lkey", s.from.Rank, sge, "", text, "use lkey, address and length of one region, with LOCAL_WRITE to receive or READ; then "+again)
}

// silence explains retries that ran out although the ends agree: by what the
// devices have counted since the queue pairs came to RTR.
func (s symptom) silence() *Finding {
	from, to := s.from, s.to
	if to.Capabilities.HostLocal {
		return s.fault("provider", to.Rank, from.QPState.String(), to.QPState.String(),
			fmt.Sprintf("%s did not answer rank %d over shared memory within its retries: its process is gone, or its queue pair is not in RTR or RTS; RETRY_EXC (12)", to.Who(), from.Rank),
			"see whether that process runs; if it does, "+again)
	}
	patience := fmt.Sprintf("4.096 us * 2^%d * %d tries = %s", from.QPTimeout, int(from.RetryCnt)+1,
		(verbs.AckTimeout(from.QPTimeout) * time.Duration(from.RetryCnt+1)).Round(time.Millisecond))
	port := cmp.Or(to.UDPPort, route.RoCEPort)
	told := func(counter, text, fix string, args ...any) *Finding {
		return s.fault(counter, to.Rank, from.growth(counter), to.growth(counter), fmt.Sprintf(text, args...), fix)
	}
	grew := func(e *End, counter string) uint64 {
		n, _ := e.grew(counter)
		return n
	}
	_, counts := to.grew("port_rcv_packets")
	_, countsToo := from.grew("port_rcv_packets")
	switch {
	case counts && grew(to, "port_rcv_packets") == 0 && to.is(verbs.StateRTR, verbs.StateRTS):
		return told("port_rcv_packets", "TCP ok, RDMA silent: TCP reaches %s, but its device has counted no packet since its queue pair came to RTR: RoCE traffic to %s, UDP port %d, is filtered or goes elsewhere; RETRY_EXC (12) at rank %d after %s",
			fmt.Sprintf("open UDP port %d between the nodes and check the route from %s to %s", port, from.GID.Addr(), to.GID.Addr()),
			to.Who(), to.GID.Addr(), port, from.Rank, patience)
	case grew(to, "wrong_peer") > 0:
		return told("wrong_peer", "packets reach %s from another address than %s, whom its queue pair expects; it drops them: RETRY_EXC (12) at rank %d", "check --gid-index and the source address of the route at rank "+fmt.Sprint(from.Rank),
			to.Who(), to.DGID, from.Rank)
	case grew(to, "unknown_qp") > 0:
		return told("unknown_qp", "packets reach %s for a queue pair that it does not have: RETRY_EXC (12) at rank %d", again, to.Who(), from.Rank)
	case grew(to, "icrc_error") > 0:
		return told("icrc_error", "packets reach %s damaged (wrong ICRC), and it drops them: RETRY_EXC (12) at rank %d", "check cables, offloads and what rewrites packets on the way", to.Who(), from.Rank)
	case counts && countsToo && grew(from, "port_rcv_packets") == 0:
		f := told("port_rcv_packets", "packets reach %s, but no answer comes back to %s: RoCE traffic to %s, UDP port %d, is filtered on the way back; RETRY_EXC (12) after %s",
			fmt.Sprintf("open UDP port %d towards rank %d", from.UDPPort, from.Rank), to.Who(), from.Who(), from.GID.Addr(), from.UDPPort, patience)
		f.Rank = from.Rank
		return f
	case grew(to, "out_of_sequence") > 0:
		return told("out_of_sequence", "packets to %s were lost on the way (it counted gaps) and sending them again did not help within %s: loss or congestion; RETRY_EXC (12) at rank %d",
			"look for drops and pauses on the path; a higher --qp-timeout or --retry-cnt waits longer", to.Who(), patience, from.Rank)
	default:
		return told("port_rcv_packets", "%s did not answer rank %d within %s: it was stopped, or the path was cut for a while; RETRY_EXC (12)",
			"a higher --qp-timeout or --retry-cnt waits longer; then "+again, to.Who(), from.Rank, patience)
	}
}
