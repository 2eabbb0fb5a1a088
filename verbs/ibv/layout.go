//go:build !nodl

//nolint:unused // members that nobody reads hold the places of the others
package ibv

import "unsafe"

// The structs of infiniband/verbs.h on 64-bit Linux, which amd64 and arm64 share
// but for what lies behind a pthread_mutex_t. A test compiles a C program that
// compares every size and offset with the headers: a tag is the member's name in C.
// Members that nobody reads are blank where several stand together. Where it says
// big-endian the bytes are to be reversed: both architectures are little-endian.

// cContext is struct ibv_context up to what is read of it.
type cContext struct {
	_       uintptr
	ops     cOps  `c:"ops"`
	cmdFD   int32 `c:"cmd_fd"`
	asyncFD int32 `c:"async_fd"`
}

// cOps is struct ibv_context_ops: function pointers, of which four are used here.
type cOps struct {
	_           [11]uintptr
	pollCQ      uintptr `c:"poll_cq"`
	reqNotifyCQ uintptr `c:"req_notify_cq"`
	_           [12]uintptr
	postSend    uintptr `c:"post_send"`
	postRecv    uintptr `c:"post_recv"`
	_           [5]uintptr
}

// verbsContextSize is sizeof(struct verbs_context) less its struct ibv_context:
// libibverbs puts it before each context. Its first member is query_port, its
// last but one its size as the library knows it.
const verbsContextSize = 320

// extendedABI is the value of ibv_context.abi_compat if a verbs_context is there.
const extendedABI = ^uintptr(0)

// cDevice is struct ibv_device up to its name.
type cDevice struct {
	_         [20]byte
	transport int32    `c:"transport_type"`
	name      [64]byte `c:"name"`
}

type cDeviceAttr struct {
	fwVer                 [64]byte `c:"fw_ver"`
	nodeGUID              uint64   `c:"node_guid"`      // big-endian
	sysImageGUID          uint64   `c:"sys_image_guid"` // big-endian
	maxMRSize             uint64   `c:"max_mr_size"`
	pageSizeCap           uint64   `c:"page_size_cap"`
	vendorID              uint32   `c:"vendor_id"`
	vendorPartID          uint32   `c:"vendor_part_id"`
	hwVer                 uint32   `c:"hw_ver"`
	maxQP                 int32    `c:"max_qp"`
	maxQPWR               int32    `c:"max_qp_wr"`
	deviceCapFlags        uint32   `c:"device_cap_flags"`
	maxSGE                int32    `c:"max_sge"`
	maxSGERD              int32    `c:"max_sge_rd"`
	maxCQ                 int32    `c:"max_cq"`
	maxCQE                int32    `c:"max_cqe"`
	maxMR                 int32    `c:"max_mr"`
	maxPD                 int32    `c:"max_pd"`
	maxQPRDAtom           int32    `c:"max_qp_rd_atom"`
	maxEERDAtom           int32    `c:"max_ee_rd_atom"`
	maxResRDAtom          int32    `c:"max_res_rd_atom"`
	maxQPInitRDAtom       int32    `c:"max_qp_init_rd_atom"`
	maxEEInitRDAtom       int32    `c:"max_ee_init_rd_atom"`
	atomicCap             uint32   `c:"atomic_cap"`
	maxEE                 int32    `c:"max_ee"`
	maxRDD                int32    `c:"max_rdd"`
	maxMW                 int32    `c:"max_mw"`
	maxRawIPv6QP          int32    `c:"max_raw_ipv6_qp"`
	maxRawEthyQP          int32    `c:"max_raw_ethy_qp"`
	maxMcastGrp           int32    `c:"max_mcast_grp"`
	maxMcastQPAttach      int32    `c:"max_mcast_qp_attach"`
	maxTotalMcastQPAttach int32    `c:"max_total_mcast_qp_attach"`
	maxAH                 int32    `c:"max_ah"`
	maxFMR                int32    `c:"max_fmr"`
	maxMapPerFMR          int32    `c:"max_map_per_fmr"`
	maxSRQ                int32    `c:"max_srq"`
	maxSRQWR              int32    `c:"max_srq_wr"`
	maxSRQSGE             int32    `c:"max_srq_sge"`
	maxPKeys              uint16   `c:"max_pkeys"`
	localCAAckDelay       uint8    `c:"local_ca_ack_delay"`
	physPortCnt           uint8    `c:"phys_port_cnt"`
}

