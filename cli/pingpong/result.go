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

func newPingpongResult(command string, o *Options, r Result, watch *timing.Stopwatch) PingpongResult {
	role := "client"
	if o.IsServer() {
		role = "server"
	}
	bytes, us := int64(o.Size)*int64(o.Iters)*2, float64(r.Elapsed)/float64(time.Microsecond)
	result := PingpongResult{
		Command: command, OK: true, Role: role, Peer: r.Peer.String(), Device: r.Device, GIDIndex: r.GIDIndex, Local: r.Local, Remote: r.Remote,
		Size: o.Size, Iters: o.Iters, MTU: o.MTU, Bytes: bytes, Seconds: r.Elapsed.Seconds(),
		MbitPerSec: timing.SixPlaces(float64(bytes) * 8 / us), UsecPerIter: timing.SixPlaces(us / float64(o.Iters)),
		Checked: o.Check, Unacknowledged: r.Unacknowledged,
	}
	if watch.Count() > 0 {
		t := watch.Times()
		result.RTT = PingpongRoundTrips{Min: t.Min, P50: t.P50, P90: watch.At(90), P99: t.P99, Max: t.Max}
	}
	return result
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
