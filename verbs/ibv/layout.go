//go:build !nodl

package ibv

import "unsafe"

// The structs of infiniband/verbs.h on 64-bit Linux, which amd64 and arm64 share
// but for what lies behind a pthread_mutex_t. A test compiles a C program that
// compares every size and offset with the headers.

// cContext is struct ibv_context up to the mutex.
type cContext struct {
	device         uintptr
	ops            cOps
	cmdFD          int32
	asyncFD        int32
	numCompVectors int32
}

// cOps is struct ibv_context_ops: function pointers, of which four are used here.
type cOps struct {
	_           [11]uintptr
	pollCQ      uintptr
	reqNotifyCQ uintptr
	_           [12]uintptr
	postSend    uintptr
	postRecv    uintptr
	_           [5]uintptr
}

// verbsContextSize is sizeof(struct verbs_context) less its struct ibv_context:
// libibverbs puts it before each context. Its first member is query_port, its
// last but one its size as the library knows it.
const verbsContextSize = 328

// extendedABI is the value of ibv_context.abi_compat if a verbs_context is there.
const extendedABI = ^uintptr(0)

// cDevice is struct ibv_device up to its names.
type cDevice struct {
	_         [2]uintptr
	nodeType  int32
	transport int32
	name      [64]byte
	devName   [64]byte
}

type cDeviceAttr struct {
	fwVer                 [64]byte
	nodeGUID              uint64 // big-endian
	sysImageGUID          uint64 // big-endian
	maxMRSize             uint64
	pageSizeCap           uint64
	vendorID              uint32
	vendorPartID          uint32
	hwVer                 uint32
	maxQP                 int32
	maxQPWR               int32
	deviceCapFlags        uint32
	maxSGE                int32
	maxSGERD              int32
	maxCQ                 int32
	maxCQE                int32
	maxMR                 int32
	maxPD                 int32
	maxQPRDAtom           int32
	maxEERDAtom           int32
	maxResRDAtom          int32
	maxQPInitRDAtom       int32
	maxEEInitRDAtom       int32
	atomicCap             uint32
	maxEE                 int32
	maxRDD                int32
	maxMW                 int32
	maxRawIPv6QP          int32
	maxRawEthyQP          int32
	maxMcastGrp           int32
	maxMcastQPAttach      int32
	maxTotalMcastQPAttach int32
	maxAH                 int32
	maxFMR                int32
	maxMapPerFMR          int32
	maxSRQ                int32
	maxSRQWR              int32
	maxSRQSGE             int32
	maxPKeys              uint16
	localCAAckDelay       uint8
	physPortCnt           uint8
}

type cPortAttr struct {
	state         uint32
	maxMTU        uint32
	activeMTU     uint32
	gidTblLen     int32
	portCapFlags  uint32
	maxMsgSz      uint32
	badPKeyCntr   uint32
	qkeyViolCntr  uint32
	pkeyTblLen    uint16
	lid           uint16
	smLID         uint16
	lmc           uint8
	maxVLNum      uint8
	smSL          uint8
	subnetTimeout uint8
	initTypeReply uint8
	activeWidth   uint8
	activeSpeed   uint8
	physState     uint8
	linkLayer     uint8
	flags         uint8
	portCapFlags2 uint16
	activeSpeedEx uint32 // since rdma-core 58; older libraries leave it alone
}

type cGIDEntry struct {
	gid         [16]byte
	index       uint32
	port        uint32
	gidType     uint32
	ndevIfindex uint32
}

type cPD struct {
	context uintptr
	handle  uint32
}

type cMR struct {
	context uintptr
	pd      uintptr
	addr    uintptr
	length  uint64
	handle  uint32
	lkey    uint32
	rkey    uint32
}

type cCompChannel struct {
	context uintptr
	fd      int32
	refcnt  int32
}

// cCQ is struct ibv_cq up to the mutex.
type cCQ struct {
	context uintptr
	channel uintptr
	cookie  uintptr // cq_context
	handle  uint32
	cqe     int32
}

// cQP is struct ibv_qp up to the mutex.
type cQP struct {
	context uintptr
	cookie  uintptr // qp_context
	pd      uintptr
	sendCQ  uintptr
	recvCQ  uintptr
	srq     uintptr
	handle  uint32
	num     uint32
	state   uint32
	qpType  uint32
}

type cQPCap struct {
	maxSendWR     uint32
	maxRecvWR     uint32
	maxSendSGE    uint32
	maxRecvSGE    uint32
	maxInlineData uint32
}

type cQPInitAttr struct {
	cookie   uintptr // qp_context
	sendCQ   uintptr
	recvCQ   uintptr
	srq      uintptr
	cap      cQPCap
	qpType   uint32
	sqSigAll int32
}

type cGlobalRoute struct {
	dgid         [16]byte
	flowLabel    uint32
	sgidIndex    uint8
	hopLimit     uint8
	trafficClass uint8
}

type cAHAttr struct {
	grh         cGlobalRoute
	dlid        uint16
	sl          uint8
	srcPathBits uint8
	staticRate  uint8
	isGlobal    uint8
	portNum     uint8
}

type cQPAttr struct {
	qpState          uint32
	curQPState       uint32
	pathMTU          uint32
	pathMigState     uint32
	qkey             uint32
	rqPSN            uint32
	sqPSN            uint32
	destQPNum        uint32
	qpAccessFlags    uint32
	cap              cQPCap
	ahAttr           cAHAttr
	altAHAttr        cAHAttr
	pkeyIndex        uint16
	altPKeyIndex     uint16
	enSQDAsyncNotify uint8
	sqDraining       uint8
	maxRDAtomic      uint8
	maxDestRDAtomic  uint8
	minRNRTimer      uint8
	portNum          uint8
	timeout          uint8
	retryCnt         uint8
	rnrRetry         uint8
	altPortNum       uint8
	altTimeout       uint8
	rateLimit        uint32
}

type cSGE struct {
	addr   uint64
	length uint32
	lkey   uint32
}

// cSendWR is struct ibv_send_wr. Its union holds {remote_addr, rkey} of WRITE and
// READ, or {remote_addr, compare_add, swap, rkey} of atomics: the rkey of the
// former lies in the first four bytes of compareAdd.
type cSendWR struct {
	id         uint64
	next       uintptr
	sgList     uintptr
	numSGE     int32
	opcode     uint32
	flags      uint32
	imm        uint32 // big-endian
	remoteAddr uint64
	compareAdd uint64
	swap       uint64
	atomicRKey uint32
	_          [52]byte
}

type cRecvWR struct {
	id     uint64
	next   uintptr
	sgList uintptr
	numSGE int32
}

type cWC struct {
	id        uint64
	status    uint32
	opcode    uint32
	vendorErr uint32
	byteLen   uint32
	imm       uint32 // big-endian
	qpNum     uint32
	srcQP     uint32
	flags     uint32
	_         [8]byte
}

type cAsyncEvent struct {
	element   uintptr // a CQ, a QP, ... or in its lower half a port number
	eventType uint32
}

const (
	portAttrSize = unsafe.Sizeof(cPortAttr{})
	gidEntrySize = unsafe.Sizeof(cGIDEntry{})
	wcSize       = unsafe.Sizeof(cWC{})
	sgeSize      = unsafe.Sizeof(cSGE{})
	sendWRSize   = unsafe.Sizeof(cSendWR{})
	recvWRSize   = unsafe.Sizeof(cRecvWR{})
)
