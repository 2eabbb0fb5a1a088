package gpu

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"ringcli/verbs/pcie"
)

// system is where the kernel's files are.
var system = os.DirFS("/")

// Link is what joins two GPUs.
type Link struct {
	Access bool   // each reads and writes the other's memory by its address
	Kind   string // nvlink, xgmi, pcie, "" where there is no access
}

// The attributes of a pair (CUdevice_P2PAttribute, hipDeviceP2PAttr).
const peerAtomics = 3 // CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED

// linkXGMI is HSA_AMD_LINK_INFO_TYPE_XGMI of hsa_ext_amd.h, as hipExtGetLinkTypeAndHopCount has it.
const linkXGMI = 4

// Link returns what joins a device to another of its runtime: pcie where the runtime does not
// tell.
func (d *Device) Link(other *Device) (Link, error) {
	r := d.runtime
	f := r.frame()
	defer r.release(f)
	if err := r.do(callCanAccess, f.at(0), d.handle, other.handle); err != nil {
		return Link{}, fmt.Errorf("%s to %s: %w", d.Place, other.Place, err)
	}
	if f.int32s(0, 1)[0] == 0 {
		return Link{}, nil
	}
	link := Link{Access: true, Kind: "pcie"}
	if d.Place.Kind == HIP {
		if r.do(callLinkType, d.handle, other.handle, f.at(0), f.at(4)) == nil && f.int32s(0, 1)[0] == linkXGMI {
			link.Kind = "xgmi"
		}
		return link, nil
	}
	// The driver does not name the link. Atomic operations on a peer's memory go over NVLink alone
	// (CUDA C++ Programming Guide, "Atomic Functions": system-wide ones).
	if r.do(callPeerAttribute, f.at(0), peerAtomics, d.handle, other.handle) == nil && f.int32s(0, 1)[0] != 0 {
		link.Kind = "nvlink"
	}
	return link, nil
}

// Adapter is an RDMA device beside a GPU.
type Adapter struct {
	Device   string // such as ibv:mlx5_0
	Distance pcie.Distance
}

// adapters is where sysfs has RDMA devices.
const adapters = "sys/class/infiniband"

// Adapters are the RDMA devices of this host that are on PCIe, by name.
func (d *Device) Adapters() []Adapter { return adaptersBeside(system, d.PCI) }

func adaptersBeside(files fs.FS, card string) (all []Adapter) {
	at := pcie.At(files, card)
	entries, _ := fs.ReadDir(files, adapters) // none: no RDMA device
	for _, e := range entries {
		if p := pcie.Find(files, path.Join(adapters, e.Name())); p.Card != "" && at.Card != "" {
			all = append(all, Adapter{"ibv:" + e.Name(), at.To(files, p)})
		}
	}
	return all
}

// nodes is where the kernel tells of AMD's GPUs.
const nodes = "sys/class/kfd/kfd/topology/nodes"

// gfx is the architecture of AMD's GPU at a PCI address, "" if it is not known.
func gfx(files fs.FS, card string) string {
	var domain, bus, device, function uint64
	if _, err := fmt.Sscanf(card, "%x:%x:%x.%x", &domain, &bus, &device, &function); err != nil {
		return ""
	}
	location := bus<<8 | device<<3 | function
	entries, _ := fs.ReadDir(files, nodes)
	for _, e := range entries {
		text, _ := fs.ReadFile(files, path.Join(nodes, e.Name(), "properties"))
		values := map[string]uint64{}
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
				values[name], _ = strconv.ParseUint(value, 10, 64)
			}
		}
		if v := values["gfx_target_version"]; v != 0 && values["location_id"] == location && values["domain"] == domain {
			return fmt.Sprintf("gfx%d%x%x", v/10000, v/100%100, v%100)
		}
	}
	return ""
}

func exists(files fs.FS, name string) bool {
	_, err := fs.Stat(files, name)
	return err == nil
}
