package doctor

import (
	"context"
	"io/fs"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"ringcli/cli/session"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/locality"
	"ringcli/verbs"
	"ringcli/verbs/cpu"
	"ringcli/verbs/route"
)

// System is what a node shows of itself. Tests have one of their own.
type System struct {
	Files    fs.FS // from the root on; symbolic links can be read
	Limit    func(resource int) (unix.Rlimit, error)
	Room     func(ranks int) error  // an error if this user may not have the threads of so many
	Ruleset  func() (string, error) // of nftables
	Clock    func(*unix.Timex) (state int, err error)
	CPUs     func() ([]int, error) // that this process may run on
	Hostname func() (string, error)
	Lookup   hosts.LookupFunc
	Env      func(name string) string
	// LibraryPath is where the dynamic linker looks first, with colons between.
	LibraryPath string
	Writable    func(path string) error // an error if a file cannot be opened to read and write
	Memfd       func() error            // an error if memory cannot be shared
	Providers   func() []Provider
	Choose      func(device string, local netip.Addr) (chosen, why string, err error)
	Local       func(netip.Addr) bool // an address of this node
	Route       func(netip.AddrPort) (netip.Addr, error)
	Hop         func(from, to netip.Addr) (route.Hop, error)
	Network     func(netip.Addr) (netdev string, network netip.Prefix)
	Owners      func(ctx context.Context, netdev string, addrs []netip.Addr) (map[netip.Addr][]net.HardwareAddr, error)
}

// Provider is one of package verbs, with what it says.
type Provider struct {
	Name    string
	Can     verbs.Capabilities
	Err     error // why it has no device
	Devices []Device
}

// Device is one, with its ports.
type Device struct {
	Name  string // provider:device
	Err   error  // why it cannot be asked
	Ports []Port
}

// Port is one that may be down.
type Port struct {
	route.Port
	Err error
}

// ThisSystem is the node that this process is on.
func ThisSystem() System {
	return System{
		Files: os.DirFS("/"),
		Limit: func(resource int) (r unix.Rlimit, err error) {
			err = unix.Getrlimit(resource, &r)
			return r, err
		},
		Room:        session.RoomFor,
		Ruleset:     ruleset,
		Clock:       unix.Adjtimex,
		CPUs:        cpu.Allowed,
		Hostname:    os.Hostname,
		Lookup:      hosts.Lookup,
		Env:         os.Getenv,
		LibraryPath: os.Getenv("LD_LIBRARY_PATH"),
		Writable: func(path string) error {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			return f.Close()
		},
		Memfd: func() error {
			fd, err := unix.MemfdCreate("ringcli-doctor", unix.MFD_CLOEXEC)
			if err != nil {
				return os.NewSyscallError("memfd_create", err)
			}
			return unix.Close(fd)
		},
		Providers: providers,
		Choose: func(name string, local netip.Addr) (string, string, error) {
			d, why, err := route.Device(name, local)
			if err != nil {
				return "", "", err
			}
			return d.Name(), why, nil
		},
		Local: locality.IsLocal,
		Route: route.Source, Hop: route.Via, Network: route.Network, Owners: route.Owners,
	}
}

func providers() (list []Provider) {
	for _, p := range verbs.Providers() {
		devices, err := p.Devices()
		about := Provider{Name: p.Name(), Can: p.Capabilities(), Err: err}
		for _, d := range devices {
			about.Devices = append(about.Devices, deviceOf(d))
		}
		list = append(list, about)
	}
	return list
}

// deviceOf asks a device.
func deviceOf(d verbs.Device) Device {
	c, err := d.Open(verbs.OpenOptions{})
	if err != nil {
		return Device{Name: d.Name(), Err: err}
	}
	defer func() { _ = c.Close() }() // nothing was made in it
	a, err := c.QueryDevice()
	about := Device{Name: d.Name(), Err: err}
	for n := 1; n <= a.PhysPorts; n++ {
		p, err := route.QueryPort(c, n)
		about.Ports = append(about.Ports, Port{p, err})
	}
	return about
}
