package gpu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ringcli/verbs"
)

// Path is how an RDMA device reaches a GPU's memory.
type Path string

const (
	PathDMABuf Path = "dma-buf"     // the kernel passes it from driver to driver (ibv_reg_dmabuf_mr)
	PathPeer   Path = "peer memory" // the GPU's driver answers for its addresses (nvidia_peermem; ibv_reg_mr)
	PathStaged Path = "staged"      // copied through pinned memory of the host
)

// Region is memory of a GPU that queue pairs use: MR covers it or, where it is staged, memory of the
// host of the same length. Offsets are in bytes. It belongs to one goroutine.
type Region struct {
	MR   verbs.MR
	Path Path
	// Why says of each better path why it is not taken.
	Why []error
	// Limit is how long a copy is waited for; 0 is for as long as its context lets it.
	Limit time.Duration

	memory *Memory
	stage  *Pinned // what MR covers if it is staged; else what Store and Load pass
	stream *Stream
}

// NewRegion allocates n bytes of a device's memory and registers them by the best path that the
// protection domain's device and the drivers allow.
func NewRegion(pd verbs.PD, d *Device, n int, access verbs.Access) (_ *Region, err error) {
	r := &Region{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Free())
		}
	}()
	if r.memory, err = d.Alloc(n); err != nil {
		return nil, err
	}
	if r.stage, err = d.AllocPinned(n); err != nil {
		return nil, err
	}
	if r.stream, err = d.NewStream(); err != nil {
		return nil, err
	}
	return r, r.register(pd, access)
}

// register tries the paths in their order.
func (r *Region) register(pd verbs.PD, access verbs.Access) (err error) {
	if attr, wrong := pd.Context().QueryDevice(); wrong != nil {
		return wrong
	} else if attr.Software || attr.HostLocal {
		name := pd.Context().Device().Name()
		r.Why = append(r.Why, fmt.Errorf("%s, %s: %s is made in software, which reaches memory of the host alone", PathDMABuf, PathPeer, name))
	} else {
		if r.MR, err = r.byDMABuf(pd, access); err == nil {
			r.Path = PathDMABuf
			return nil
		}
		r.Why = append(r.Why, fmt.Errorf("%s: %w", PathDMABuf, err))
		if r.MR, err = pd.RegMR(r.memory.Addr(), uint64(r.memory.Len()), access); err == nil {
			r.Path = PathPeer
			return nil
		}
		r.Why = append(r.Why, fmt.Errorf("%s: %w%s", PathPeer, err, r.memory.device.peerMemory()))
	}
	r.Path = PathStaged
	if r.MR, err = pd.RegMR(r.stage.Addr(), uint64(r.stage.Len()), access); err != nil {
		return errors.Join(append(r.Why, fmt.Errorf("%s: %w", PathStaged, err))...)
	}
	return nil
}

func (r *Region) byDMABuf(pd verbs.PD, access verbs.Access) (verbs.MR, error) {
	registrar, ok := pd.(verbs.DMABufRegistrar)
	if !ok {
		return nil, fmt.Errorf("%s cannot register a dma-buf", pd.Context().Device().Name())
	}
	file, offset, err := r.memory.DMABuf()
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the region keeps what it needs
	return registrar.RegDMABufMR(int(file.Fd()), offset, r.memory.Addr(), uint64(r.memory.Len()), access)
}

// Addr, Len and Free are as verbs.Memory has them. Free wants the MR closed.

func (r *Region) Addr() uint64 { return r.memory.Addr() }
func (r *Region) Len() int     { return r.memory.Len() }

// Bytes are those that the host shares with the device, for Store and Load and, if it is staged,
// for the RDMA device: not the device's own.
func (r *Region) Bytes() []byte { return r.stage.Bytes() }

func (r *Region) Free() error {
	return errors.Join(r.stream.Close(), r.stage.Free(), r.memory.Free())
}

// Store copies n bytes of Bytes from an offset on into the device's memory; what is sent from there
// later is what the device has.
func (r *Region) Store(ctx context.Context, offset, n int) error {
	return r.run(ctx, n, "from the host", r.stream.ToDevice(r.memory.Addr()+uint64(offset), r.stage.Addr()+uint64(offset), n))
}

// Load copies n bytes of the device's memory to Bytes.
func (r *Region) Load(ctx context.Context, offset, n int) error {
	return r.run(ctx, n, "to the host", r.stream.FromDevice(r.stage.Addr()+uint64(offset), r.memory.Addr()+uint64(offset), n))
}

// CopyTo copies n bytes of the device's memory to another region of it.
func (r *Region) CopyTo(ctx context.Context, to *Region, n int) error {
	return r.run(ctx, n, "within it", r.stream.OnDevice(to.memory.Addr(), r.memory.Addr(), n))
}

// String is, for example, "cuda:0, staged (dma-buf: ...)".
func (r *Region) String() string {
	text := fmt.Sprintf("%s, %s", r.memory.device.Place, r.Path)
	if len(r.Why) > 0 {
		text += fmt.Sprintf(" (%s)", oneLine(errors.Join(r.Why...)))
	}
	return text
}

// Leaving makes n bytes of the device's what the RDMA device finds there, for a request that it is
// given next, and Arrived has what it wrote there reach the device. Both copy only what is staged.

func (r *Region) Leaving(ctx context.Context, offset, n int) error {
	if r.Path != PathStaged {
		return nil
	}
	return r.Load(ctx, offset, n)
}

func (r *Region) Arrived(ctx context.Context, offset, n int) error {
	if r.Path != PathStaged {
		return r.memory.device.flush()
	}
	return r.Store(ctx, offset, n)
}

// run waits for a copy of n bytes that has been queued, unless that failed.
func (r *Region) run(ctx context.Context, n int, where string, queued error) error {
	if queued != nil {
		return queued
	}
	if err := r.stream.wait(ctx, r.Limit); err != nil {
		return fmt.Errorf("copy of %d bytes %s: %w", n, where, err)
	}
	return nil
}

// What cuFlushGPUDirectRDMAWrites is told, and how it says that there is nothing to flush by.
const (
	flushCurrent     = 0   // CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX
	flushToOwner     = 100 // CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER
	codeNotSupported = 801 // CUDA_ERROR_NOT_SUPPORTED: the platform orders them by itself, or nothing does
)

// flush has what RDMA devices have written be seen by work that the device is given next (CUDA Driver
// API, "Memory Management": a completion does not say so).
func (d *Device) flush() error {
	if d.runtime.calls[callFlush] == 0 {
		return nil
	}
	if err := d.on(callFlush, flushCurrent, flushToOwner); err != nil && !is(err, codeNotSupported) {
		return err
	}
	return nil
}

// peerMemory says what an RDMA device lacks to reach the device's addresses, after ": ", or "".
func (d *Device) peerMemory() string {
	if d.Place.Kind == HIP {
		return ""
	}
	for _, module := range []string{"nvidia_peermem", "nv_peer_mem"} {
		if exists(system, "sys/module/"+module) {
			return ""
		}
	}
	return ": the kernel's module nvidia_peermem is not loaded (modprobe nvidia_peermem)"
}
