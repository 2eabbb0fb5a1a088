package doctor

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"ringcli/configs/codes"
	"ringcli/verbs/pcie"
)

// gpuExam is what GPUs, and adapters that reach their memory, stand or fall with.
type gpuExam struct {
	System
	node machine
}

// A vendor's GPUs, and what they stand or fall with.
type vendor struct {
	name, id  string   // PCI's
	classes   []string // of PCI, by their beginning: a display that AMD builds into a CPU is none
	module    string
	files     []string // devices, as path.Match has it: a container may be given any of them
	allow     string   // gives this user the rights
	libraries []library
}

// A library that is loaded at run time.
type library struct {
	soname string
	driver bool   // nothing of the GPU is of use without it
	what   string // it is for
}

var vendors = []vendor{
	{
		"nvidia", "0x10de", []string{"0x0300", "0x0302"}, "nvidia", []string{"dev/nvidia[0-9]*", "dev/nvidiactl", "dev/nvidia-uvm"},
		"nvidia-modprobe -u -c 0  # container: --gpus all",
		[]library{{"libcuda.so.1", true, "memory of GPUs"}, {"libnccl.so.2", false, "collectives by NCCL"}},
	},
	{
		"amd", "0x1002", []string{"0x0302", "0x0380", "0x1200"}, "amdgpu", []string{"dev/kfd", "dev/dri/renderD*"},
		"usermod -aG render,video $USER  # and log in again; container: --device=/dev/kfd --device=/dev/dri",
		[]library{{"libamdhip64.so", true, "memory of GPUs"}, {"librccl.so.1", false, "collectives by RCCL"}},
	},
}

// graphics is a card.
type graphics struct{ address, driver string }

// noGPU is what a check of GPUs says where there is none.
const noGPU = "no GPU here"

// driverRows say which driver each vendor's cards have.
func (e *gpuExam) driverRows() (rows []Preflight) {
	for _, v := range vendors {
		cards := e.node.gpus(v)
		version := e.node.text("sys/module/" + v.module + "/version")
		if version == "" {
			version = "of kernel " + e.node.text("proc/sys/kernel/osrelease")
		}
		value := v.module + " " + version
		loaded := len(e.node.list("sys/module/"+v.module)) > 0
		if len(cards) == 0 {
			if loaded {
				rows = append(rows, skip("gpu-driver", v.name, "%s, and %s", value, noGPU))
			}
			continue
		}
		fix := fmt.Sprintf("modprobe %s  # dmesg says why if it does not come", v.module)
		var others []string
		for _, g := range cards {
			if g.driver != "" && g.driver != v.module {
				others = append(others, g.address+" has "+g.driver)
			}
		}
		switch {
		case !loaded:
			rows = append(rows, finding(Warn, "gpu-driver", v.name, fmt.Sprintf("%s, and %s is not loaded", counted(len(cards), "card"), v.module)).but(codes.NoDevice, v.module, fix))
		case len(others) > 0:
			rows = append(rows, finding(Warn, "gpu-driver", v.name, strings.Join(others, ", ")).but(codes.NoDevice, v.module, fix))
		default:
			rows = append(rows, pass("gpu-driver", v.name, "%s for %s", value, counted(len(cards), "card")))
		}
	}
	return orNoGPU(rows, "gpu-driver")
}

// orNoGPU is rows, or the one that says that there is none.
func orNoGPU(rows []Preflight, check string) []Preflight {
	if rows == nil {
		return []Preflight{skip(check, "", noGPU)}
	}
	return rows
}

// fileRows say whether this user may use the devices' files.
func (e *gpuExam) fileRows() (rows []Preflight) {
	for _, v := range vendors {
		if len(e.node.gpus(v)) == 0 {
			continue
		}
		var open, shut []string
		for _, pattern := range v.files {
			found, _ := fs.Glob(e.Files, pattern)
			if len(found) == 0 {
				shut = append(shut, "no /"+pattern)
				continue
			}
			var first error // of files that are not of this vendor's cards alone one will do
			usable := slices.IndexFunc(found, func(f string) bool {
				err := e.Writable("/" + f)
				first = cmp.Or(first, err)
				return err == nil
			})
			if usable < 0 {
				shut = append(shut, first.Error())
				continue
			}
			open = append(open, "/"+found[usable])
		}
		if shut != nil {
			rows = append(rows, finding(Warn, "gpu-files", v.name, strings.Join(shut, "; ")).but(codes.Permission, "/"+strings.Join(v.files, ", /")+", readable and writable", v.allow))
			continue
		}
		rows = append(rows, pass("gpu-files", v.name, "%s open", strings.Join(open, ", ")))
	}
	return orNoGPU(rows, "gpu-files")
}

