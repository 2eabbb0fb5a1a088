// Package device has the devices that the edges of a ring are on, and the memory that is
// registered on all of them.
package device

import (
	"strings"

	"ringcli/verbs"
	"ringcli/verbs/bringup"
	"ringcli/verbs/memory"
)

// Rails is how many devices the channels to a neighbour are spread over at most.
const Rails = 8

// Most is how many devices a ring uses: shared memory, and those for
// the network; one more, so that an edge can move before the old one is left.
const Most = Rails + 2

// Device is an open device, with what all edges on it share.
type Device struct {
	bringup.Device
	Name  string
	Why   string // it was taken among others
	Index int    // below Most: keys of memory are kept by it
	Rail  int    // its place among those that channels are spread over; all else uses the first
}

// Provider is the part of the name before the colon.
func (d *Device) Provider() string {
	provider, _, _ := strings.Cut(d.Name, ":")
	return provider
}

// Counters returns the counters of the device's port.
func (d *Device) Counters() ([]verbs.Counter, error) { return d.Context.Counters(d.Port.Num) }

// Alloc returns zeroed memory of the kind that the device likes best.
func (d *Device) Alloc(length uint64) (verbs.Memory, error) {
	if a, ok := d.Context.(verbs.Allocator); ok {
		return a.AllocMemory(length)
	}
	return memory.Alloc(length)
}

// maxRDAtomic bounds the READs in flight on an edge: what rdma_rxe and common
// NICs take.
const maxRDAtomic = 16

// ReadsInFlight bounds the READs in flight to what both ends can do; a device that
// does not say leaves it to the peer.
func (d *Device) ReadsInFlight(peer int) int {
	n := min(maxRDAtomic, peer)
	if own := d.Attr.MaxQPInitRDAtomic; own > 0 {
		n = min(n, own)
	}
	return n
}

// ReadsAnswered is how many READs the device answers at once.
func (d *Device) ReadsAnswered() int { return min(maxRDAtomic, d.Attr.MaxQPRDAtomic) }

// RXEVendor is rdma_rxe's vendor ID (Linux drivers/infiniband/sw/rxe/rxe_param.h).
const RXEVendor = 0xffffff

// LinkMbps is the active rate of the device's port in Mb/s where hardware moves the
// data; 0 where a CPU does, which no link holds up, or where it is not known.
func (d *Device) LinkMbps() int {
	if d.Attr.VendorID == 0 || d.Attr.VendorID == RXEVendor {
		return 0
	}
	return d.Port.Attr.SpeedMbps
}

// Because adds to why an edge is on the device why it is that one.
func (d *Device) Because(why string) string {
	if d.Attr.HostLocal || strings.HasPrefix(d.Why, why) {
		return why
	}
	return why + "; " + d.Why
}
