package gpu

// The attributes of an address that are asked for (CUpointer_attribute, hipPointer_attribute).
const (
	pointerType   = 2 // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
	pointerDevice = 9 // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
)

// PlaceOf is where the memory at an address is: as the device's own runtime knows it, or else
// another that has been loaded. Pinned memory is the host's. So is memory that no runtime knows;
// known is then false.
func (d *Device) PlaceOf(addr uint64) (place Place, known bool) {
	if place, known = d.runtime.placeOf(d.on, addr); known {
		return place, true
	}
	for kind := range loaded {
		if r := loaded[kind].ready.Load(); r != nil && r != d.runtime {
			if place, known = r.placeOf(r.do, addr); known {
				return place, true
			}
		}
	}
	return Place{}, false
}

// placeOf is PlaceOf by one runtime, that is called by do. HIP numbers the types of memory as
// CUDA does from version 6 on, and had one less before; what is below the host's is unknown to it.
func (r *Runtime) placeOf(do func(c call, args ...uintptr) error, addr uint64) (Place, bool) {
	f := r.frame()
	defer r.release(f)
	if do(callPointer, f.at(0), pointerType, uintptr(addr)) != nil {
		return Place{}, false
	}
	host := int32(1) // CU_MEMORYTYPE_HOST, hipMemoryTypeHost
	if r.kind == HIP && r.version < 60000000 {
		host = 0
	}
	if t := f.int32s(0, 1)[0]; t <= host {
		return Place{}, t == host
	}
	if do(callPointer, f.at(8), pointerDevice, uintptr(addr)) != nil {
		return Place{}, false
	}
	return Place{r.kind, int(f.int32s(8, 1)[0])}, true
}
