package doctor

import (
	"io/fs"
	"path"
	"strings"
)

// The rest of what the source documents have one look at when something is wrong. These rows inform: what they
// find is no fault.

// rdmaTools are rdma-core's and infiniband-diags' programs that the documents name.
var rdmaTools = []string{"ibv_devices", "ibstat", "ibping", "ibv_rc_pingpong"}

var programDirs = []string{"usr/bin", "usr/sbin", "bin", "sbin", "usr/local/bin"}

// toolsRow says which of them there are, and what does the same here.
func (e *exam) toolsRow() Preflight {
	var found, missing []string
	for _, tool := range rdmaTools {
		list := &missing
		for _, dir := range programDirs {
			if _, err := fs.Stat(e.Files, path.Join(dir, tool)); err == nil {
				list = &found
				break
			}
		}
		*list = append(*list, tool)
	}
	if missing == nil {
		return pass("rdma-tools", "", "%s", strings.Join(found, ", "))
	}
	there := "none of"
	if found != nil {
		there = strings.Join(found, ", ") + ", not"
	}
	return skip("rdma-tools", "", "%s %s: ringcli devices and ringcli pingpong do the same; packages ibverbs-utils, infiniband-diags", there, strings.Join(missing, ", "))
}

// transportRow says what ringcli transport and others that move memory between hosts would use.
func (e *exam) transportRow() Preflight {
	if ports := e.active(); len(e.node.kernelDevices()) > 0 && len(ports) > 0 {
		return pass("transport", "", "supported: %s moves memory without a CPU", portName(ports[0]))
	}
	return skip("transport", "", "no RDMA device with a port that is up: packets go through sockets; a card needs its driver (rows modules, provider, port)")
}

// loggingRow says what NCCL and RCCL would tell of themselves.
func (e *exam) loggingRow() Preflight {
	if level := e.Env("NCCL_DEBUG"); level != "" {
		return pass("nccl-debug", "", "%s", level)
	}
	return skip("nccl-debug", "", "NCCL_DEBUG is not set: INFO has NCCL and RCCL tell what they choose, and here RINGCLI_DEBUG=1 does")
}
