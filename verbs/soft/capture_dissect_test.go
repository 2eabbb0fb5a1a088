package soft

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ringcli/verbs"
	"ringcli/verbs/soft/wire"
)

// captureOp is an operation that the client does.
type captureOp struct {
	name   string
	opcode verbs.Opcode
	bytes  uint32
	late   bool // the server posts its receive once it has sent an RNR NAK
	badKey bool
	added  bool // not among the operations of verbs-ops.pcap
}

// captureOps are the operations of testdata/captures/verbs-ops.pcap, which
// rdma_rxe did, in their order, and long WRITEs, for trains.
var captureOps = []captureOp{
	{name: "SEND", opcode: verbs.OpSend, bytes: 0},
	{name: "SEND", opcode: verbs.OpSend, bytes: 5},
	{name: "SEND", opcode: verbs.OpSend, bytes: 3000},
	{name: "SEND_WITH_IMM", opcode: verbs.OpSendImm, bytes: 16},
	{name: "SEND_WITH_IMM", opcode: verbs.OpSendImm, bytes: 2000},
	{name: "WRITE", opcode: verbs.OpWrite, bytes: 64},
	{name: "WRITE", opcode: verbs.OpWrite, bytes: 4096},
	{name: "WRITE_WITH_IMM", opcode: verbs.OpWriteImm, bytes: 0},
	{name: "WRITE_WITH_IMM", opcode: verbs.OpWriteImm, bytes: 33},
	{name: "WRITE_WITH_IMM", opcode: verbs.OpWriteImm, bytes: 3001},
	{name: "READ", opcode: verbs.OpRead, bytes: 64},
	{name: "READ", opcode: verbs.OpRead, bytes: 4095},
	{name: "CMP_AND_SWP", opcode: verbs.OpCompSwap, bytes: 8},
	{name: "FETCH_AND_ADD", opcode: verbs.OpFetchAdd, bytes: 8},
	{name: "late SEND", opcode: verbs.OpSend, bytes: 100, late: true},
	{name: "WRITE", opcode: verbs.OpWrite, bytes: captureLong, added: true},
	{name: "WRITE", opcode: verbs.OpWrite, bytes: 64<<10 + 7, added: true},  // at an MTU of 1024, 62 packets that fill a train, and a short one
	{name: "WRITE", opcode: verbs.OpWrite, bytes: 17<<12 + 11, added: true}, // at 4096, 15
	{name: "WRITE with a wrong rkey", opcode: verbs.OpWrite, bytes: 64, badKey: true},
}

const (
	capturePSN = 0xfffffe // the client's first, as in verbs-ops.pcap: it wraps
	// captureLong is several windows long, and no multiple of a path MTU.
	captureLong = 1<<20 + 7
)

func (o captureOp) String() string { return fmt.Sprintf("%s of %d bytes", o.name, o.bytes) }

// receives tells whether the server needs a receive request.
func (o captureOp) receives() bool {
	return o.opcode == verbs.OpSend || o.opcode == verbs.OpSendImm || o.opcode == verbs.OpWriteImm
}

// psns is how many PSNs the operation takes.
func (o captureOp) psns(mtu int) int { return max(1, (int(o.bytes)+mtu-1)/mtu) }

// series is a message of n packets.
func series(n int, only, first, middle, last wire.Opcode) []wire.Opcode {
	if n == 1 {
		return []wire.Opcode{only}
	}
	return slices.Concat([]wire.Opcode{first}, slices.Repeat([]wire.Opcode{middle}, n-2), []wire.Opcode{last})
}

// packets are the packets that the operation takes on a wire that loses none:
// the client's, and the server's up to acknowledgements, of which there may be
// several.
func (o captureOp) packets(mtu int) (requests, responses []wire.Opcode) {
	n, ack := o.psns(mtu), []wire.Opcode{wire.Acknowledge}
	switch o.opcode {
	case verbs.OpSend:
		return series(n, wire.SendOnly, wire.SendFirst, wire.SendMiddle, wire.SendLast), ack
	case verbs.OpSendImm:
		return series(n, wire.SendOnlyImm, wire.SendFirst, wire.SendMiddle, wire.SendLastImm), ack
	case verbs.OpWrite:
		return series(n, wire.WriteOnly, wire.WriteFirst, wire.WriteMiddle, wire.WriteLast), ack
	case verbs.OpWriteImm:
		return series(n, wire.WriteOnlyImm, wire.WriteFirst, wire.WriteMiddle, wire.WriteLastImm), ack
	case verbs.OpRead:
		return []wire.Opcode{wire.ReadRequest},
			series(n, wire.ReadRespOnly, wire.ReadRespFirst, wire.ReadRespMiddle, wire.ReadRespLast)
	case verbs.OpCompSwap:
		return []wire.Opcode{wire.CompareSwap}, []wire.Opcode{wire.AtomicAck}
	}
	return []wire.Opcode{wire.FetchAdd}, []wire.Opcode{wire.AtomicAck}
}

// dissected is a packet as tshark sees it.
type dissected struct {
	frame     int
	src       string
	protocol  string // of the packet list
	layers    string // such as eth:ethertype:ip:udp:infiniband
	opcode    wire.Opcode
	psn       uint32
	syndrome  int // -1 without AETH
	id        int // of IPv4; -1 for IPv6
	malformed string
}

// response tells whether a packet is the server's.
func (d *dissected) response() bool { return d.opcode.Flags()&wire.IsResponse != 0 }

