package transport

import (
	"fmt"

	"ringcli/cli/render"
)

// ServeResult says where a server listens, and by what.
type ServeResult struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Listen  string `json:"listen"` // TCP address
	Port    int    `json:"port"`   // its port
	Device  string `json:"device"`
	Why     string `json:"why"` // the device was taken
	// RDMA tells whether there is real RDMA here, taken or not, and RDMAWhy why.
	RDMA    bool   `json:"rdma"`
	RDMAWhy string `json:"rdma_why"`
	Token   bool   `json:"token"`         // callers must have it
	Dir     string `json:"dir,omitempty"` // below which they may copy
}

// Lines implements render.Told.
func (r ServeResult) Lines() []render.Line {
	lines := []render.Line{
		{Text: fmt.Sprintf("serving on %s (TCP) by %s: %s", r.Listen, r.Device, r.Why), Mood: render.Faint},
		{Text: "RDMA here: " + rdmaText(r.RDMA, r.RDMAWhy), Mood: render.Faint},
		{Text: fmt.Sprintf("on the other node: ringcli transport bench HOST:%d", r.Port), Mood: render.Faint},
	}
	if r.Dir != "" {
		lines = append(lines, render.Line{Text: fmt.Sprintf("or: ringcli copy --tcp-port %d FILE HOST:FILE, below %s here", r.Port, r.Dir), Mood: render.Faint})
	}
	return lines
}

func rdmaText(supported bool, why string) string {
	if supported {
		return "yes: " + why
	}
	return "no: " + why
}

// ServedResult is a client that was served.
type ServedResult struct {
	Command string  `json:"command"`
	OK      bool    `json:"ok"`
	Client  string  `json:"client"` // its host and process, and its TCP address
	Purpose string  `json:"purpose"`
	Device  string  `json:"device,omitempty"`
	Why     string  `json:"why,omitempty"` // the device was taken
	Seconds float64 `json:"seconds"`
	Bytes   int64   `json:"bytes,omitempty"` // that a copy had to move
	Error   string  `json:"error,omitempty"` // why it ended early
}

// Lines implements render.Told.
func (r ServedResult) Lines() []render.Line {
	if !r.OK {
		return []render.Line{{Text: fmt.Sprintf("%s, for %s: after %.3g s: %s", r.Client, r.Purpose, r.Seconds, r.Error), Mood: render.Bad}}
	}
	return []render.Line{{Text: fmt.Sprintf("%s, for %s by %s (%s): %.3g s", r.Client, r.Purpose, r.Device, r.Why, r.Seconds), Mood: render.Plain}}
}

// CopyResult is a file that was copied.
type CopyResult struct {
	Command    string  `json:"command"`
	OK         bool    `json:"ok"`
	From       string  `json:"from"`
	To         string  `json:"to"`
	Bytes      int64   `json:"bytes"`
	Resumed    int64   `json:"resumed"` // of them were there from a copy that was cut off
	Seconds    float64 `json:"seconds"`
	BW         float64 `json:"bw_GBps"` // of the bytes that were moved
	SHA256     string  `json:"sha256"`  // of the whole file, at both ends
	Device     string  `json:"device"`
	Why        string  `json:"why"` // the device was taken
	PeerDevice string  `json:"peer_device"`
	PeerWhy    string  `json:"peer_why"`
}

// Lines implements render.Told.
func (r CopyResult) Lines() []render.Line {
	resumed := ""
	if r.Resumed > 0 {
		resumed = fmt.Sprintf("; %d bytes were there", r.Resumed)
	}
	return []render.Line{
		{Text: fmt.Sprintf("%s to %s: %d bytes in %.3g s, %.3f GB/s%s", r.From, r.To, r.Bytes, r.Seconds, r.BW, resumed), Mood: render.Good},
		{Text: "sha256 " + r.SHA256, Mood: render.Plain},
		{Text: fmt.Sprintf("by %s (%s) to %s (%s)", r.Device, r.Why, r.PeerDevice, r.PeerWhy), Mood: render.Faint},
	}
}
