package endpoint

import (
	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/route"
)

// Pair is a reliable connected queue pair with its memory.
type Pair struct {
	endpoint *Endpoint
	Block    verbs.Memory // what Register allocated, or what the MR is over
	MR       verbs.MR
	QP       verbs.QP
	PSN      uint32 // of its first packet: random
}

// NewPair makes one of which nothing exists yet; Close of the endpoint closes it.
func (e *Endpoint) NewPair() *Pair {
	p := &Pair{endpoint: e, PSN: verbs.RandomPSN()}
	e.pairs = append(e.pairs, p)
	return p
}

// Register allocates and registers its memory.
func (p *Pair) Register(bytes uint64, access verbs.Access) error {
	block, err := memory.Alloc(bytes)
	if err != nil {
		return err
	}
	p.Block = block
	p.MR, err = p.endpoint.PD.RegMR(p.Block.Addr(), uint64(p.Block.Len()), access)
	return err
}

// Create makes the queue pair, which is in RESET.
func (p *Pair) Create(sends, receives int) (err error) {
	p.QP, _, err = p.endpoint.CreateQP(verbs.QPCap{MaxSendWR: sends, MaxRecvWR: receives, MaxSendSGE: 1, MaxRecvSGE: 1}, false)
	return err
}

// ToInit says what a peer may do to the memory.
func (p *Pair) ToInit(access verbs.Access) error {
	return verbs.Advance(p.QP, verbs.QPAttr{State: verbs.StateInit, PKeyIndex: 0, PortNum: p.endpoint.Options.Port, Access: access})
}

// Remote is the peer's queue pair, and the way to it.
type Remote struct {
	route.Remote
	QPN, PSN uint32
	MTU      verbs.MTU
}

// ToRTR tells the queue pair who its peer is.
func (p *Pair) ToRTR(to Remote) error {
	o := p.endpoint.Options
	ah, err := p.endpoint.Port.AddressVector(p.endpoint.GID.Entry.Index, to.Remote, route.Service{SL: o.SL, TrafficClass: o.TrafficClass})
	if err != nil {
		return err
	}
	return verbs.Advance(p.QP, verbs.QPAttr{
		State: verbs.StateRTR, AH: ah, PathMTU: to.MTU, DestQPN: to.QPN, RQPSN: to.PSN,
		MaxDestRDAtomic: 1, MinRNRTimer: o.MinRNRTimer,
	})
}

// ToRTS lets the queue pair send.
func (p *Pair) ToRTS() error {
	o := p.endpoint.Options
	return verbs.Advance(p.QP, verbs.QPAttr{
		State: verbs.StateRTS, SQPSN: p.PSN, Timeout: o.QPTimeout, RetryCnt: o.RetryCnt, RNRRetry: o.RNRRetry, MaxRDAtomic: 1,
	})
}

func (p *Pair) closeQP() error {
	if p.QP == nil {
		return nil
	}
	return p.QP.Close()
}

func (p *Pair) closeMemory() error {
	if p.MR != nil {
		if err := p.MR.Close(); err != nil {
			return err // the device may still reach the memory: it stays mapped
		}
	}
	if p.Block == nil {
		return nil
	}
	return p.Block.Free()
}
