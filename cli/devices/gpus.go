package devices

import (
	"context"
	"errors"
	"slices"

	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/verbs/gpu"
)

// GPURuntime is a library that has GPUs and, if it cannot be used, why.
type GPURuntime struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Runtime string `json:"runtime" col:"runtime"` // cuda, hip
	GPUs    int    `json:"gpus" col:"gpus"`
	Library string `json:"library" col:"library|dash"`
	Version string `json:"version" col:"version|dash"`
	Reason  string `json:"reason" col:"remark|fair"`
}

// GPUInfo is a GPU.
type GPUInfo struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	GPU     string `json:"gpu" col:"gpu"` // cuda:0
	Name    string `json:"name" col:"name|last"`
	Memory  uint64 `json:"memory_bytes" col:"memory|unit"`
	PCI     string `json:"pci" col:"PCI"`
	UUID    string `json:"uuid"`
	Arch    string `json:"arch" col:"arch|dash"` // sm_90, gfx942
}

// GPULinks is what joins a GPU to the others of its runtime, and how far the RDMA devices are.
type GPULinks struct {
	Command  string       `json:"command"`
	OK       bool         `json:"ok"` // it has access to all others
	GPU      string       `json:"gpu"`
	Peers    []GPUPeer    `json:"peers"`
	Adapters []GPUAdapter `json:"adapters"`
}

// GPUPeer is another GPU: without access, what goes there is staged through the host's memory.
type GPUPeer struct {
	GPU    string `json:"gpu"`
	Access bool   `json:"access"`
	Link   string `json:"link"` // nvlink, xgmi, pcie, "" without access
}

// GPUAdapter is an RDMA device, and how far it is: PIX, PXB, PHB, NODE or SYS.
type GPUAdapter struct {
	Device   string `json:"device"`
	Distance string `json:"distance"`
}

// Row implements render.Tabular: a row of a matrix.
func (l GPULinks) Row() (head []render.Column, row []render.Cell) {
	add := func(name, text string, mood render.Mood) {
		head, row = append(head, render.Column{Name: name, Left: true}), append(row, render.Cell{Text: text, Mood: mood})
	}
	add("gpu", l.GPU, render.Plain)
	for _, p := range l.Peers {
		switch {
		case p.GPU == l.GPU:
			add(p.GPU, "-", render.Faint)
		case !p.Access:
			add(p.GPU, "staged", render.Fair)
		default:
			add(p.GPU, p.Link, render.Good)
		}
	}
	for _, a := range l.Adapters {
		add(a.Device, a.Distance, render.Plain)
	}
	return head, row
}

// runGPUs shows the GPUs of this machine.
func runGPUs(ctx context.Context, s *session.Session) error {
	var runtimes, gpus []render.Record
	var links [][]render.Record // a matrix for each runtime
	var reasons []error
	for _, kind := range gpu.Kinds {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		info := GPURuntime{Command: "devices", Runtime: kind.String()}
		r, err := gpu.Load(kind)
		if err != nil {
			info.Reason = err.Error()
			runtimes, reasons = append(runtimes, info), append(reasons, err)
			continue
		}
		all := r.Devices()
		info.OK, info.GPUs, info.Library, info.Version = true, len(all), r.File(), r.Version()
		runtimes = append(runtimes, info)
		var matrix []render.Record
		for _, d := range all {
			gpus = append(gpus, GPUInfo{
				Command: "devices", OK: true, GPU: d.Place.String(), Name: d.Name, Memory: d.Memory, PCI: d.PCI, UUID: d.UUID, Arch: d.Arch,
			})
			row, err := linksOf(d, all)
			if err != nil {
				return err
			}
			matrix = append(matrix, row)
		}
		links = append(links, matrix)
	}
	for _, rows := range append([][]render.Record{runtimes, gpus}, links...) {
		if err := s.Out.Print(rows...); err != nil {
			return err
		}
	}
	if len(gpus) == 0 {
		return exit.Usagef("no GPU: %w", errors.Join(reasons...))
	}
	return nil
}

// linksOf is a GPU's row among all of its runtime.
func linksOf(d *gpu.Device, all []*gpu.Device) (GPULinks, error) {
	row := GPULinks{Command: "devices", OK: true, GPU: d.Place.String(), Peers: []GPUPeer{}, Adapters: []GPUAdapter{}}
	for _, other := range all {
		peer := GPUPeer{GPU: other.Place.String(), Access: true}
		if other != d {
			link, err := d.Link(other)
			if err != nil {
				return row, err
			}
			peer.Access, peer.Link = link.Access, link.Kind
		}
		row.Peers = append(row.Peers, peer)
	}
	row.OK = !slices.ContainsFunc(row.Peers, func(p GPUPeer) bool { return !p.Access })
	for _, a := range d.Adapters() {
		row.Adapters = append(row.Adapters, GPUAdapter{a.Device, a.Distance.String()})
	}
	return row, nil
}
