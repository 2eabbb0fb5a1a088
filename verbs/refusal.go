package verbs

import (
	"fmt"
	"syscall"
)

// RefusedModify explains why the system refused a change that CheckModify lets
// pass: a *ModifyError with the errno and, as far as that tells, the offender. The
// kernel resolves the peer's address within the modify to RTR (Linux
// drivers/infiniband/core/addr.c), so most have to do with that.
func RefusedModify(qpn uint32, cur QPState, attr *QPAttr, mask AttrMask, path *ModifyPath, errno syscall.Errno) error {
	e := &ModifyError{QPN: qpn, From: cur, To: cur, Attr: *attr, Mask: mask, Errno: errno}
	if mask&AttrState != 0 {
		e.To = attr.State
	}
	if mask&AttrAV != 0 {
		if bad := attr.AH.refused(path, errno); bad != nil {
			return e.Blame(AttrAV, bad.field, bad.value, bad.why)
		}
	}
	switch errno {
	case syscall.EPERM, syscall.EACCES:
		e.Reason = "not permitted: it takes CAP_NET_RAW or access to /dev/infiniband"
	case syscall.ENODEV, syscall.EIO, syscall.ENXIO:
		e.Reason = "the device is gone, or in an error"
	case syscall.ENOMEM:
		e.Reason = "the device or the machine is out of memory"
	case syscall.EOPNOTSUPP:
		e.Reason = "the driver does not support it"
	case syscall.EINVAL:
		e.Reason = "the driver refuses one of the attributes and does not say which; dmesg may"
	default:
		e.Reason = "the driver refuses"
	}
	return e
}

// refused returns the field of an address vector that the errno points at, nil if
// it points elsewhere.
func (a *AHAttr) refused(path *ModifyPath, errno syscall.Errno) *outOfRange {
	if !a.IsGlobal {
		return nil
	}
	peer := a.GRH.DGID.Addr()
	own, dev := fmt.Sprint(a.GRH.SGIDIndex), "DEV"
	if path != nil && path.GID != nil {
		own = fmt.Sprintf("%s (%s)", own, path.GID.GID.Addr())
		if path.GID.NetDev != "" {
			dev = path.GID.NetDev
		}
	}
	from := "sgid_index " + own
	dgid := func(why string) *outOfRange { return &outOfRange{AttrAV, "ah_attr.grh.dgid", peer, why} }
	sgid := func(why string) *outOfRange { return &outOfRange{AttrAV, "ah_attr.grh.sgid_index", own, why} }
	switch errno {
	case syscall.ETIMEDOUT:
		return dgid(fmt.Sprintf(": nobody answers to %s: is the peer up, and on the same network? (ip neigh show %s; ping -I %s %s)", from, peer, dev, peer))
	case syscall.ENETUNREACH, syscall.EHOSTUNREACH:
		return dgid(fmt.Sprintf(": there is no route to it from %s: ip route get %s oif %s; another sgid_index may be right", from, peer, dev))
	case syscall.ENODEV, syscall.ENXIO:
		return sgid(": its network interface is not in this network namespace, or is down: ip link show " + dev)
	case syscall.EADDRNOTAVAIL:
		return sgid(": its address is no longer that of its interface: ip address show " + dev)
	case syscall.EINVAL:
		if path == nil || path.GID == nil {
			return nil
		}
		if g := path.GID; g.Type == GIDTypeRoCEv2 && g.GID.Addr().Is4() != peer.Is4() {
			return dgid(fmt.Sprintf(": it and %s are of different address families", from))
		}
		if peer.IsMulticast() {
			return dgid(": it is a multicast address: an RC queue pair has one peer")
		}
	}
	return nil
}
