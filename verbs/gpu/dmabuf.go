package gpu

import (
	"fmt"
	"os"
	"sync"
)

// dmaBufFD is CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, hipMemRangeHandleTypeDmaBufFd.
const dmaBufFD = 1

// hsa is where ROCm has what its HIP lacked before version 7, the newest first.
var hsa = sync.OnceValue(func() uintptr {
	for _, name := range []string{"libhsa-runtime64.so.1", "/opt/rocm/lib/libhsa-runtime64.so.1"} {
		if l, err := openLibrary(name); err == nil {
			return l.find("hsa_amd_portable_export_dmabuf")
		}
	}
	return 0
})

// DMABuf returns a file that stands for the memory, as drivers of other devices take it, and where
// in it the memory begins. The file is the caller's to close.
func (m *Memory) DMABuf() (file *os.File, offset uint64, _ error) {
	d := m.device
	r := d.runtime
	f := r.frame()
	defer r.release(f)
	failed := func(err error) (*os.File, uint64, error) {
		return nil, 0, fmt.Errorf("dma-buf of %d bytes of %s: %w", m.n, d.Place, err)
	}
	// Whole pages, as the host has them.
	page := uint64(os.Getpagesize())
	start := m.addr &^ (page - 1)
	end := (m.addr + uint64(m.n) + page - 1) &^ (page - 1)
	offset = m.addr - start
	switch {
	case r.calls[callHandleForRange] != 0:
		if err := d.on(callHandleForRange, f.at(0), uintptr(start), uintptr(end-start), dmaBufFD, 0); err != nil {
			return failed(err)
		}
	case d.Place.Kind == HIP && hsa() != 0:
		if code := int32(invoke(hsa(), uintptr(m.addr), uintptr(m.n), f.at(0), f.at(8))); code != 0 {
			return failed(fmt.Errorf("hsa_amd_portable_export_dmabuf: status %#x", code))
		}
		offset = f.words(8, 1)[0]
	default:
		return failed(r.do(callHandleForRange))
	}
	fd := f.int32s(0, 1)[0]
	return os.NewFile(uintptr(fd), "dma-buf"), offset, nil
}
