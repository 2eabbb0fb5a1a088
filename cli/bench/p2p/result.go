package p2p

import (
	"fmt"

	"ringcli/cli/bench/corruption"
	"ringcli/cli/exit"
	"ringcli/configs/codes"
)

// P2PResult is one line of `bench p2p`.
type P2PResult struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Op      string `json:"op" col:"op|5"` // WRITE, READ or SEND
	Bytes   uint64 `json:"bytes" col:"bytes|8|size"`
	Iters   int    `json:"iters" col:"iters|6"`
	// BW and MsgRate are of a bandwidth test, the times of a latency test: half
	// a round trip, or for READ a whole one.
	BW      float64  `json:"bw_GBps" col:"bw GB/s|7"`
	MsgRate float64  `json:"msg_rate_Mpps" col:"Mpps|6"`
	Time    P2PTimes `json:"time_us" col:"Min=t_min us|8; P50=t_p50 us|8; P99=t_p99 us|8; P999=p99.9 us|8"`
	// Wrong is the number of wrong bytes at both ends; nil if not checked.
	Wrong *uint64 `json:"wrong" col:"wrong|5|wrong"`
	// First is the first wrong byte of the lower rank that has one; its offset is
	// that in the message.
	First *corruption.WrongElement `json:"first_wrong,omitempty"`
	// CPUs are those that the ranks poll on; absent where it is not settled for all.
	CPUs []int `json:"cpus,omitempty"`
}

// P2PTimes are the percentiles of a latency test, in microseconds.
type P2PTimes struct {
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// merge adds what the other ranks have checked to rank 0's result.
func merge(all []P2PResult) P2PResult {
	r := all[0]
	for _, other := range all[1:] {
		corruption.AddWrong(&r.Wrong, other.Wrong)
		if r.First == nil {
			r.First = other.First
		}
	}
	r.OK = corruption.IsRight(r.Wrong)
	return r
}

// verdict is the error that a result amounts to: the same on all ranks.
func (p P2PResult) verdict() error {
	if p.OK {
		return nil
	}
	return codes.With(codes.WrongData, exit.Sharedf(exit.Critical, "wrong data: p2p %s of %d bytes: %d wrong bytes, the first at %s", p.Op, p.Bytes, *p.Wrong, fmt.Sprint(p.First)))
}
