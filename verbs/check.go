package verbs

import "fmt"

// MaxMessage is the longest message in bytes (InfiniBand specification 1.4, 9.7.7.1.1).
const MaxMessage = 1 << 31

// CheckQP tells whether a device with these limits makes such a queue pair.
func CheckQP(a *QPInitAttr, limits *DeviceAttr) error {
	switch c := &a.Cap; {
	case a.Type != RC:
		return fmt.Errorf("create queue pair of type %s: %w: only RC is supported", a.Type, ErrInvalid)
	case c.MaxSendWR < 0 || c.MaxSendWR > limits.MaxQPWR || c.MaxRecvWR < 0 || c.MaxRecvWR > limits.MaxQPWR:
		return fmt.Errorf("create queue pair with %d send and %d receive work requests: %w: at most %d each", c.MaxSendWR, c.MaxRecvWR, ErrInvalid, limits.MaxQPWR)
	case c.MaxSendSGE < 0 || c.MaxSendSGE > limits.MaxSGE || c.MaxRecvSGE < 0 || c.MaxRecvSGE > limits.MaxSGE:
		return fmt.Errorf("create queue pair with %d and %d SGEs: %w: at most %d each", c.MaxSendSGE, c.MaxRecvSGE, ErrInvalid, limits.MaxSGE)
	case c.MaxInlineData < 0:
		return fmt.Errorf("create queue pair with %d inline bytes: %w", c.MaxInlineData, ErrInvalid)
	case limits.MaxInline > 0 && c.MaxInlineData > limits.MaxInline:
		return fmt.Errorf("create queue pair with %d inline bytes: %w: at most %d", c.MaxInlineData, ErrInvalid, limits.MaxInline)
	}
	return nil
}

// CheckRegion tells whether a device that takes regions of so many bytes registers such
// a one. what begins the error.
func CheckRegion(what string, addr, length uint64, access Access, most uint64) error {
	switch {
	case addr == 0 || length == 0 || addr+length < addr:
		return fmt.Errorf("%s: %w: expected a mapped, non-empty range", what, ErrInvalid)
	case length > most:
		return fmt.Errorf("%s: %w: the device takes at most %d bytes", what, ErrInvalid, most)
	case access&^AccessAll != 0:
		return fmt.Errorf("%s with access %s: %w: unknown rights", what, access, ErrInvalid)
	case access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0:
		return fmt.Errorf("%s with access %s: %w: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE", what, access, ErrInvalid)
	}
	return nil
}

// CheckSend tells whether a queue pair that is in this state, and has so many requests
// in its send queue, takes a request, and returns the bytes of its message. A
// provider whose driver knows how full the queue is says that it is empty.
func CheckSend(qpn uint32, state QPState, limits *QPCap, queued int, wr *WorkRequest) (length uint64, err error) {
	for i := range wr.SGL {
		length += uint64(wr.SGL[i].Length)
	}
	inline, atomic := wr.Flags&FlagInline != 0, wr.IsAtomic()
	switch {
	case state < StateRTS:
		err = fmt.Errorf("QP 0x%06x: post send in state %s: %w", qpn, state, ErrState)
	case queued >= limits.MaxSendWR:
		err = fmt.Errorf("QP 0x%06x: send queue of %d work requests: %w; poll for completions first", qpn, limits.MaxSendWR, ErrNoMemory)
	case len(wr.SGL) > limits.MaxSendSGE:
		err = fmt.Errorf("QP 0x%06x: %d SGEs: %w: the queue takes %d", qpn, len(wr.SGL), ErrInvalid, limits.MaxSendSGE)
	case wr.Opcode > OpFetchAdd:
		err = fmt.Errorf("QP 0x%06x: %s: %w: unknown to RC", qpn, wr.Opcode, ErrInvalid)
	case length > MaxMessage:
		err = fmt.Errorf("QP 0x%06x: message of %d bytes: %w: at most 2^31", qpn, length, ErrInvalid)
	case atomic && (len(wr.SGL) != 1 || length != 8):
		err = fmt.Errorf("QP 0x%06x: %s into %d bytes in %d pieces: %w: an atomic returns 8 in one", qpn, wr.Opcode, length, len(wr.SGL), ErrInvalid)
	case inline && (atomic || wr.Opcode == OpRead):
		err = fmt.Errorf("QP 0x%06x: inline %s: %w: only SEND and WRITE carry data", qpn, wr.Opcode, ErrInvalid)
	case inline && length > uint64(limits.MaxInlineData):
		err = fmt.Errorf("QP 0x%06x: %d inline bytes: %w: the queue pair was created for %d", qpn, length, ErrInvalid, limits.MaxInlineData)
	}
	return length, err
}

// CheckRecv is CheckSend for a receive request.
func CheckRecv(qpn uint32, state QPState, limits *QPCap, queued int, wr *WorkRequest) error {
	switch {
	case state == StateReset:
		return fmt.Errorf("QP 0x%06x: post receive in state %s: %w", qpn, state, ErrState)
	case queued >= limits.MaxRecvWR:
		return fmt.Errorf("QP 0x%06x: receive queue of %d work requests: %w; poll for completions first", qpn, limits.MaxRecvWR, ErrNoMemory)
	case len(wr.SGL) > limits.MaxRecvSGE:
		return fmt.Errorf("QP 0x%06x: %d SGEs: %w: the queue takes %d", qpn, len(wr.SGL), ErrInvalid, limits.MaxRecvSGE)
	}
	return nil
}

// IsAtomic tells whether the request is COMP_SWAP or FETCH_ADD.
func (wr *WorkRequest) IsAtomic() bool { return wr.Opcode == OpCompSwap || wr.Opcode == OpFetchAdd }

// Set takes the attributes that mask names from another, but for the states.
func (a *QPAttr) Set(from *QPAttr, mask AttrMask) {
	set(mask&AttrPKeyIndex, &a.PKeyIndex, from.PKeyIndex)
	set(mask&AttrPort, &a.PortNum, from.PortNum)
	set(mask&AttrAccess, &a.Access, from.Access)
	set(mask&AttrAV, &a.AH, from.AH)
	set(mask&AttrPathMTU, &a.PathMTU, from.PathMTU)
	set(mask&AttrDestQPN, &a.DestQPN, from.DestQPN)
	set(mask&AttrRQPSN, &a.RQPSN, from.RQPSN)
	set(mask&AttrSQPSN, &a.SQPSN, from.SQPSN)
	set(mask&AttrMaxRDAtomic, &a.MaxRDAtomic, from.MaxRDAtomic)
	set(mask&AttrMaxDestRDAtomic, &a.MaxDestRDAtomic, from.MaxDestRDAtomic)
	set(mask&AttrMinRNRTimer, &a.MinRNRTimer, from.MinRNRTimer)
	set(mask&AttrTimeout, &a.Timeout, from.Timeout)
	set(mask&AttrRetryCnt, &a.RetryCnt, from.RetryCnt)
	set(mask&AttrRNRRetry, &a.RNRRetry, from.RNRRetry)
}

func set[T any](named AttrMask, to *T, from T) {
	if named != 0 {
		*to = from
	}
}