// linkerCache is the dynamic linker's, and libraryDirs where it looks besides, and where the vendors install.
const linkerCache = "etc/ld.so.cache"

var libraryDirs = []string{"lib64", "usr/lib64", "lib", "usr/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "opt/rocm/lib", "usr/local/cuda/lib64"}

// isLibrary tells whether a file is a library of a name, or of that and a version.
func isLibrary(file, soname string) bool {
	return file == soname || strings.HasPrefix(file, soname+".")
}

// findLibrary looks for a library where the linker does: nothing is loaded, since what a driver's library does
// then cannot be taken back. linked is false where the linker would not find it.
func (e *gpuExam) findLibrary(soname string) (where string, linked bool) {
	for dir := range strings.SplitSeq(e.LibraryPath, ":") {
		for _, file := range e.node.list(strings.Trim(dir, "/")) {
			if dir != "" && isLibrary(file, soname) {
				return path.Join(dir, file), true
			}
		}
	}
	// The cache ends with the names and paths of its libraries, each with a NUL.
	cache, _ := fs.ReadFile(e.Files, linkerCache)
	for text := range bytes.SplitSeq(cache, []byte{0}) {
		if bytes.HasPrefix(text, []byte("/")) && isLibrary(path.Base(string(text)), soname) {
			if _, err := fs.Stat(e.Files, string(text[1:])); err == nil {
				return string(text), true
			}
		}
	}
	for i, dir := range libraryDirs {
		for _, file := range e.node.list(dir) {
			if isLibrary(file, soname) {
				return "/" + path.Join(dir, file), i < 4
			}
		}
	}
	return "", false
}

// libraryRows say which libraries of the vendors there are.
func (e *gpuExam) libraryRows() (rows []Preflight) {
	for _, v := range vendors {
		cards := len(e.node.gpus(v))
		for _, l := range v.libraries {
			where, linked := e.findLibrary(l.soname)
			value := fmt.Sprintf("not in the linker's cache, LD_LIBRARY_PATH or where it is installed: no %s", l.what)
			switch {
			case where != "" && linked:
				rows = append(rows, pass("gpu-library", l.soname, "%s", where))
			case where != "":
				rows = append(rows, finding(Warn, "gpu-library", l.soname, where+", where the linker does not look").but(codes.NoDevice, "it in the linker's cache",
					fmt.Sprintf("export LD_LIBRARY_PATH=%s  # or a line in /etc/ld.so.conf.d, and ldconfig", path.Dir(where))))
			case cards > 0 && l.driver:
				rows = append(rows, finding(Warn, "gpu-library", l.soname, value).but(codes.NoDevice, "the vendor's library",
					"ldconfig -p | grep "+l.soname+"  # install the driver's user-space part; container: its toolkit mounts it"))
			case cards > 0:
				rows = append(rows, skip("gpu-library", l.soname, "%s; install it to have them", value))
			default:
				rows = append(rows, skip("gpu-library", l.soname, "%s, and %s", value, noGPU))
			}
		}
	}
	return rows
}

// peerModules let an adapter reach GPUs' memory.
var peerModules = []string{"nvidia_peermem", "nv_peer_mem", "ib_peer_mem"}

// dmabufSince is the first kernel whose ib_uverbs registers memory by dma-buf.
const dmabufSince = "5.12"

// atLeast compares the first two numbers of a version.
func atLeast(version, least string) bool {
	var a, b, c, d int
	_, err := fmt.Sscanf(version, "%d.%d", &a, &b)
	_, _ = fmt.Sscanf(least, "%d.%d", &c, &d)
	return err == nil && (a > c || a == c && b >= d)
}

// peerRows say by which way adapters register GPUs' memory: the documents' "failed to register
// memory" is here, and under memlock.
func (e *gpuExam) peerRows() (rows []Preflight) {
	kernel := e.node.text("proc/sys/kernel/osrelease")
	for _, v := range vendors {
		if len(e.node.gpus(v)) == 0 {
			continue
		}
		if len(e.node.kernelDevices()) == 0 {
			rows = append(rows, skip("gpu-peer-memory", v.name, "no RDMA device to register it with: it is staged through pinned memory of the host"))
			continue
		}
		var ways []string
		for _, m := range peerModules {
			if len(e.node.list("sys/module/"+m)) > 0 && strings.HasPrefix(m, "nv") == (v.name == "nvidia") {
				ways = append(ways, m+" is loaded")
			}
		}
		// NVIDIA's open kernel modules export dma-bufs, amdgpu always does.
		exports := v.name == "amd" || strings.Contains(e.node.text("proc/driver/nvidia/version"), "Open Kernel Module")
		if exports && atLeast(kernel, dmabufSince) {
			ways = append(ways, "dma-buf, by kernel "+kernel+" and the driver")
		}
		if ways != nil {
			rows = append(rows, pass("gpu-peer-memory", v.name, "%s", strings.Join(ways, "; ")))
			continue
		}
		fix := "modprobe nvidia_peermem  # or NVIDIA's open kernel modules, which have dma-buf"
		if v.name == "amd" {
			fix = "uname -r  # a kernel of " + dmabufSince + " or later has dma-buf"
		}
		rows = append(rows, finding(Warn, "gpu-peer-memory", v.name, fmt.Sprintf("neither dma-buf (kernel %s) nor a module for peers: memory of GPUs is staged through the host's", kernel)).
			but(codes.LocalProtection, "one of them", fix))
	}
	return orNoGPU(rows, "gpu-peer-memory")
}

// iommuRow says whether what cards say to each other is translated.
func (e *gpuExam) iommuRow() Preflight {
	on := len(e.node.list("sys/class/iommu")) > 0
	var translated []string
	for _, g := range e.node.allGPUs() {
		group, _ := fs.ReadLink(e.Files, pcie.Devices+"/"+g.address+"/iommu_group")
		if kind := e.node.text("sys/kernel/iommu_groups/" + path.Base(group) + "/type"); group != "" && strings.HasPrefix(kind, "DMA") {
			translated = append(translated, g.address+" "+kind)
		}
	}
	switch {
	case len(translated) > 0:
		return finding(Warn, "iommu", "", "translates for "+strings.Join(translated, ", ")).but(codes.Slow, "identity, or off: else what cards say to each other goes through the root",
			"grep -o 'iommu=[^ ]*' /proc/cmdline  # iommu=pt there, and boot; virtual machines need it as it is")
	case len(e.node.allGPUs()) == 0 && on:
		return pass("iommu", "", "on; there is no GPU whose traffic it would slow")
	case on:
		return pass("iommu", "", "on, and passes the GPUs' addresses through")
	}
	return pass("iommu", "", "off")
}

// gpus are the cards of a vendor.
func (m machine) gpus(v vendor) (list []graphics) {
	for _, address := range m.list(pcie.Devices) {
		dir := pcie.Devices + "/" + address
		class := m.text(dir + "/class")
		if m.text(dir+"/vendor") != v.id || !slices.ContainsFunc(v.classes, func(c string) bool { return strings.HasPrefix(class, c) }) {
			continue
		}
		driver, _ := fs.ReadLink(m.FS, dir+"/driver")
		list = append(list, graphics{address, strings.TrimPrefix(path.Base(driver), ".")})
	}
	return list
}

// allGPUs are those of all vendors.
func (m machine) allGPUs() (list []graphics) {
	for _, v := range vendors {
		list = append(list, m.gpus(v)...)
	}
	return list
}

// hasGPU tells whether there is a card whose memory others would reach: a 3D controller or an
// accelerator.
func (m machine) hasGPU() bool {
	return slices.ContainsFunc(m.list(pcie.Devices), func(address string) bool {
		class := m.text(pcie.Devices + "/" + address + "/class")
		return strings.HasPrefix(class, "0x0302") || strings.HasPrefix(class, "0x1200")
	})
}
