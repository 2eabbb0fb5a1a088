package ring

import (
	"slices"
	"strings"

	"ringcli/configs/usage"
	"ringcli/verbs"
	"ringcli/verbs/bringup"
	"ringcli/verbs/memory"
)

// MaxDevices is how many devices a ring uses at most: shared memory, and one for
// the network; one more, so that an edge can move before the old one is left.
const MaxDevices = 3

// Device is an open device, with what all edges on it share.
type Device struct {
	bringup.Device
	Name  string
	Why   string // it was taken among others
	Index int    // below MaxDevices: keys of memory are kept by it
}

// Provider is the part of the name before the colon.
func (d *Device) Provider() string {
	provider, _, _ := strings.Cut(d.Name, ":")
	return provider
}

// Counters returns the counters of the device's port.
func (d *Device) Counters() ([]verbs.Counter, error) { return d.Context.Counters(d.Port.Num) }

// alloc returns zeroed memory of the kind that the device likes best.
func (d *Device) alloc(length uint64) (verbs.Memory, error) {
	if a, ok := d.Context.(verbs.Allocator); ok {
		return a.AllocMemory(length)
	}
	return memory.Alloc(length)
}

// maxRDAtomic bounds the READs in flight on an edge: what rdma_rxe and common
// NICs take.
const maxRDAtomic = 16

// readsInFlight bounds the READs in flight to what both ends can do; a device that
// does not say leaves it to the peer.
func (d *Device) readsInFlight(peer int) int {
	n := min(maxRDAtomic, peer)
	if own := d.Attr.MaxQPInitRDAtomic; own > 0 {
		n = min(n, own)
	}
	return n
}

// readsAnswered is how many READs the device answers at once.
func (d *Device) readsAnswered() int { return min(maxRDAtomic, d.Attr.MaxQPRDAtomic) }

// rxeVendor is rdma_rxe's vendor ID (Linux drivers/infiniband/sw/rxe/rxe_param.h).
const rxeVendor = 0xffffff

// LinkMbps is the active rate of the device's port in Mb/s where hardware moves the
// data; 0 where a CPU does, which no link holds up, or where it is not known.
func (d *Device) LinkMbps() int {
	if d.Attr.VendorID == 0 || d.Attr.VendorID == rxeVendor {
		return 0
	}
	return d.Port.Attr.SpeedMbps
}

// completions is the capacity of the completion queue of a rank of a ring of n: for
// all requests on its two edges and on those of a mesh.
func completions(n int) int { return 2*(sendDepth+recvDepth) + meshMost(n)*(meshSend+meshRecv) }

// enough tells whether a device can do what the edges of a rank of a ring of n
// need. A limit of 0 is one that the device does not tell.
func enough(name string, d verbs.DeviceAttr, n int) error {
	edges := 2 + meshMost(n)
	for _, l := range []struct {
		attribute string
		has, need int
	}{
		{"max_qp", d.MaxQP, edges}, {"max_qp_wr", d.MaxQPWR, max(sendDepth, recvDepth)}, {"max_cqe", d.MaxCQE, completions(n)},
		{"max_sge", d.MaxSGE, sendSGEs}, {"max_mr", d.MaxMR, 2 * edges},
	} {
		if l.has > 0 && l.has < l.need {
			return usage.Errorf("%s has %s %d: a ring of %d needs at least %d: use another --device", name, l.attribute, l.has, n, l.need)
		}
	}
	return nil
}

// Devices returns the devices that the edges use, after Open.
func (r *Ring) Devices() []*Device {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.devices.list)
}

// DeviceTo returns the device that an edge uses, or will use, and why,
// after Open; nil before, and for an edge that is not there.
func (r *Ring) DeviceTo(id EdgeID) (d *Device, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id >= 0 && id < firstMesh {
		return r.chosen[id].device, r.chosen[id].why
	}
	if e := r.Edge(id); e != nil {
		return e.device, e.why
	}
	return nil, ""
}

// edgeDevice is the device to a neighbour, and why that one.
type edgeDevice struct {
	device *Device
	why    string
}
