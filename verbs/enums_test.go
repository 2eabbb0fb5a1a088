package verbs_test

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	. "ringcli/verbs"
)

func TestStrings(t *testing.T) {
	for _, c := range []struct {
		value fmt.Stringer
		want  string
	}{
		{StateReset, "RESET"}, {StateInit, "INIT"}, {StateRTR, "RTR"}, {StateRTS, "RTS"}, {StateSQD, "SQD"},
		{StateSQE, "SQE"}, {StateErr, "ERR"}, {QPState(7), "state 7"}, {QPState(1 << 31), "state 2147483648"},
		{RC, "RC"}, {QPType(0), "QP type 0"}, {QPType(4), "UD"},
		{OpWrite, "RDMA_WRITE"}, {OpWriteImm, "RDMA_WRITE_WITH_IMM"}, {OpSend, "SEND"}, {OpSendImm, "SEND_WITH_IMM"},
		{OpRead, "RDMA_READ"}, {OpCompSwap, "ATOMIC_CMP_AND_SWP"}, {OpFetchAdd, "ATOMIC_FETCH_AND_ADD"}, {Opcode(99), "opcode 99"},
		{WCSend, "SEND"}, {WCWrite, "RDMA_WRITE"}, {WCRead, "RDMA_READ"}, {WCCompSwap, "COMP_SWAP"},
		{WCFetchAdd, "FETCH_ADD"}, {WCRecv, "RECV"}, {WCRecvWriteImm, "RECV_RDMA_WITH_IMM"},
		{WCOpcode(77), "completion opcode 77"}, {WCOpcode(200), "completion opcode 128 + 72"},
		{AccessLocalWrite | AccessRemoteRead, "LOCAL_WRITE, REMOTE_READ"}, {Access(0), "none"}, {Access(0x101), "LOCAL_WRITE, 0x100"},
		{MTU256, "256"}, {MTU4096, "4096"}, {MTU(9), "0"},
		{PortActive, "ACTIVE"}, {PortDown, "DOWN"}, {PortState(9), "port state 9"},
		{LinkEthernet, "Ethernet"}, {LinkInfiniBand, "InfiniBand"}, {LinkLayer(0), "unspecified"},
		{GIDTypeIB, "IB"}, {GIDTypeRoCEv1, "RoCE v1"}, {GIDTypeRoCEv2, "RoCE v2"}, {GIDType(3), "GID type 3"},
		{MemoryHost, "host"}, {MemoryKind(5), "memory kind 5"},
		{WaitYield, "yield"}, {WaitGosched, "gosched"}, {WaitBlock, "block"},
		{AttrState | AttrDestQPN, "qp_state, dest_qp_num"}, {AttrMask(0), "none"},
	} {
		if got := c.value.String(); got != c.want {
			t.Errorf("%T(%#v): got %q, want %q", c.value, c.value, got, c.want)
		}
	}
	for name, mask := range attributes {
		if got := mask.String(); got != name {
			t.Errorf("attribute mask %#x: got %q, want %q", uint32(mask), got, name)
		}
	}
}

// What one end says another reads back as the same.
func TestTexts(t *testing.T) {
	type facts struct {
		QP   QPState
		Port PortState
		Link LinkLayer
		GID  GIDType
	}
	said := facts{StateSQD, PortActive, LinkEthernet, GIDTypeRoCEv2}
	text, err := json.Marshal(said)
	if want := `{"QP":"SQD","Port":"ACTIVE","Link":"Ethernet","GID":"RoCE v2"}`; err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
	var heard facts
	if err := json.Unmarshal(text, &heard); err != nil || heard != said {
		t.Errorf("got %+v, %v, want %+v", heard, err, said)
	}
	for _, to := range []encoding.TextUnmarshaler{&heard.QP, &heard.Port, &heard.Link, &heard.GID} {
		if err := to.UnmarshalText([]byte("XYZ")); !errors.Is(err, ErrInvalid) {
			t.Errorf("XYZ as a %T: got %v, want ErrInvalid", to, err)
		}
	}
}

