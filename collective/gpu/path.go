package gpu

import (
	"fmt"

	"ringcli/collective"
	"ringcli/collective/gpu/kernels"
)

// Path is how an operation over a GPU's memory runs.
type Path string

// The paths.
const (
	// IPC: kernels read the peers' memory by its IPC handles.
	IPC Path = "ipc"
	// Staged: from the device to pinned memory of the host, round the ring, and back.
	Staged Path = "staged"
)

// RingAbove is how many bytes an all-reduce has at most that goes by recursive doubling.
const RingAbove = 32 << 10

// Plan returns a call as it is going to run, its path, and why that is not IPC; "" if it is. It
// is the same on all ranks.
func (t *Team) Plan(comm *collective.Comm, call collective.Call) (planned collective.Call, path Path, why string, err error) {
	bytes := call.Count * call.Type.Size()
	name, ok := kernels.Name(call.Reduction, call.Type)
	switch {
	case call.Op != collective.OpAllReduce:
		why = fmt.Sprintf("all-reduce alone goes from device to device, not %s", call.Op)
	case !ok:
		why = fmt.Sprintf("there is no kernel %s", name)
	case call.Protocol != collective.Auto && call.Protocol != collective.Direct:
		why = fmt.Sprintf("%s is a protocol of the queue pairs", call.Protocol)
	case call.Sync || call.Verify:
		why = "phases apart and checksums of segments are of the queue pairs"
	case call.Algorithm != collective.AlgorithmAuto && call.Algorithm != collective.AlgorithmRing && call.Algorithm != collective.AlgorithmRecursiveDoubling:
		why = fmt.Sprintf("%s is an algorithm of the queue pairs", call.Algorithm)
	case call.Algorithm == collective.AlgorithmRecursiveDoubling && bytes > RingAbove:
		why = fmt.Sprintf("recursive doubling between devices takes up to %d bytes", RingAbove)
	default:
		why = t.apart
	}
	if why != "" {
		planned, err = comm.Plan(call)
		return planned, Staged, why, err
	}
	algorithm := call.Algorithm
	if algorithm == collective.AlgorithmAuto && bytes <= RingAbove {
		algorithm = collective.AlgorithmRecursiveDoubling
	} else if algorithm == collective.AlgorithmAuto {
		algorithm = collective.AlgorithmRing
	}
	call.Algorithm, call.Protocol = collective.AlgorithmAuto, collective.Auto
	planned, err = comm.Plan(call) // which refuses what no path has
	planned.Algorithm, planned.Protocol, planned.Segment, planned.Depth = algorithm, collective.Direct, 0, 0
	return planned, IPC, "", err
}
