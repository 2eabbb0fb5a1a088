package transport

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
	"ringcli/verbs/pcie"
)

// Place is where memory is. The zero value is anywhere on the host.
type Place struct {
	node int // of NUMA, plus one
}

// Node is the memory of a NUMA node.
func Node(n int) Place { return Place{n + 1} }

// String is "NUMA node 1", or "the host" for anywhere.
func (p Place) String() string {
	if p.node == 0 {
		return "the host"
	}
	return fmt.Sprintf("NUMA node %d", p.node-1)
}

// PlaceOf asks the kernel where the page of an address is, which must have been touched.
func PlaceOf(addr uint64) (Place, error) {
	n, err := memory.Node(addr)
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // no NUMA, or a container that hides it
		return Place{}, nil
	case err != nil:
		return Place{}, failed(ErrInvalidArgument, "%w: give the address of memory that is mapped", err)
	}
	return Node(n), nil
}

// Adapter is an RDMA device as memory sees it.
type Adapter struct {
	Device   string
	Node     int       // of NUMA; -1: not known, or of no node
	Distance int       // as the kernel counts it: 10 within a node; 0: not known
	Card     string    // its PCIe address; "" on no PCIe
	Bridges  int       // above it on PCIe
	Link     pcie.Link // the slowest on its way to the root; zero: not known
}

// String is, for example, "ibv:mlx5_0 on NUMA node 1, distance 21, PCIe 0000:81:00.0, below 1
// bridge, 16 GT/s x16".
func (a Adapter) String() string {
	parts := []string{a.Device}
	if a.Node >= 0 {
		parts[0] += fmt.Sprintf(" on NUMA node %d", a.Node)
	}
	if a.Distance > 0 {
		parts = append(parts, fmt.Sprintf("distance %d", a.Distance))
	}
	if a.Card != "" {
		parts = append(parts, "PCIe "+a.Card)
		switch a.Bridges {
		case 0:
		case 1:
			parts = append(parts, "below 1 bridge")
		default:
			parts = append(parts, fmt.Sprintf("below %d bridges", a.Bridges))
		}
	}
	if a.Link != (pcie.Link{}) {
		parts = append(parts, a.Link.String())
	}
	return strings.Join(parts, ", ")
}

// adapters are in the order in which they serve a place.
type adapters []Adapter

// near puts devices in order: those whose NUMA node is nearest to the memory, then those with the
// fastest way to the root of PCIe, then those with the fewest bridges. Those that are alike stay
// as they were.
func near(files fs.FS, at Place, devices []string) adapters {
	list := make(adapters, len(devices))
	for i, name := range devices {
		list[i] = adapterOf(files, at, name)
	}
	slices.SortStableFunc(list, func(a, b Adapter) int {
		known := func(distance int) int { // what is not known is last
			return cmp.Or(distance, 1<<16)
		}
		return cmp.Or(cmp.Compare(known(a.Distance), known(b.Distance)), cmp.Compare(b.Link.Rate(), a.Link.Rate()), cmp.Compare(a.Bridges, b.Bridges))
	})
	return list
}

func adapterOf(files fs.FS, from Place, device string) Adapter {
	_, name, _ := strings.Cut(device, ":")
	class := "sys/class/infiniband/" + name
	at := pcie.Find(files, class)
	a := Adapter{Device: device, Node: -1, Card: at.Card, Bridges: len(at.Bridges)}
	a.Link, _, _ = at.Links(files)
	if text, err := fs.ReadFile(files, class+"/device/numa_node"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			a.Node = n
		}
	}
	if a.Node < 0 || from.node == 0 {
		return a
	}
	// The distances of a node to all others, itself included, in the order of their numbers.
	text, err := fs.ReadFile(files, fmt.Sprintf("sys/devices/system/node/node%d/distance", from.node-1))
	if fields := strings.Fields(string(text)); err == nil && a.Node < len(fields) {
		a.Distance, _ = strconv.Atoi(fields[a.Node]) // 0 is not known
	}
	return a
}

// why says which one was taken, and which were not.
func (l adapters) why(at Place) string {
	text := l[0].String()
	if len(l) > 1 {
		var others []string
		for _, a := range l[1:] {
			others = append(others, a.String())
		}
		text += " is nearest to " + at.String() + "; then " + strings.Join(others, "; ")
	}
	return text
}

// Served says where the memory is and which device serves it: an RDMA device with its
// distance.
func (m *Memory) Served() string {
	if m.region != nil {
		return fmt.Sprintf("%s, served by %s", m.region, m.Device())
	}
	at, err := PlaceOf(m.mr.Addr())
	if err != nil {
		at = Place{}
	}
	return fmt.Sprintf("%s, served by %s", at, adapterOf(os.DirFS("/"), at, m.Device()))
}
