package pingpong

import (
	"time"

	"ringcli/cli/render"
	"ringcli/cli/timing"
)

// PingpongResult is how messages went there and back. Seconds and what follows from
// them are the stock tool's: from before the first message to after the last.
type PingpongResult struct {
	Command     string             `json:"command"`
	OK          bool               `json:"ok"`
	Role        string             `json:"role"` // server or client
	Peer        string             `json:"peer"` // its TCP address
	Device      string             `json:"device"`
	GIDIndex    int                `json:"gid_index"`
	Local       Address            `json:"local"`                                   // what the peer was told of this end's queue pair
	Remote      Address            `json:"remote"`                                  // what the peer told of its own
	Size        int                `json:"size" col:"round trips|11|left|%d bytes"` // bytes of a message
	Iters       int                `json:"iters"`                                   // messages each way
	MTU         int                `json:"mtu"`                                     // bytes
	Bytes       int64              `json:"bytes"`                                   // both ways
	Seconds     float64            `json:"seconds"`
	MbitPerSec  float64            `json:"mbit_per_sec"`
	UsecPerIter float64            `json:"usec_per_iter"`
	RTT         PingpongRoundTrips `json:"rtt_us" col:"Min=min us|9; P50=p50 us|9; P90=p90 us|9; P99=p99 us|9; Max=max us|9"`
	Checked     bool               `json:"checked" col:"data"` // --chk: the data of each message was right
	// Unacknowledged: the peer left before it could acknowledge the last message.
	Unacknowledged bool `json:"unacknowledged,omitempty"`
}

// PingpongRoundTrips are the percentiles of round trips, in microseconds: from one
// message that came to the next; zero where there was but one.
type PingpongRoundTrips struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// newPingpongResult is what an end knows before the first message.
func newPingpongResult(e *end) PingpongResult {
	role := "client"
	if e.o.IsServer() {
		role = "server"
	}
	return PingpongResult{
		OK: true, Role: role, Peer: e.peer.String(), Device: e.Name(), GIDIndex: e.GID.Entry.Index, Local: e.address,
		Size: e.o.Size, Iters: e.o.Iters, MTU: e.o.MTU, Bytes: int64(e.o.Size) * int64(e.o.Iters) * 2, Checked: e.o.Check,
	}
}

func (r *PingpongResult) timed(elapsed time.Duration) {
	us := float64(elapsed) / float64(time.Microsecond)
	r.Seconds = elapsed.Seconds()
	r.MbitPerSec, r.UsecPerIter = timing.SixPlaces(float64(r.Bytes)*8/us), timing.SixPlaces(us/float64(r.Iters))
}

// Adjust implements render.Adjuster.
func (p PingpongResult) Adjust(column string, cell *render.Cell) {
	if column == "data" {
		*cell = render.Cell{Text: "not checked", Mood: render.Faint}
		if p.Checked {
			*cell = render.Cell{Text: "checked", Mood: render.Good}
		}
	}
}