type cPortAttr struct {
	state         uint32 `c:"state"`
	maxMTU        uint32 `c:"max_mtu"`
	activeMTU     uint32 `c:"active_mtu"`
	gidTblLen     int32  `c:"gid_tbl_len"`
	portCapFlags  uint32 `c:"port_cap_flags"`
	maxMsgSz      uint32 `c:"max_msg_sz"`
	badPKeyCntr   uint32 `c:"bad_pkey_cntr"`
	qkeyViolCntr  uint32 `c:"qkey_viol_cntr"`
	pkeyTblLen    uint16 `c:"pkey_tbl_len"`
	lid           uint16 `c:"lid"`
	smLID         uint16 `c:"sm_lid"`
	lmc           uint8  `c:"lmc"`
	maxVLNum      uint8  `c:"max_vl_num"`
	smSL          uint8  `c:"sm_sl"`
	subnetTimeout uint8  `c:"subnet_timeout"`
	initTypeReply uint8  `c:"init_type_reply"`
	activeWidth   uint8  `c:"active_width"`
	activeSpeed   uint8  `c:"active_speed"`
	physState     uint8  `c:"phys_state"`
	linkLayer     uint8  `c:"link_layer"`
	flags         uint8  `c:"flags"`
	portCapFlags2 uint16 `c:"port_cap_flags2"`
	activeSpeedEx uint32 // since rdma-core 58; older libraries leave it alone
}

type cGIDEntry struct {
	gid         [16]byte `c:"gid"`
	index       uint32   `c:"gid_index"`
	port        uint32   `c:"port_num"`
	gidType     uint32   `c:"gid_type"`
	ndevIfindex uint32   `c:"ndev_ifindex"`
}

type cMR struct {
	_    [4]uint64 // context, pd, addr, length
	_    uint32
	lkey uint32 `c:"lkey"`
	rkey uint32 `c:"rkey"`
}

type cCompChannel struct {
	context uintptr `c:"context"`
	fd      int32   `c:"fd"`
	refcnt  int32   `c:"refcnt"`
}

// cCQ is struct ibv_cq up to the mutex.
type cCQ struct {
	_      [2]uintptr
	cookie uintptr `c:"cq_context"`
	handle uint32  `c:"handle"`
	cqe    int32   `c:"cqe"`
}

// cQP is struct ibv_qp up to its number.
type cQP struct {
	_      [6]uintptr // context, qp_context, pd, send_cq, recv_cq, srq
	handle uint32     `c:"handle"`
	num    uint32     `c:"qp_num"`
}

type cQPCap struct {
	maxSendWR     uint32 `c:"max_send_wr"`
	maxRecvWR     uint32 `c:"max_recv_wr"`
	maxSendSGE    uint32 `c:"max_send_sge"`
	maxRecvSGE    uint32 `c:"max_recv_sge"`
	maxInlineData uint32 `c:"max_inline_data"`
}

type cQPInitAttr struct {
	cookie   uintptr `c:"qp_context"` // qp_context
	sendCQ   uintptr `c:"send_cq"`
	recvCQ   uintptr `c:"recv_cq"`
	srq      uintptr `c:"srq"`
	cap      cQPCap  `c:"cap"`
	qpType   uint32  `c:"qp_type"`
	sqSigAll int32   `c:"sq_sig_all"`
}

type cGlobalRoute struct {
	dgid         [16]byte `c:"dgid"`
	flowLabel    uint32   `c:"flow_label"`
	sgidIndex    uint8    `c:"sgid_index"`
	hopLimit     uint8    `c:"hop_limit"`
	trafficClass uint8    `c:"traffic_class"`
}

