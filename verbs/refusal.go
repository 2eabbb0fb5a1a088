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
		if e.Reason = attr.AH.refused(path, errno); e.Reason != "" {
			e.Offender = AttrAV
			return e
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

// refused is a sentence about an address vector that the errno points at; empty
// if it points elsewhere.
func (a *AHAttr) refused(path *ModifyPath, errno syscall.Errno) string {
	if !a.IsGlobal {
		return ""
	}
	peer := a.GRH.DGID.Addr()
	from, dev := fmt.Sprintf("sgid_index %d", a.GRH.SGIDIndex), "DEV"
	if path != nil && path.GID != nil {
		from = fmt.Sprintf("%s (%s)", from, path.GID.GID.Addr())
		if path.GID.NetDev != "" {
			dev = path.GID.NetDev
		}
	}
	switch errno {
	case syscall.ETIMEDOUT:
		return fmt.Sprintf("ah_attr.grh.dgid %s: nobody answers to %s: is the peer up, and on the same network? (ip neigh show %s; ping -I %s %s)", peer, from, peer, dev, peer)
	case syscall.ENETUNREACH, syscall.EHOSTUNREACH:
		return fmt.Sprintf("ah_attr.grh.dgid %s: there is no route to it from %s: ip route get %s oif %s; another sgid_index may be right", peer, from, peer, dev)
	case syscall.ENODEV, syscall.ENXIO:
		return fmt.Sprintf("ah_attr.grh.%s: its network interface is not in this network namespace, or is down: ip link show %s", from, dev)
	case syscall.EADDRNOTAVAIL:
		return fmt.Sprintf("ah_attr.grh.%s: its address is no longer that of its interface: ip address show %s", from, dev)
	case syscall.EINVAL:
		if path == nil || path.GID == nil {
			return ""
		}
		g := path.GID
		if own := g.GID.Addr(); g.Type == GIDTypeRoCEv2 && own.Is4() != peer.Is4() {
			return fmt.Sprintf("ah_attr.grh.dgid %s: it and %s are of different address families", peer, from)
		}
		if peer.IsMulticast() {
			return fmt.Sprintf("ah_attr.grh.dgid %s: it is a multicast address: an RC queue pair has one peer", peer)
		}
	}
	return ""
}
