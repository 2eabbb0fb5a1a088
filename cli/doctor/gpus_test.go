package doctor

import (
	"errors"
	"testing"

	"ringcli/configs/codes"
)

// withGPU has a card of a vendor beside the adapter, with all that it needs but peer memory.
func withGPU(f *fake, name string) {
	dir := "sys/devices/pci0000:5d/" + gpu
	id, class, module := "0x10de", "0x030200", "nvidia"
	libraries := []string{"libcuda.so.1", "libnccl.so.2"}
	if name == "amd" {
		id, class, module = "0x1002", "0x120000", "amdgpu"
		libraries = []string{"libamdhip64.so.6", "librccl.so.1"}
		f.write("dev/kfd", "")
		f.write("dev/dri/renderD128", "")
	}
	f.write(dir+"/vendor", id)
	f.write(dir+"/class", class)
	f.link(dir+"/driver", "../../../bus/pci/drivers/"+module)
	f.link("sys/bus/pci/devices/"+gpu, "../../../devices/pci0000:5d/"+gpu)
	f.write("sys/module/"+module+"/refcnt", "1")
	if name == "nvidia" {
		f.write("sys/module/nvidia/version", "570.86.15")
		f.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15")
		for _, d := range []string{"nvidia0", "nvidiactl", "nvidia-uvm"} {
			f.write("dev/"+d, "")
		}
	}
	cache := "glibc-ld.so.cache1.1\x00\x00"
	for _, l := range libraries {
		f.write("usr/lib/vendor/"+l, "")
		cache += l + "\x00/usr/lib/vendor/" + l + "\x00"
	}
	f.write(linkerCache, cache)
	f.write("proc/sys/kernel/osrelease", "6.8.0-45-generic")
}

func nvidia(_ *testing.T, f *fake) { withGPU(f, "nvidia") }
func amd(_ *testing.T, f *fake)    { withGPU(f, "amd") }

// but is a provocation of a node with an NVIDIA card.
func but(change func(f *fake)) func(*testing.T, *fake) {
	return func(_ *testing.T, f *fake) {
		withGPU(f, "nvidia")
		change(f)
	}
}