type cAHAttr struct {
	grh      cGlobalRoute `c:"grh"`
	dlid     uint16       `c:"dlid"`
	sl       uint8        `c:"sl"`
	_        [2]uint8     // src_path_bits, static_rate
	isGlobal uint8        `c:"is_global"`
	portNum  uint8        `c:"port_num"`
}

type cQPAttr struct {
	qpState         uint32    `c:"qp_state"`
	curQPState      uint32    `c:"cur_qp_state"`
	pathMTU         uint32    `c:"path_mtu"`
	_               [2]uint32 // path_mig_state, qkey
	rqPSN           uint32    `c:"rq_psn"`
	sqPSN           uint32    `c:"sq_psn"`
	destQPNum       uint32    `c:"dest_qp_num"`
	qpAccessFlags   uint32    `c:"qp_access_flags"`
	cap             cQPCap    `c:"cap"`
	ahAttr          cAHAttr   `c:"ah_attr"`
	altAHAttr       cAHAttr   `c:"alt_ah_attr"`
	pkeyIndex       uint16    `c:"pkey_index"`
	_               [4]byte   // alt_pkey_index, en_sqd_async_notify, sq_draining
	maxRDAtomic     uint8     `c:"max_rd_atomic"`
	maxDestRDAtomic uint8     `c:"max_dest_rd_atomic"`
	minRNRTimer     uint8     `c:"min_rnr_timer"`
	portNum         uint8     `c:"port_num"`
	timeout         uint8     `c:"timeout"`
	retryCnt        uint8     `c:"retry_cnt"`
	rnrRetry        uint8     `c:"rnr_retry"`
	_               [2]uint8  // alt_port_num, alt_timeout
	_               [2]uint32 // rate_limit
}

type cSGE struct {
	addr   uint64 `c:"addr"`
	length uint32 `c:"length"`
	lkey   uint32 `c:"lkey"`
}

// cSendWR is struct ibv_send_wr. Its union holds {remote_addr, rkey} of WRITE and
// READ, or {remote_addr, compare_add, swap, rkey} of atomics: the rkey of the
// former lies in the first four bytes of compareAdd.
type cSendWR struct {
	id         uint64  `c:"wr_id"`
	next       uintptr `c:"next"`
	sgList     uintptr `c:"sg_list"`
	numSGE     int32   `c:"num_sge"`
	opcode     uint32  `c:"opcode"`
	flags      uint32  `c:"send_flags"`
	imm        uint32  `c:"imm_data"` // big-endian
	remoteAddr uint64  `c:"wr.atomic.remote_addr"`
	compareAdd uint64  `c:"wr.atomic.compare_add"`
	swap       uint64  `c:"wr.atomic.swap"`
	atomicRKey uint32  `c:"wr.atomic.rkey"`
	_          [60]byte
}

type cRecvWR struct {
	id     uint64  `c:"wr_id"`
	next   uintptr `c:"next"`
	sgList uintptr `c:"sg_list"`
	numSGE int32   `c:"num_sge"`
}

type cWC struct {
	id        uint64 `c:"wr_id"`
	status    uint32 `c:"status"`
	opcode    uint32 `c:"opcode"`
	vendorErr uint32 `c:"vendor_err"`
	byteLen   uint32 `c:"byte_len"`
	imm       uint32 `c:"imm_data"` // big-endian
	qpNum     uint32 `c:"qp_num"`
	srcQP     uint32 `c:"src_qp"`
	flags     uint32 `c:"wc_flags"`
	_         [8]byte
}

type cAsyncEvent struct {
	element   uintptr `c:"element"` // a CQ, a QP, ... or in its lower half a port number
	eventType uint32  `c:"event_type"`
}

const (
	portAttrSize = unsafe.Sizeof(cPortAttr{})
	gidEntrySize = unsafe.Sizeof(cGIDEntry{})
	wcSize       = unsafe.Sizeof(cWC{})
	sgeSize      = unsafe.Sizeof(cSGE{})
	sendWRSize   = unsafe.Sizeof(cSendWR{})
	recvWRSize   = unsafe.Sizeof(cRecvWR{})
)