// The numbers that go over the wire, into the kernel or into scripts (rdma-core,
// libibverbs/verbs.h, as a C compiler prints them).
func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want uint32 }{
		{maskNumber("pkey_index port_num qp_access_flags"), 57},
		{maskNumber("ah_attr path_mtu dest_qp_num rq_psn max_dest_rd_atomic min_rnr_timer"), 1216897},
		{maskNumber("timeout retry_cnt rnr_retry sq_psn max_rd_atomic"), 77313},
		{uint32(WCRecv), 128}, {uint32(WCRecvWriteImm), 129}, {uint32(RC), 2}, {uint32(AttrCap), 524288},
		{uint32(OpFetchAdd), 6}, {uint32(FlagInline), 8}, {uint32(AccessRemoteAtomic), 8}, {uint32(StateErr), 6},
	} {
		if c.got != c.want {
			t.Errorf("got %d, want %d", c.got, c.want)
		}
	}
}

func maskNumber(names string) uint32 { return uint32(maskOf(names) | AttrState) }

func TestStatus(t *testing.T) {
	for s, want := range map[Status]string{
		Success: "success", LocalLengthError: "local length error", LocalProtectionError: "local protection error",
		FlushError: "Work Request Flushed Error", RemoteInvalidRequest: "remote invalid request error",
		RemoteAccessError: "remote access error", RemoteOpError: "remote operation error",
		RetryExceeded: "transport retry counter exceeded", RNRRetryExceeded: "RNR retry counter exceeded",
		GeneralError: "general error", Status(22): "status 22",
	} {
		if got := s.String(); got != want {
			t.Errorf("status %d: got %q, want %q", uint32(s), got, want)
		}
	}
	if err := Success.Err(); err != nil {
		t.Errorf("success is the error %v", err)
	}
	err := fmt.Errorf("rank 3: %w", RetryExceeded.Err())
	var e *StatusError
	if !errors.As(err, &e) || e.Status != RetryExceeded || err.Error() != "rank 3: transport retry counter exceeded (12)" {
		t.Errorf("got %q", err)
	}
}

func TestMTU(t *testing.T) {
	for code, bytes := range map[MTU]int{0: 0, MTU256: 256, MTU512: 512, MTU1024: 1024, MTU2048: 2048, MTU4096: 4096, 6: 0} {
		if got := code.Bytes(); got != bytes {
			t.Errorf("code %d: got %d bytes, want %d", uint32(code), got, bytes)
		}
		if bytes == 0 {
			continue
		}
		if got, err := MTUFromBytes(bytes); err != nil || got != code {
			t.Errorf("%d bytes: got code %d, %v, want %d", bytes, uint32(got), err, uint32(code))
		}
	}
	for _, n := range []int{0, -1, 128, 1500, 8192} {
		if got, err := MTUFromBytes(n); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d bytes: got code %d, %v, want an invalid argument", n, uint32(got), err)
		}
	}
}

func TestAckTimeout(t *testing.T) {
	for code, want := range map[uint8]time.Duration{
		0: 0, 1: 8192, 8: 1048576, 14: 67108864, 31: 4096 << 31, 77: 4096 << 31,
	} {
		if got := AckTimeout(code); got != want {
			t.Errorf("code %d: got %v, want %v", code, got, want)
		}
	}
}

func TestGID(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.2": "::ffff:127.0.0.2", "::1": "::1", "fe80::1%eth0": "fe80::1", "2001:db8::7": "2001:db8::7",
	} {
		a := netip.MustParseAddr(addr)
		g := GIDFromAddr(a)
		if g.String() != want || g.Addr() != a.WithZone("") || g.IsZero() {
			t.Errorf("%s: got GID %s and back %s, want %s", addr, g, g.Addr(), want)
		}
		text, err := g.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back GID
		if err := back.UnmarshalText(text); err != nil || back != g {
			t.Errorf("%s: got %s, %v back from text %q", addr, back, err, text)
		}
	}
	if !(GID{}).IsZero() || !GIDFromAddr(netip.Addr{}).IsZero() {
		t.Error("the zero GID is not zero")
	}
	var g GID
	if err := g.UnmarshalText([]byte("fe80::/64")); !errors.Is(err, ErrInvalid) {
		t.Errorf("a prefix as GID: got %v, want an invalid argument", err)
	}
}

func TestRNRTimer(t *testing.T) {
	for code, want := range map[uint8]time.Duration{
		0: 655360 * time.Microsecond, 1: 10 * time.Microsecond, 7: 120 * time.Microsecond, 12: 640 * time.Microsecond,
		15: 1920 * time.Microsecond, 16: 2560 * time.Microsecond, 24: 40960 * time.Microsecond, 31: 491520 * time.Microsecond,
		32 + 7: 120 * time.Microsecond,
	} {
		if got := RNRTimer(code); got != want {
			t.Errorf("RNRTimer(%d) is %v, expected %v", code, got, want)
		}
	}
}
