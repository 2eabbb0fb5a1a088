//go:build !nodl

package ibv

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"ringcli/verbs"
)

// sysfs is the directory of the device's port: what libibverbs does not tell.
func (c *Context) sysfs(port int) string {
	return filepath.Join("/sys/class/infiniband", c.device.name, "ports", strconv.Itoa(port))
}

func (c *Context) QueryPort(port int) (verbs.PortAttr, error) {
	p, err := c.portAttr(port)
	if err != nil {
		return verbs.PortAttr{}, err
	}
	dir := c.sysfs(port)
	p.SpeedMbps = rate(line(filepath.Join(dir, "rate")))
	for i := range p.GIDTableSz { // the first row that has one
		if p.NetDev = line(filepath.Join(dir, "gid_attrs", "ndevs", strconv.Itoa(i))); p.NetDev != "" {
			break
		}
	}
	return p, nil
}

// portAttr is what libibverbs says of a port. A GID table has a thousand rows, and
// each asks for this: so not what sysfs adds.
func (c *Context) portAttr(port int) (verbs.PortAttr, error) {
	if err := c.hasPort(port); err != nil {
		return verbs.PortAttr{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.live(); err != nil {
		return verbs.PortAttr{}, err
	}
	a := zeroed[cPortAttr](c.scratch)
	e := c.queryPortAttr(uintptr(port))
	if e != 0 {
		return verbs.PortAttr{}, failed(e, "query port %d of %s (ibv_query_port)", port, c.device.Name())
	}
	speed := uint32(a.activeSpeed)
	if a.activeSpeedEx != 0 {
		speed = a.activeSpeedEx
	}
	p := verbs.PortAttr{
		State: verbs.PortState(a.state), PhysState: physState(a.physState), MaxMTU: verbs.MTU(a.maxMTU), ActiveMTU: verbs.MTU(a.activeMTU),
		GIDTableSz: int(a.gidTblLen), PKeyTableSz: int(a.pkeyTblLen), MaxMsgSz: a.maxMsgSz, CapFlags: a.portCapFlags,
		BadPKeyCntr: a.badPKeyCntr, QKeyViolCntr: a.qkeyViolCntr, LID: a.lid, LMC: a.lmc, SMLID: a.smLID, SMSL: a.smSL,
		MaxVLNum: a.maxVLNum, SubnetTimeout: a.subnetTimeout, InitTypeReply: a.initTypeReply,
		ActiveWidth: a.activeWidth, ActiveSpeed: speed, LinkLayer: verbs.LinkLayer(a.linkLayer),
	}
	if p.LinkLayer == 0 { // a device of before RoCE (verbs.h: unspecified is InfiniBand)
		p.LinkLayer = verbs.LinkInfiniBand
	}
	return p, nil
}

// queryPortAttr fills the scratch memory. What libibverbs exports as ibv_query_port
// fills the older, shorter struct; the whole one is behind the function pointer
// that its header takes (infiniband/verbs.h, ___ibv_query_port). The lock is held.
func (c *Context) queryPortAttr(port uintptr) syscall.Errno {
	if *at[uintptr](c.handle + abiCompat) == extendedABI {
		before := c.handle - verbsContextSize
		size := *at[uintptr](c.handle - 8)
		if query := *at[uintptr](before); size >= verbsContextSize+abiCompat+8 && query != 0 {
			return result(call(query, c.handle, port, addr(c.scratch), portAttrSize))
		}
	}
	return result(call(c.lib.queryPort, c.handle, port, addr(c.scratch)))
}

// physState names a port's physical state as sysfs does (Linux
// drivers/infiniband/core/sysfs.c, phys_state_to_str).
func physState(s uint8) string {
	names := []string{"", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp", "LinkErrorRecovery", "Phy Test"}
	if s > 0 && int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("physical state %d", s)
}

// rate reads "100 Gb/sec (4X EDR)" as Mb/s; 0 if it is something else.
func rate(s string) int {
	number, rest, _ := strings.Cut(s, " ")
	gbps, err := strconv.ParseFloat(number, 64)
	if err != nil || !strings.HasPrefix(rest, "Gb/sec") {
		return 0
	}
	return int(gbps*1000 + 0.5)
}

// line reads a file of one line; empty if it can't be read.
func line(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// QueryGID implements verbs.Context. A row that is not in use has a zero GID.
func (c *Context) QueryGID(port, index int) (verbs.GIDEntry, error) {
	attr, err := c.portAttr(port)
	if err != nil {
		return verbs.GIDEntry{}, err
	}
	if index < 0 || index >= attr.GIDTableSz {
		return verbs.GIDEntry{}, fmt.Errorf("query GID %d of port %d of %s: %w: expected 0 to %d",
			index, port, c.device.Name(), verbs.ErrInvalid, attr.GIDTableSz-1)
	}
	row := verbs.GIDEntry{Index: index, Port: port}
	if attr.LinkLayer == verbs.LinkEthernet {
		row.UDPPort = 4791
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.live(); err != nil {
		return verbs.GIDEntry{}, err
	}
	e := zeroed[cGIDEntry](c.scratch)
	var errno syscall.Errno
	if c.lib.queryGIDEx != 0 {
		errno = result(call(c.lib.queryGIDEx, c.handle, uintptr(port), uintptr(index), addr(c.scratch), 0, gidEntrySize))
	} else {
		var r uintptr
		if r, errno = c.lib.errno(c.lib.queryGID, c.handle, uintptr(port), uintptr(index), addr(c.scratch)); int32(r) == 0 {
			errno = 0 // it may be left from files that the library tried
		}
		e.gidType = uint32(gidType(line(filepath.Join(c.sysfs(port), "gid_attrs", "types", strconv.Itoa(index))), attr.LinkLayer))
	}
	if errno == syscall.ENODATA { // not in use
		return row, nil
	}
	if errno != 0 {
		return verbs.GIDEntry{}, failed(errno, "query GID %d of port %d of %s (ibv_query_gid_ex)", index, port, c.device.Name())
	}
	row.GID, row.Type = e.gid, verbs.GIDType(e.gidType)
	row.NetDev = line(filepath.Join(c.sysfs(port), "gid_attrs", "ndevs", strconv.Itoa(index)))
	if row.NetDev == "" && e.ndevIfindex != 0 {
		if i, err := net.InterfaceByIndex(int(e.ndevIfindex)); err == nil {
			row.NetDev = i.Name
		}
	}
	return row, nil
}

// gidType reads what sysfs says of a GID; it does not tell IB from RoCE v1.
func gidType(s string, link verbs.LinkLayer) verbs.GIDType {
	switch {
	case s == "RoCE v2":
		return verbs.GIDTypeRoCEv2
	case link == verbs.LinkEthernet:
		return verbs.GIDTypeRoCEv1
	}
	return verbs.GIDTypeIB
}

// Counters implements verbs.Context: sysfs' hw_counters and counters, each by
// name. Some devices have one in both, and then it is the former's.
func (c *Context) Counters(port int) ([]verbs.Counter, error) {
	if err := c.live(); err != nil {
		return nil, err
	}
	if err := c.hasPort(port); err != nil {
		return nil, err
	}
	return counters(filepath.Join(c.sysfs(port), "hw_counters"), filepath.Join(c.sysfs(port), "counters")), nil
}

func counters(dirs ...string) (all []verbs.Counter) {
	seen := map[string]bool{"lifespan": true} // a setting: milliseconds that values are cached
	for _, dir := range dirs {
		for _, name := range names(dir, "") { // in order of their names
			v, err := strconv.ParseUint(line(filepath.Join(dir, name)), 10, 64)
			if err != nil || seen[name] { // some files of a NIC answer EINVAL
				continue
			}
			seen[name] = true
			all = append(all, verbs.Counter{Name: name, Value: v})
		}
	}
	return all
}
