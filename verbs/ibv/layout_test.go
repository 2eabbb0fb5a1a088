//go:build !nodl

package ibv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"ringcli/verbs"
)

// A C program prints every number that this package takes for granted, and this
// test compares: `NAME VALUE` a line.
func TestLayoutIsTheHeaders(t *testing.T) {
	checks := append(structs(), enums()...)
	got := probe(t, checks)
	for _, c := range checks {
		value, ok := got[c.c]
		if !ok {
			t.Errorf("%s: the C program says nothing of it", c.c)
		} else if value != c.want {
			t.Errorf("%s is %d in the headers, %d here", c.c, value, c.want)
		}
	}
	t.Logf("%d numbers compared", len(checks))
}

// check is an expression of C and what it is taken for here.
type check struct {
	c    string
	want uint64
}

func structs() (all []check) {
	size := func(name string, n uintptr) { all = append(all, check{"sizeof(struct " + name + ")", uint64(n)}) }
	at := func(name, field string, n uintptr) {
		all = append(all, check{fmt.Sprintf("offsetof(struct %s, %s)", name, field), uint64(n)})
	}
	fields := func(name string, base any) {
		s := reflect.TypeOf(base)
		for i := range s.NumField() {
			if f := s.Field(i); f.Tag.Get("c") != "" {
				at(name, f.Tag.Get("c"), f.Offset)
			}
		}
	}
	var ctx cContext
	fields("ibv_context", ctx)
	ops := reflect.TypeOf(ctx.ops)
	for i := range ops.NumField() {
		if f := ops.Field(i); f.Tag.Get("c") != "" {
			at("ibv_context", "ops."+f.Tag.Get("c"), unsafe.Offsetof(ctx.ops)+f.Offset)
		}
	}
	at("ibv_context", "abi_compat", abiCompat)
	size("ibv_context", abiCompat+8)
	at("verbs_context", "query_port", 0)
	at("verbs_context", "context", verbsContextSize)
	at("verbs_context", "sz", verbsContextSize-8)
	fields("ibv_device", cDevice{})
	fields("ibv_device_attr", cDeviceAttr{})
	size("ibv_device_attr", unsafe.Sizeof(cDeviceAttr{}))
	fields("ibv_port_attr", cPortAttr{})
	fields("ibv_gid_entry", cGIDEntry{})
	size("ibv_gid_entry", gidEntrySize)
	fields("ibv_mr", cMR{})
	size("ibv_mr", unsafe.Sizeof(cMR{}))
	fields("ibv_comp_channel", cCompChannel{})
	size("ibv_comp_channel", unsafe.Sizeof(cCompChannel{}))
	fields("ibv_cq", cCQ{})
	fields("ibv_qp", cQP{})
	fields("ibv_qp_cap", cQPCap{})
	size("ibv_qp_cap", unsafe.Sizeof(cQPCap{}))
	fields("ibv_qp_init_attr", cQPInitAttr{})
	size("ibv_qp_init_attr", unsafe.Sizeof(cQPInitAttr{}))
	fields("ibv_global_route", cGlobalRoute{})
	size("ibv_global_route", unsafe.Sizeof(cGlobalRoute{}))
	fields("ibv_ah_attr", cAHAttr{})
	size("ibv_ah_attr", unsafe.Sizeof(cAHAttr{}))
	fields("ibv_qp_attr", cQPAttr{})
	size("ibv_qp_attr", unsafe.Sizeof(cQPAttr{}))
	fields("ibv_sge", cSGE{})
	size("ibv_sge", sgeSize)
	fields("ibv_send_wr", cSendWR{})
	at("ibv_send_wr", "wr.rdma.remote_addr", unsafe.Offsetof(cSendWR{}.remoteAddr))
	at("ibv_send_wr", "wr.rdma.rkey", unsafe.Offsetof(cSendWR{}.compareAdd))
	size("ibv_send_wr", sendWRSize)
	fields("ibv_recv_wr", cRecvWR{})
	size("ibv_recv_wr", recvWRSize)
	fields("ibv_wc", cWC{})
	size("ibv_wc", wcSize)
	fields("ibv_async_event", cAsyncEvent{})
	size("ibv_async_event", unsafe.Sizeof(cAsyncEvent{}))
	return all
}

// probe compiles and runs the C program.
func probe(t *testing.T, checks []check) map[string]uint64 {
	t.Helper()
	needed := func(what string, err error) {
		text := fmt.Sprintf("%s (Debian: gcc libc6-dev libibverbs-dev): %v", what, err)
		if os.Getenv("CI") == "true" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		needed("no C compiler", err)
	}
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		needed("no headers of libibverbs", err)
	}
	var b strings.Builder
	b.WriteString("#include <stdio.h>\n#include <stddef.h>\n#include <infiniband/verbs.h>\nint main(void) {\n")
	for _, c := range checks {
		fmt.Fprintf(&b, "\tprintf(\"%%llu\\t%%s\\n\", (unsigned long long)(%s), \"%s\");\n", c.c, c.c)
	}
	b.WriteString("}\n")
	dir := t.TempDir()
	source, program := filepath.Join(dir, "probe.c"), filepath.Join(dir, "probe")
	if err := os.WriteFile(source, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), gcc, "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program).Output()
	if err != nil {
		t.Fatalf("the C program: %v", err)
	}
	got := map[string]uint64{}
	for l := range strings.Lines(string(out)) {
		value, name, _ := strings.Cut(strings.TrimSpace(l), "\t")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			t.Fatalf("line %q: %v", l, err)
		}
		got[name] = n
	}
	return got
}

