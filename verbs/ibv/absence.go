//go:build !nodl

package ibv

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// sight is what of RDMA can be seen on this machine without the library.
type sight struct {
	devices   []string // in /sys/class/infiniband
	uverbs    []string // in /sys/class/infiniband_verbs: devices with a door to user space
	nodes     []string // uverbs* in /dev/infiniband
	container bool
}

func look() sight {
	s := sight{devices: names("/sys/class/infiniband", ""), uverbs: names("/sys/class/infiniband_verbs", "uverbs"),
		nodes: names("/dev/infiniband", "uverbs")}
	for _, file := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(file); err == nil {
			s.container = true
		}
	}
	return s
}

// names lists the entries of a directory that begin with a prefix; none if it
// can't be read.
func names(dir, prefix string) []string {
	var all []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			all = append(all, e.Name())
		}
	}
	return all
}

// none is the reason why the library lists no device, and what to do.
func (s sight) none() error {
	list := strings.Join(s.devices, ", ")
	switch {
	case len(s.devices) == 0 && s.container:
		return errors.New("no RDMA device in this container: /sys/class/infiniband is empty; on the host, is the device's driver loaded, and is the device in this network namespace (rdma system show)?")
	case len(s.devices) == 0:
		return errors.New("no RDMA device: /sys/class/infiniband is empty; is the device's driver loaded (lsmod), or for Soft-RoCE: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0?")
	case len(s.uverbs) == 0:
		return fmt.Errorf("the kernel has %s but no user access to it: load ib_uverbs (modprobe ib_uverbs)", list)
	case len(s.nodes) == 0 && s.container:
		return fmt.Errorf("the kernel has %s, but /dev/infiniband has no uverbs device in this container: start it with --device=/dev/infiniband and --ulimit memlock=-1", list)
	case len(s.nodes) == 0:
		return fmt.Errorf("the kernel has %s, but /dev/infiniband has no uverbs device: is udev running?", list)
	}
	return fmt.Errorf("the kernel has %s and /dev/infiniband has %s, but libibverbs has no driver for it: install the drivers (Debian, Ubuntu: ibverbs-providers; Fedora, SUSE: libibverbs), and check that /etc/libibverbs.d names it",
		list, strings.Join(s.nodes, ", "))
}
