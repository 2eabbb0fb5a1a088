package verbstest

// RXE is what Linux 6.1's rdma_rxe does otherwise than the suite has it, that is,
// than the InfiniBand Architecture Specification 1.4, volume 1.
const RXE = 0 |
	// A queue pair that comes back from SQD does not send what was queued there
	// until something else is posted. 10.3.1.5: requests posted in SQD are processed
	// after the transition to RTS.
	NoSQD |
	// rxe_qp_from_attr rounds up to a power of two, and reports that. 11.2.5.3: Query
	// gives the attributes as they are, so this is within the specification's word.
	RoundsDepths |
	// A receive posted in ERR stays in the shared queue: nothing wakes the kernel.
	// 10.3.1.7: requests posted in Error are completed in error.
	LateReceivesStay |
	// duplicate_request acknowledges ack_psn - 1, and ack_psn is 0 before the first
	// request. 9.7.5: a duplicate SEND or WRITE is acknowledged like any other.
	DuplicatesUnacked |
	// The length of a SEND is looked at only when it is copied, and failing that is a
	// malformed WQE. 9.7.4.1.6, 9.9.3.1: NAK-invalid request, local length error.
	ShortReceiveOpError |
	// Nor is a SEND's packet compared with the responder's own path MTU. 9.7.4.1.6:
	// a first or middle packet that is not of PMTU length is an invalid request.
	SendMTUUnchecked |
	// An lkey that names no region is -EINVAL, for which the status is Local QP
	// Operation Error. 11.6.2: a protection domain or lkey at fault is Local Protection Error.
	LocalFaultQPOp |
	// Seen: random traffic stalls for good if there are both fences and RNR NAKs, and
	// never without either. 10.8.3.3: a fence waits for prior READs and atomics only.
	FenceStalls |
	// read_reply looks a replayed READ's rkey up, whatever its length. 9.7.4.1.5: the
	// R_Key of a zero-length request is not validated.
	ReplayedKeyChecked
