package verbstest

// RXE is what Linux 6.1's rdma_rxe does otherwise than the suite has it, that is,
// than the InfiniBand Architecture Specification 1.4, volume 1. The functions named
// are in Linux drivers/infiniband/sw/rxe.
const RXE = 0 |
	// A queue pair that comes back from SQD does not send what was queued there until
	// something else is posted: rxe_qp_from_attr wakes nobody for RTS. 10.3.1.5:
	// requests posted in SQD are processed after the transition to RTS.
	NoSQD |
	// rxe_qp_from_attr rounds up to a power of two, and reports that. 11.2.5.3: Query
	// gives the attributes as they are, so this is within the specification's word.
	RoundsDepths |
	// A receive posted in ERR stays in the queue that the library shares with the
	// kernel: it is written there without a call that would wake the responder.
	// 10.3.1.7: requests posted in Error are completed in error.
	LateReceivesStay |
	// duplicate_request acknowledges ack_psn - 1, and ack_psn is 0 before the first
	// SEND, WRITE or atomic is executed: setting rq_psn does not set it, nor do READs.
	// 9.7.5: a duplicate SEND or WRITE is acknowledged like any other.
	DuplicatesUnacked |
	// The length of a SEND is looked at only when it is copied: too long a one is
	// -EINVAL, and send_data_in makes a malformed WQE of that. 9.7.4.1.6, 9.9.3.1:
	// NAK-invalid request, local length error.
	ShortReceiveOpError |
	// Only a WRITE's packets are compared with the responder's own path MTU
	// (check_rkey); those of SENDs, too, since Linux 6.2 (check_length). 9.7.4.1.6: a
	// first or middle packet that is not of PMTU length is an invalid request.
	SendMTUUnchecked |
	// An lkey that names no region is -EINVAL (copy_data), for which rxe_requester's
	// status is Local QP Operation Error; only -EFAULT, beyond the region's end, is
	// Local Protection Error. 11.6.2: a protection domain or lkey at fault is Local
	// Protection Error.
	LocalFaultQPOp |
	// Observed, not found in the source: random traffic stalls for good if there are
	// both fences and RNR NAKs, and never without either. 10.8.3.3: a fence waits for
	// prior READs and atomics only.
	FenceStalls |
	// read_reply looks a replayed READ's rkey up, whatever its length. 9.7.4.1.5: the
	// R_Key of a zero-length request is not validated.
	ReplayedKeyChecked
