package transport

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"ringcli/verbs"
	"ringcli/verbs/route"
)

// Supported tells whether there is real RDMA here: libibverbs, a device, and an active port
// with a GID. reason says which, or why not.
func Supported() (ok bool, reason string) {
	devices, reason := rdma()
	return len(devices) > 0, reason
}

// rdma lists the RDMA devices that a transport can be on.
func rdma() (usable []verbs.Device, reason string) {
	var why, not []string
	for _, p := range verbs.Providers() {
		if can := p.Capabilities(); can.Software || can.HostLocal {
			continue
		}
		devices, err := p.Devices()
		if err != nil {
			not = append(not, p.Name()+": "+err.Error())
		} else if len(devices) == 0 {
			not = append(not, p.Name()+": there is no device")
		}
		for _, d := range devices {
			if port, err := usablePort(d); err != nil {
				not = append(not, fmt.Sprintf("%s: %v", d.Name(), err))
			} else {
				usable = append(usable, d)
				why = append(why, fmt.Sprintf("%s: port %d is active", d.Name(), port))
			}
		}
	}
	if len(usable) == 0 {
		why = not
	}
	return usable, strings.Join(why, "; ")
}

// usablePort returns the first port of a device that is active and has a GID.
func usablePort(d verbs.Device) (port int, err error) {
	c, err := d.Open(verbs.OpenOptions{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	attr, err := c.QueryDevice()
	if err != nil {
		return 0, err
	}
	for port = 1; port <= attr.PhysPorts; port++ {
		var p route.Port
		if p, err = route.QueryPort(c, port); err == nil {
			if _, err = p.Choose(route.Want{}); err == nil {
				return port, nil
			}
		}
	}
	return 0, err
}

// choose finds the device of the options, and says why.
func choose(o *Options) (d verbs.Device, why string, err error) {
	if o.Device != "" && o.Device != route.Auto {
		d, why, err := route.Device(o.Device, o.Local)
		if err != nil {
			return nil, "", failed(ErrInvalidArgument, "%w", err)
		}
		return d, why, nil
	}
	devices, reason := rdma()
	if len(devices) == 0 {
		return nil, "", failed(ErrUnsupported, "no RDMA here (%s): name a fallback as the device: soft, over any network, or shm, on this host alone", reason)
	}
	names := make([]string, len(devices))
	for i, d := range devices {
		names[i] = d.Name()
	}
	nearest := near(os.DirFS("/"), o.Memory, names)
	for _, d := range devices {
		if d.Name() == nearest[0].Device {
			return d, nearest.why(o.Memory), nil
		}
	}
	return nil, "", failed(ErrInternal, "%s is none of %v", nearest[0].Device, names)
}