var gpuCases = []provocation{
	{"a GPU's driver", nvidia, "gpu-driver", Pass, "", "nvidia 570.86.15 for 1 card", ""},
	{"an AMD GPU's driver", amd, "gpu-driver", Pass, "", "amdgpu of kernel 6.8.0-45-generic", ""},
	{"a GPU without its driver", but(func(f *fake) { f.remove("sys/module/nvidia") }), "gpu-driver", Warn, codes.NoDevice, "nvidia is not loaded", "modprobe nvidia"},
	{"a GPU with another driver", but(func(f *fake) {
		f.link("sys/devices/pci0000:5d/"+gpu+"/driver", "../../../bus/pci/drivers/nouveau")
	}), "gpu-driver", Warn, codes.NoDevice, gpu + " has nouveau", "modprobe nvidia"},
	{"a driver without a GPU", func(_ *testing.T, f *fake) { f.write("sys/module/amdgpu/refcnt", "0") }, "gpu-driver", Skip, "", "no GPU here", ""},
	{"a display that is no GPU", func(_ *testing.T, f *fake) {
		f.write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x1a03")
		f.write("sys/bus/pci/devices/0000:01:00.0/class", "0x030000")
	}, "gpu-driver", Skip, "", "no GPU here", ""},
	{"a GPU's files", amd, "gpu-files", Pass, "", "/dev/kfd, /dev/dri/renderD128 open", ""},
	{"another GPU's file than the first's", but(func(f *fake) {
		f.remove("dev/nvidia0")
		f.write("dev/nvidia3", "")
	}), "gpu-files", Pass, "", "/dev/nvidia3, /dev/nvidiactl, /dev/nvidia-uvm open", ""},
	{"another card's render node", func(_ *testing.T, f *fake) {
		withGPU(f, "amd")
		f.write("dev/dri/renderD129", "")
		f.Writable = func(path string) error {
			if path == "/dev/dri/renderD128" {
				return errors.New("open /dev/dri/renderD128: permission denied")
			}
			return nil
		}
	}, "gpu-files", Pass, "", "/dev/kfd, /dev/dri/renderD129 open", ""},
	{"no GPU's file", but(func(f *fake) { f.remove("dev/nvidia0") }), "gpu-files", Warn, codes.Permission, "no /dev/nvidia[0-9]*", "nvidia-modprobe"},
	{"a GPU without its files", but(func(f *fake) { f.remove("dev/nvidia-uvm") }), "gpu-files", Warn, codes.Permission, "no /dev/nvidia-uvm", "nvidia-modprobe"},
	{"a GPU that others may use", func(_ *testing.T, f *fake) {
		withGPU(f, "amd")
		f.Writable = func(path string) error {
			if path == "/dev/kfd" {
				return errors.New("open /dev/kfd: permission denied")
			}
			return nil
		}
	}, "gpu-files", Warn, codes.Permission, "permission denied", "usermod -aG render,video"},
	{"a GPU's libraries", nvidia, "gpu-library", Skip, "", "no GPU here", ""}, // the other vendor's
	{"no driver's library", but(func(f *fake) { f.remove("usr/lib/vendor/libcuda.so.1") }), "gpu-library", Warn, codes.NoDevice, "no memory of GPUs", "ldconfig -p | grep libcuda.so.1"},
	{"a library elsewhere", but(func(f *fake) {
		f.remove(linkerCache)
		f.write("lib64/libcuda.so.1", "")
		f.write("usr/local/cuda/lib64/libnccl.so.2.23", "")
	}), "gpu-library", Warn, codes.NoDevice, "/usr/local/cuda/lib64/libnccl.so.2.23, where the linker does not look", "export LD_LIBRARY_PATH=/usr/local/cuda/lib64"},
	{"a library that was asked for", func(_ *testing.T, f *fake) {
		f.LibraryPath = "/opt/own/lib:"
		for _, l := range []string{"libcuda.so.1", "libnccl.so.2", "libamdhip64.so.6", "librccl.so.1"} {
			f.write("opt/own/lib/"+l, "")
		}
	}, "gpu-library", Pass, "", "/opt/own/lib/libcuda.so.1", ""},
	{"dma-buf", nvidia, "gpu-peer-memory", Pass, "", "dma-buf, by kernel 6.8.0-45-generic", ""},
	{"dma-buf of amdgpu", amd, "gpu-peer-memory", Pass, "", "dma-buf", ""},
	{"a module for peers", but(func(f *fake) {
		f.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15")
		f.write("sys/module/nvidia_peermem/refcnt", "0")
	}), "gpu-peer-memory", Pass, "", "nvidia_peermem is loaded", ""},
	{"no way to a GPU's memory", but(func(f *fake) { f.remove("proc/driver/nvidia") }), "gpu-peer-memory", Warn, codes.LocalProtection, "neither dma-buf", "modprobe nvidia_peermem"},
	{"a kernel too old for dma-buf", func(_ *testing.T, f *fake) {
		withGPU(f, "amd")
		f.write("proc/sys/kernel/osrelease", "5.4.0-1")
	}, "gpu-peer-memory", Warn, codes.LocalProtection, "kernel 5.4.0-1", "uname -r"},
	{"a GPU without an adapter", func(_ *testing.T, f *fake) { withGPU(f, "nvidia"); f.remove("sys/class/infiniband") }, "gpu-peer-memory", Skip, "", "staged", ""},
	{"an IOMMU in the way", but(func(f *fake) {
		f.write("sys/class/iommu/dmar0/x", "")
		f.link("sys/devices/pci0000:5d/"+gpu+"/iommu_group", "../../../kernel/iommu_groups/7")
		f.write("sys/kernel/iommu_groups/7/type", "DMA-FQ")
	}), "iommu", Warn, codes.Slow, gpu + " DMA-FQ", "grep -o"},
	{"an IOMMU that passes through", but(func(f *fake) {
		f.write("sys/class/iommu/dmar0/x", "")
		f.link("sys/devices/pci0000:5d/"+gpu+"/iommu_group", "../../../kernel/iommu_groups/7")
		f.write("sys/kernel/iommu_groups/7/type", "identity")
	}), "iommu", Pass, "", "passes the GPUs' addresses", ""},
	{"an IOMMU without a GPU", func(_ *testing.T, f *fake) { f.write("sys/class/iommu/dmar0/x", "") }, "iommu", Pass, "", "no GPU", ""},
	{"ACS above the GPU alone", but(func(f *fake) {
		const above = "0000:5d:01.0"
		f.remove("sys/bus/pci/devices/" + gpu)
		f.write("sys/devices/pci0000:5d/"+above+"/"+gpu+"/vendor", "0x10de")
		f.write("sys/devices/pci0000:5d/"+above+"/"+gpu+"/class", "0x030200")
		f.link("sys/bus/pci/devices/"+gpu, "../../../devices/pci0000:5d/"+above+"/"+gpu)
		f.link("sys/bus/pci/devices/"+above, "../../../devices/pci0000:5d/"+above)
		f.write("sys/devices/pci0000:5d/"+above+"/config", string(acs(0x1d)))
	}), "acs", Warn, codes.LocalProtection, "redirects", "for b in 0000:5d:01.0"},
	{"a transport", func(*testing.T, *fake) {}, "transport", Pass, "", "ibv:mlx5_0/1", ""},
	{"no transport", func(_ *testing.T, f *fake) { f.software() }, "transport", Skip, "", "no RDMA device", ""},
	{"some tools", func(_ *testing.T, f *fake) { f.write("usr/sbin/ibstat", "") }, "rdma-tools", Skip, "", "ibstat, not ibv_devices, ibping, ibv_rc_pingpong", ""},
	{"all tools", func(_ *testing.T, f *fake) {
		for _, tool := range rdmaTools {
			f.write("usr/bin/"+tool, "")
		}
	}, "rdma-tools", Pass, "", "ibv_devices, ibstat", ""},
	{"NCCL that tells", func(_ *testing.T, f *fake) { f.Env = func(string) string { return "INFO" } }, "nccl-debug", Pass, "", "INFO", ""},
}
