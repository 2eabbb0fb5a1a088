package objects

import (
	"fmt"

	"ringcli/verbs"
)

// CheckQP tells whether a device with these limits makes such a queue pair.
func CheckQP(a *verbs.QPInitAttr, limits *verbs.DeviceAttr) error {
	switch c := &a.Cap; {
	case a.Type != verbs.RC:
		return fmt.Errorf("create queue pair of type %s: %w: only RC is supported", a.Type, verbs.ErrInvalid)
	case c.MaxSendWR < 0 || c.MaxSendWR > limits.MaxQPWR || c.MaxRecvWR < 0 || c.MaxRecvWR > limits.MaxQPWR:
		return fmt.Errorf("create queue pair with %d send and %d receive work requests: %w: at most %d each",
			c.MaxSendWR, c.MaxRecvWR, verbs.ErrInvalid, limits.MaxQPWR)
	case c.MaxSendSGE < 0 || c.MaxSendSGE > limits.MaxSGE || c.MaxRecvSGE < 0 || c.MaxRecvSGE > limits.MaxSGE:
		return fmt.Errorf("create queue pair with %d and %d SGEs: %w: at most %d each",
			c.MaxSendSGE, c.MaxRecvSGE, verbs.ErrInvalid, limits.MaxSGE)
	case c.MaxInlineData < 0 || c.MaxInlineData > limits.MaxInline:
		return fmt.Errorf("create queue pair with %d inline bytes: %w: at most %d", c.MaxInlineData, verbs.ErrInvalid, limits.MaxInline)
	}
	return nil
}

// SetAttr sets the attributes of to that mask names, but for the state.
func SetAttr(to, from *verbs.QPAttr, mask verbs.AttrMask) {
	for _, f := range []struct {
		mask verbs.AttrMask
		set  func()
	}{
		{verbs.AttrPKeyIndex, func() { to.PKeyIndex = from.PKeyIndex }},
		{verbs.AttrPort, func() { to.PortNum = from.PortNum }},
		{verbs.AttrAccess, func() { to.Access = from.Access }},
		{verbs.AttrAV, func() { to.AH = from.AH }},
		{verbs.AttrPathMTU, func() { to.PathMTU = from.PathMTU }},
		{verbs.AttrDestQPN, func() { to.DestQPN = from.DestQPN }},
		{verbs.AttrRQPSN, func() { to.RQPSN = from.RQPSN }},
		{verbs.AttrSQPSN, func() { to.SQPSN = from.SQPSN }},
		{verbs.AttrMaxRDAtomic, func() { to.MaxRDAtomic = from.MaxRDAtomic }},
		{verbs.AttrMaxDestRDAtomic, func() { to.MaxDestRDAtomic = from.MaxDestRDAtomic }},
		{verbs.AttrMinRNRTimer, func() { to.MinRNRTimer = from.MinRNRTimer }},
		{verbs.AttrTimeout, func() { to.Timeout = from.Timeout }},
		{verbs.AttrRetryCnt, func() { to.RetryCnt = from.RetryCnt }},
		{verbs.AttrRNRRetry, func() { to.RNRRetry = from.RNRRetry }},
	} {
		if mask&f.mask != 0 {
			f.set()
		}
	}
}
