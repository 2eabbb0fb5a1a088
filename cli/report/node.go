package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
)

// nodeFiles are what the kernel and the distribution say, together by what they are about.
var nodeFiles = []struct {
	name, what string
	patterns   []string // as fs.Glob takes them
}{
	{"node/system.txt", "kernel, distribution, memory, CPUs", []string{"proc/version", "etc/os-release", "proc/uptime", "proc/loadavg", "proc/meminfo", "sys/devices/system/*/online"}},
	{"node/modules.txt", "kernel modules", []string{"proc/modules"}},
	{"node/limits.txt", "limits of this process and of its control groups' memberships, and what the kernel allows", []string{
		"proc/self/limits", "proc/self/status", "proc/self/cgroup", "proc/sys/net/core/[rw]mem_*", "proc/sys/net/ipv4/ip_local_*ports", "proc/sys/net/ipv4/ip_local_port_range",
		"proc/sys/net/ipv4/tcp_[rw]mem", "sys/kernel/mm/transparent_hugepage/enabled", "proc/sys/vm/nr_hugepages",
	}},
	{"node/routes.txt", "routes, neighbours of the network, and counters of interfaces and protocols", []string{
		"proc/net/route", "proc/net/ipv6_route", "proc/net/arp", "proc/net/dev", "proc/net/snmp", "proc/net/netstat",
	}},
	{"node/rdma.txt", "RDMA devices, their ports and counters", []string{
		"sys/class/infiniband/*/fw_ver", "sys/class/infiniband/*/hca_type", "sys/class/infiniband/*/board_id", "sys/class/infiniband/*/ports/*/state", "sys/class/infiniband/*/ports/*/phys_state",
		"sys/class/infiniband/*/ports/*/rate", "sys/class/infiniband/*/ports/*/link_layer", "sys/class/infiniband/*/ports/*/counters/*", "sys/class/infiniband/*/ports/*/hw_counters/*",
	}},
	{"node/pcie.txt", "PCIe links of RDMA devices and interfaces", []string{
		"sys/class/infiniband/*/device/vendor", "sys/class/infiniband/*/device/device", "sys/class/infiniband/*/device/numa_node", "sys/class/infiniband/*/device/*_link_*",
		"sys/class/net/*/device/vendor", "sys/class/net/*/device/device", "sys/class/net/*/device/numa_node", "sys/class/net/*/device/*_link_*",
	}},
}

// mostOfNode is the most of one of the kernel's files: routes may be a million.
const mostOfNode = 1 << 20

// nodeParts are those files, and the addresses.
func nodeParts(files fs.FS) []part {
	parts := []part{{"node/addresses.txt", "interfaces, their MTUs and addresses", func(context.Context) ([]byte, error) { return addresses() }}}
	for _, n := range nodeFiles {
		parts = append(parts, part{n.name, n.what, func(context.Context) ([]byte, error) { return together(files, n.patterns) }})
	}
	return parts
}

// together reads files, each under its name.
func together(files fs.FS, patterns []string) ([]byte, error) {
	var b bytes.Buffer
	var missing []string
	for _, pattern := range patterns {
		names, err := fs.Glob(files, pattern)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 && !strings.Contains(pattern, "*") {
			missing = append(missing, "/"+pattern)
		}
		for _, name := range names {
			data, err := fs.ReadFile(files, name)
			if err != nil {
				missing = append(missing, err.Error())
				continue
			}
			if len(data) > mostOfNode {
				data = append(data[:bytes.LastIndexByte(data[:mostOfNode], '\n')+1], "...\n"...)
			}
			fmt.Fprintf(&b, "== /%s\n%s\n", name, bytes.TrimRight(data, "\n"))
		}
	}
	switch {
	case b.Len() == 0:
		return nil, errors.New("nothing of it is there, or to be seen")
	case missing != nil:
		return b.Bytes(), errors.New("not there: " + strings.Join(missing, ", "))
	}
	return b.Bytes(), nil
}

func addresses() ([]byte, error) {
	var b bytes.Buffer
	interfaces, err := net.Interfaces()
	for _, i := range interfaces {
		fmt.Fprintf(&b, "%d %s mtu %d %s %s\n", i.Index, i.Name, i.MTU, i.Flags, i.HardwareAddr)
		list, errAddrs := i.Addrs()
		err = errors.Join(err, errAddrs)
		for _, a := range list {
			fmt.Fprintf(&b, "    %s\n", a)
		}
	}
	return b.Bytes(), err
}