// enums are the numbers of package verbs, which this one passes on as they are.
func enums() (all []check) {
	add := func(c string, v uint32) { all = append(all, check{c, uint64(v)}) }
	for i, name := range []string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"} {
		add("IBV_QPS_"+name, uint32(i))
	}
	for name, v := range map[string]verbs.AttrMask{
		"STATE": verbs.AttrState, "CUR_STATE": verbs.AttrCurState, "ACCESS_FLAGS": verbs.AttrAccess, "PKEY_INDEX": verbs.AttrPKeyIndex,
		"PORT": verbs.AttrPort, "AV": verbs.AttrAV, "PATH_MTU": verbs.AttrPathMTU, "TIMEOUT": verbs.AttrTimeout,
		"RETRY_CNT": verbs.AttrRetryCnt, "RNR_RETRY": verbs.AttrRNRRetry, "RQ_PSN": verbs.AttrRQPSN,
		"MAX_QP_RD_ATOMIC": verbs.AttrMaxRDAtomic, "MIN_RNR_TIMER": verbs.AttrMinRNRTimer, "SQ_PSN": verbs.AttrSQPSN,
		"MAX_DEST_RD_ATOMIC": verbs.AttrMaxDestRDAtomic, "CAP": verbs.AttrCap, "DEST_QPN": verbs.AttrDestQPN,
	} {
		add("IBV_QP_"+name, uint32(v))
	}
	for name, v := range map[string]uint32{
		"IBV_QPT_RC": uint32(verbs.RC), "IBV_WR_RDMA_WRITE": uint32(verbs.OpWrite), "IBV_WR_RDMA_WRITE_WITH_IMM": uint32(verbs.OpWriteImm),
		"IBV_WR_SEND": uint32(verbs.OpSend), "IBV_WR_SEND_WITH_IMM": uint32(verbs.OpSendImm), "IBV_WR_RDMA_READ": uint32(verbs.OpRead),
		"IBV_WR_ATOMIC_CMP_AND_SWP": uint32(verbs.OpCompSwap), "IBV_WR_ATOMIC_FETCH_AND_ADD": uint32(verbs.OpFetchAdd),
		"IBV_SEND_FENCE": uint32(verbs.FlagFence), "IBV_SEND_SIGNALED": uint32(verbs.FlagSignaled),
		"IBV_SEND_SOLICITED": uint32(verbs.FlagSolicited), "IBV_SEND_INLINE": uint32(verbs.FlagInline),
		"IBV_WC_SEND": uint32(verbs.WCSend), "IBV_WC_RDMA_WRITE": uint32(verbs.WCWrite), "IBV_WC_RDMA_READ": uint32(verbs.WCRead),
		"IBV_WC_COMP_SWAP": uint32(verbs.WCCompSwap), "IBV_WC_FETCH_ADD": uint32(verbs.WCFetchAdd), "IBV_WC_RECV": uint32(verbs.WCRecv),
		"IBV_WC_RECV_RDMA_WITH_IMM": uint32(verbs.WCRecvWriteImm), "IBV_WC_WITH_IMM": uint32(verbs.WCWithImm),
		"IBV_ACCESS_LOCAL_WRITE": uint32(verbs.AccessLocalWrite), "IBV_ACCESS_REMOTE_WRITE": uint32(verbs.AccessRemoteWrite),
		"IBV_ACCESS_REMOTE_READ": uint32(verbs.AccessRemoteRead), "IBV_ACCESS_REMOTE_ATOMIC": uint32(verbs.AccessRemoteAtomic),
		"IBV_MTU_256": uint32(verbs.MTU256), "IBV_MTU_4096": uint32(verbs.MTU4096), "IBV_PORT_DOWN": uint32(verbs.PortDown),
		"IBV_PORT_INIT": uint32(verbs.PortInit), "IBV_PORT_ARMED": uint32(verbs.PortArmed), "IBV_PORT_ACTIVE": uint32(verbs.PortActive),
		"IBV_LINK_LAYER_INFINIBAND": uint32(verbs.LinkInfiniBand), "IBV_LINK_LAYER_ETHERNET": uint32(verbs.LinkEthernet),
		"IBV_GID_TYPE_IB": uint32(verbs.GIDTypeIB), "IBV_GID_TYPE_ROCE_V1": uint32(verbs.GIDTypeRoCEv1),
		"IBV_GID_TYPE_ROCE_V2": uint32(verbs.GIDTypeRoCEv2), "IBV_ATOMIC_NONE": uint32(verbs.AtomicNone),
		"IBV_ATOMIC_HCA": uint32(verbs.AtomicHCA), "IBV_ATOMIC_GLOB": uint32(verbs.AtomicGlobal),
		"IBV_TRANSPORT_IB": 0, "IBV_TRANSPORT_IWARP": 1,
	} {
		add(name, v)
	}
	for i, name := range []string{
		"SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "MW_BIND_ERR", "BAD_RESP_ERR",
		"LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR", "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",
		"REM_INV_RD_REQ_ERR", "REM_ABORT_ERR", "INV_EECN_ERR", "INV_EEC_STATE_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR", "GENERAL_ERR",
	} {
		add("IBV_WC_"+name, uint32(i))
	}
	for i, name := range []string{
		"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG", "PATH_MIG_ERR", "DEVICE_FATAL",
		"PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE", "SRQ_ERR", "SRQ_LIMIT_REACHED", "QP_LAST_WQE_REACHED",
		"CLIENT_REREGISTER", "GID_CHANGE", "WQ_FATAL",
	} {
		add("IBV_EVENT_"+name, uint32(i))
	}
	return all
}
