package soft

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/soft/wire"
)

// captureLimit bounds a capture and the processes of a test.
const captureLimit = time.Minute

// TestCapture does on a veth pair what rdma_rxe did for verbs-ops.pcap, and looks
// at the packets with other people's eyes: tshark dissects them as it dissects
// rdma_rxe's, and a checker that shares no code with package soft verifies every
// ICRC.
func TestCapture(t *testing.T) {
	needForCapture(t)
	limited, stop := context.WithTimeout(context.Background(), captureLimit)
	defer stop()
	const reference = "wire/testdata/captures/verbs-ops.pcap"
	ops := slices.DeleteFunc(slices.Clone(captureOps), func(o captureOp) bool { return o.added })
	rxe := malformedIn(ops, byOperation(t, ops, verbs.MTU1024.Bytes(), dissect(limited, t, reference)))
	for _, c := range []struct {
		name           string
		client, server string
		linkMTU        int
		pathMTU        verbs.MTU
	}{
		{"IPv4-1024", "198.18.0.1", "198.18.0.2", 1500, verbs.MTU1024},
		{"IPv4-4096", "198.18.0.1", "198.18.0.2", 5000, verbs.MTU4096},
		{"IPv6-1024", "fd5a:6d0e:1c3b::1", "fd5a:6d0e:1c3b::2", 1500, verbs.MTU1024},
		{"IPv6-4096", "fd5a:6d0e:1c3b::1", "fd5a:6d0e:1c3b::2", 5000, verbs.MTU4096},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), captureLimit)
			t.Cleanup(cancel) // after the ends' own cleanup
			if _, err := os.Stat("/proc/net/if_inet6"); err != nil && strings.Contains(c.client, ":") {
				t.Skipf("the kernel has no IPv6: %v", err)
			}
			client, server := startEnd(t, c.client), startEnd(t, c.server)
			join(ctx, t, client, server, c.linkMTU)
			for _, end := range []*captureEnd{client, server} {
				end.open(t)
				if end.MTU != c.pathMTU {
					t.Fatalf("link MTU %d gives path MTU %s, expected %s", c.linkMTU, end.MTU, c.pathMTU)
				}
				if end.GID.UDPPort != wire.UDPPort {
					t.Fatalf("UDP port %d, expected %d", end.GID.UDPPort, wire.UDPPort)
				}
			}
			file := captureOperations(ctx, t, client, server)
			checkICRCs(ctx, t, file)
			checkDissection(ctx, t, file, client, server, rxe)
		})
	}
}

const (
	// The region: what requests are about, then where messages are received.
	captureReceive = 2 << 20
	captureRegion  = captureReceive + 8192

	captureImm     = 0x11223344
	captureCompare = 0x0102030405060708
	captureSwap    = 0x1112131415161718
)

// captureOperations does the operations and returns the file of their packets.
func captureOperations(ctx context.Context, t *testing.T, client, server *captureEnd) string {
	t.Helper()
	const serverPSN = 0x000100
	client.ready(t, server, serverPSN)
	server.ready(t, client, capturePSN)
	client.run(t, capturePSN)
	server.run(t, serverPSN)
	c := startCapture(ctx, t, client)
	for _, o := range captureOps {
		o.do(t, client, server)
	}
	n := int(client.counters(t)["port_xmit_packets"] + server.counters(t)["port_xmit_packets"])
	records := c.finish(t, n)
	if len(records) != n {
		t.Fatalf("the capture has %d packets, the ends sent %d\n%s", len(records), n, c.log.text)
	}
	for _, r := range records {
		const headers = 40 + 8 + wire.MaxHeaderLen + wire.ICRCLen // with IPv6 and UDP
		if most := headers + client.MTU.Bytes(); len(r.IP()) > most {
			t.Fatalf("frame %d has %d bytes of IP, expected %d at most: it is a train", r.Number, len(r.IP()), most)
		}
	}
	return c.file
}

// pattern counts up from a first byte.
func pattern(first byte, n uint32) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = first + byte(i)
	}
	return b
}

