package transport

import (
	"fmt"
	"net/netip"

	"ringcli/cli/render"
	"ringcli/configs"
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
	Token   bool   `json:"token"` // callers must have it
}

// Lines implements render.Told.
func (r ServeResult) Lines() []render.Line {
	return []render.Line{
		{Text: fmt.Sprintf("serving on %s (TCP) by %s: %s", r.Listen, r.Device, r.Why), Mood: render.Faint},
		{Text: "RDMA here: " + rdmaText(r.RDMA, r.RDMAWhy), Mood: render.Faint},
		{Text: r.client(), Mood: render.Faint},
		{Text: r.memory(), Mood: render.Faint},
	}
}

// client says what to run at the other end.
func (r ServeResult) client() string {
	at, _ := netip.ParseAddrPort(r.Listen)
	switch addr := at.Addr(); {
	case addr.IsLoopback():
		return fmt.Sprintf("on this machine: ringcli transport bench %s; to serve other nodes: --bind 0.0.0.0", r.Listen)
	case addr.IsUnspecified():
		return fmt.Sprintf("on the other node: ringcli transport bench HOST:%d", r.Port)
	}
	return "on the other node: ringcli transport bench " + r.Listen
}

// memory says how much of it clients get.
func (r ServeResult) memory() string {
	if r.Token {
		return "clients need the token, and get half of the available memory"
	}
	return fmt.Sprintf("clients need no token, and get %s of memory; with --token-file half of what is available", configs.FormatSize(strangersMemory))
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
	Error   string  `json:"error,omitempty"` // why it ended early
}

// Lines implements render.Told.
func (r ServedResult) Lines() []render.Line {
	if !r.OK {
		return []render.Line{{Text: fmt.Sprintf("%s, for %s: after %.3g s: %s", r.Client, r.Purpose, r.Seconds, r.Error), Mood: render.Bad}}
	}
	return []render.Line{{Text: fmt.Sprintf("%s, for %s by %s (%s): %.3g s", r.Client, r.Purpose, r.Device, r.Why, r.Seconds), Mood: render.Plain}}
}