// dissect has tshark dissect the packets to UDP port 4791 in a file.
func dissect(ctx context.Context, t *testing.T, file string) (all []dissected) {
	t.Helper()
	argv := []string{"tshark", "-n", "-r", file, "-Y", fmt.Sprintf("udp.dstport == %d", wire.UDPPort),
		"-T", "fields", "-E", "occurrence=f"}
	fields := []string{"frame.number", "ip.src", "ipv6.src", "_ws.col.Protocol", "frame.protocols", "infiniband.bth.opcode",
		"infiniband.bth.psn", "infiniband.aeth.syndrome", "ip.id", "_ws.malformed"}
	for _, f := range fields {
		argv = append(argv, "-e", f)
	}
	for line := range strings.Lines(command(ctx, t, argv...)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != len(fields) {
			t.Fatalf("%s: tshark wrote %q, expected %d fields", file, line, len(fields))
		}
		number := func(s string, missing int) int {
			if s == "" {
				return missing
			}
			n, err := strconv.ParseInt(s, 0, 64)
			if err != nil {
				t.Fatalf("%s: tshark wrote %q: %v", file, line, err)
			}
			return int(n)
		}
		all = append(all, dissected{
			frame: number(f[0], 0), src: f[1] + f[2], protocol: f[3], layers: f[4], opcode: wire.Opcode(number(f[5], 0xff)),
			psn: uint32(number(f[6], 0)), syndrome: number(f[7], -1), id: number(f[8], -1), malformed: f[9],
		})
	}
	return all
}

// byOperation sorts packets to the operations that their PSNs belong to.
func byOperation(t *testing.T, ops []captureOp, mtu int, packets []dissected) [][]dissected {
	t.Helper()
	var owner []int // of the PSNs, from the first
	for i, o := range ops {
		owner = append(owner, slices.Repeat([]int{i}, o.psns(mtu))...)
	}
	sorted := make([][]dissected, len(ops))
	for _, p := range packets {
		offset := int(p.psn-capturePSN) & 0xffffff
		if offset >= len(owner) {
			t.Fatalf("frame %d has PSN %#x, expected %d PSNs from %#x on", p.frame, p.psn, len(owner), capturePSN)
		}
		i := owner[offset]
		sorted[i] = append(sorted[i], p)
	}
	return sorted
}

// malformedIn is what tshark calls malformed: the operations, each with a frame.
func malformedIn(ops []captureOp, sorted [][]dissected) map[string]dissected {
	set := make(map[string]dissected)
	for i, packets := range sorted {
		for _, p := range packets {
			if p.malformed != "" {
				set[ops[i].String()] = p
			}
		}
	}
	return set
}

// checkOperation compares an operation's packets with what it takes. Repetition
// is for the late receive alone.
func checkOperation(t *testing.T, o captureOp, mtu int, client, server string, packets []dissected) {
	t.Helper()
	var requests, responses []wire.Opcode
	var syndromes []int
	sent := make(map[uint32]bool)
	for _, p := range packets {
		if p.protocol != "RRoCE" || !strings.Contains(p.layers, ":udp:infiniband") {
			t.Errorf("%s: frame %d is %s (%s), expected RRoCE", o, p.frame, p.protocol, p.layers)
		}
		from := client
		if p.response() {
			from = server
		}
		if p.src != from {
			t.Errorf("%s: frame %d, %s, is from %s, expected %s", o, p.frame, p.opcode, p.src, from)
		}
		switch {
		case p.response():
			responses = append(responses, p.opcode)
			if p.syndrome >= 0 {
				syndromes = append(syndromes, p.syndrome)
			}
		case o.late && sent[p.psn]: // sent anew after an RNR NAK
		default:
			sent[p.psn] = true
			requests = append(requests, p.opcode)
		}
	}
	wantRequests, wantResponses := o.packets(mtu)
	if !slices.Equal(requests, wantRequests) {
		t.Errorf("%s: the client sent %v, expected %v", o, requests, wantRequests)
	}
	if wantResponses[0] == wire.Acknowledge {
		responses = slices.Compact(responses)
	}
	if !slices.Equal(responses, wantResponses) {
		t.Errorf("%s: the server answered %v, expected %v", o, responses, wantResponses)
	}
	checkSyndromes(t, o, syndromes)
}

// checkSyndromes looks at what the AETHs said (specification 1.4, 9.7.5.2.1).
func checkSyndromes(t *testing.T, o captureOp, syndromes []int) {
	t.Helper()
	const ack, rnr, remoteAccess = 0, 1, 0x62
	for i, s := range syndromes {
		last, good := i == len(syndromes)-1, s>>5 == ack
		switch {
		case o.badKey:
			good = s == remoteAccess
		case o.late && !last:
			good = s>>5 == rnr
		}
		if !good {
			t.Errorf("%s: AETH %d of %d has syndrome %#02x", o, i+1, len(syndromes), s)
		}
	}
	if len(syndromes) == 0 || o.late && len(syndromes) < 2 {
		t.Errorf("%s: %d AETHs", o, len(syndromes))
	}
}

// checkIDs looks at the IPv4 identifications: the ICRC covers them, and is made
// before the kernel sets them, in the belief that a packet has its place in the
// train, from 0.
func checkIDs(t *testing.T, packets []dissected) {
	t.Helper()
	next, longest := make(map[string]int), 0
	for _, p := range packets {
		if p.id != 0 && p.id != next[p.src] {
			t.Errorf("frame %d from %s has IP ID %d, expected 0 or %d", p.frame, p.src, p.id, next[p.src])
		}
		next[p.src] = p.id + 1
		longest = max(longest, next[p.src])
	}
	if longest < 2 {
		t.Error("no train has more than one packet: segmentation was not tested")
	}
	t.Logf("the longest train has %d packets", longest)
}