// do does the operation and checks the completions and the data.
func (o captureOp) do(t *testing.T, client, server *captureEnd) {
	t.Helper()
	// Whatever an operation may write is something else before.
	copy(client.mem.Bytes(), pattern(0, o.bytes))
	switch o.opcode {
	case verbs.OpRead:
		copy(server.mem.Bytes(), pattern(7, o.bytes))
	case verbs.OpCompSwap:
		binary.NativeEndian.PutUint64(server.mem.Bytes(), captureCompare)
	case verbs.OpFetchAdd: // adds to what CMP_AND_SWP left
	default:
		clear(server.mem.Bytes()[:o.bytes+1])
		clear(server.mem.Bytes()[captureReceive:][:4096])
	}
	receive := func() {
		_, err := server.qp.PostRecv([]verbs.WorkRequest{{
			ID: 1, SGL: []verbs.SGE{{Addr: server.mem.Addr() + captureReceive, Length: 4096, LKey: server.mr.LKey()}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if o.receives() && !o.late {
		receive()
	}
	wr := verbs.WorkRequest{
		ID: 2, Opcode: o.opcode, Flags: verbs.FlagSignaled, Imm: captureImm,
		SGL:        []verbs.SGE{{Addr: client.mem.Addr(), Length: o.bytes, LKey: client.mr.LKey()}},
		RemoteAddr: server.mem.Addr(), RKey: server.mr.RKey(), CompareAdd: captureCompare, Swap: captureSwap,
	}
	if o.opcode == verbs.OpSend || o.opcode == verbs.OpSendImm {
		wr.Flags |= verbs.FlagSolicited
	}
	if o.badKey {
		wr.RKey ^= 0xff
	}
	if _, err := client.qp.PostSend([]verbs.WorkRequest{wr}); err != nil {
		t.Fatal(err)
	}
	if o.late {
		for deadline := time.Now().Add(5 * time.Second); client.counters(t)["rcvd_rnr_err"] == 0; {
			if time.Now().After(deadline) {
				t.Fatalf("%s: no RNR NAK after 5 s", o)
			}
		}
		receive()
	}
	o.checkClient(t, client)
	o.checkServer(t, server)
}

// checkClient takes the client's completion.
func (o captureOp) checkClient(t *testing.T, client *captureEnd) {
	t.Helper()
	want := verbs.Completion{ID: 2, QPN: client.qp.Num(), Opcode: map[verbs.Opcode]verbs.WCOpcode{
		verbs.OpWrite: verbs.WCWrite, verbs.OpWriteImm: verbs.WCWrite, verbs.OpSend: verbs.WCSend, verbs.OpSendImm: verbs.WCSend,
		verbs.OpRead: verbs.WCRead, verbs.OpCompSwap: verbs.WCCompSwap, verbs.OpFetchAdd: verbs.WCFetchAdd,
	}[o.opcode]}
	if o.badKey {
		want.Status = verbs.RemoteAccessError
	}
	got := client.completion(t)
	if got.ID != want.ID || got.QPN != want.QPN || got.Status != want.Status || !o.badKey && got.Opcode != want.Opcode {
		t.Fatalf("%s: the client's completion is %+v, expected %+v", o, got, want)
	}
	var data []byte // what the client is to have now
	switch o.opcode {
	case verbs.OpRead:
		data = pattern(7, o.bytes)
	case verbs.OpCompSwap:
		data = binary.NativeEndian.AppendUint64(nil, captureCompare)
	case verbs.OpFetchAdd:
		data = binary.NativeEndian.AppendUint64(nil, captureSwap)
	default:
		return
	}
	if got := client.mem.Bytes()[:o.bytes]; !bytes.Equal(got, data) {
		t.Errorf("%s: the client has %s", o, difference(got, data))
	}
}

// checkServer takes the server's completion where there is one, and looks at its
// memory.
func (o captureOp) checkServer(t *testing.T, server *captureEnd) {
	t.Helper()
	if o.receives() {
		want := verbs.Completion{ID: 1, QPN: server.qp.Num(), Opcode: verbs.WCRecv, ByteLen: o.bytes}
		if o.opcode == verbs.OpWriteImm {
			want.Opcode = verbs.WCRecvWriteImm
		}
		if o.opcode != verbs.OpSend {
			want.Flags, want.Imm = verbs.WCWithImm, captureImm
		}
		if got := server.completion(t); got != want {
			t.Fatalf("%s: the server's completion is %+v, expected %+v", o, got, want)
		}
	}
	at, data := uint64(0), append(pattern(0, o.bytes), 0) // with the byte behind, which nobody writes
	switch {
	case o.opcode == verbs.OpSend || o.opcode == verbs.OpSendImm:
		at = captureReceive
	case o.opcode == verbs.OpRead:
		return
	case o.opcode == verbs.OpCompSwap:
		data = binary.NativeEndian.AppendUint64(nil, captureSwap)
	case o.opcode == verbs.OpFetchAdd:
		data = binary.NativeEndian.AppendUint64(nil, captureSwap+captureCompare)
	case o.badKey:
		data = make([]byte, o.bytes)
	}
	if got := server.mem.Bytes()[at:][:len(data)]; !bytes.Equal(got, data) {
		t.Errorf("%s: the server has %s", o, difference(got, data))
	}
}

// difference words the first byte that two slices of one length differ in.
func difference(got, want []byte) string {
	for i := range want {
		if got[i] != want[i] {
			return fmt.Sprintf("%#02x at %d of %d, expected %#02x", got[i], i, len(want), want[i])
		}
	}
	return "what is expected"
}

// checkICRCs has the independent checker look at every packet.
func checkICRCs(ctx context.Context, t *testing.T, file string) {
	t.Helper()
	t.Logf("%s", command(ctx, t, "go", "run", "./wire/wiretest/icrccheck", file))
}

// checkDissection has tshark dissect the file. rxe is what is malformed in
// rdma_rxe's.
func checkDissection(ctx context.Context, t *testing.T, file string, client, server *captureEnd, rxe map[string]dissected) {
	t.Helper()
	mtu := client.MTU.Bytes()
	packets := dissect(ctx, t, file)
	sorted := byOperation(t, captureOps, mtu, packets)
	seen := make(map[wire.Opcode]bool)
	for _, p := range packets {
		seen[p.opcode] = true
	}
	for i, o := range captureOps {
		checkOperation(t, o, mtu, client.addr.String(), server.addr.String(), sorted[i])
	}
	if client.MTU == verbs.MTU1024 { // where the operations take every kind of packet
		for o := wire.SendFirst; o <= wire.FetchAdd; o++ {
			if !seen[o] {
				t.Errorf("no %s was seen", o)
			}
		}
	}
	if client.addr.Is4() {
		checkIDs(t, packets)
	}
	for name, p := range malformedIn(captureOps, sorted) {
		if q, too := rxe[name]; too {
			t.Logf("%s: malformed as rdma_rxe's is: frame %d, %s; its frame %d, %s", name, p.frame, p.malformed, q.frame, q.malformed)
		} else {
			t.Errorf("%s: frame %d, %s, is %s; rdma_rxe's is not", name, p.frame, p.opcode, p.malformed)
		}
	}
}
