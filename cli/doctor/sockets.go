package doctor

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ringcli/configs/codes"
	"ringcli/ring/bootstrap/kernel"
	"ringcli/ring/locality"
	"ringcli/verbs/route"
)

// socketExam is what the ring's sockets need.
type socketExam struct {
	System
	node  machine
	local netip.Addr     // to speak from, if that is known
	bind  netip.AddrPort // where the exchange will listen
	soft  bool           // packets go through sockets
}

// socket is one of this network namespace.
type socket struct {
	local netip.AddrPort
	inode string
}

// collides tells whether who binds an address collides with a socket. One that is not known
// is none of loopback: other rings of this node have theirs there.
func (s socket) collides(bind netip.Addr) bool {
	if !bind.IsValid() {
		return !s.local.Addr().IsLoopback()
	}
	return bind.IsUnspecified() || s.local.Addr().IsUnspecified() || s.local.Addr() == bind.Unmap()
}

// holder is a process that has a socket; pid 0: none that can be seen here.
type holder struct {
	pid  int
	name string
}

// mostHolders is how many are told.
const mostHolders = 3

// end is the command that ends a process.
func (h holder) end() string {
	if h.pid == 0 {
		return "ss -lunpt  # as root shows who has it"
	}
	return fmt.Sprintf("kill %d", h.pid)
}

func (e *socketExam) udpRow() Preflight {
	of := fmt.Sprint(route.RoCEPort)
	who, first := e.node.taken("udp", netip.AddrPortFrom(e.local, route.RoCEPort))
	switch {
	case who == "":
		return pass("udp-port", of, "free%s", onAddress(e.local))
	case !e.soft:
		return pass("udp-port", of, "%s; an RDMA device sends without a socket", who)
	}
	fix := first.end()
	if first.pid == 0 && e.node.exists("sys/module/rdma_rxe") {
		fix = "rdma link  # names it: --device of its name; or: rdma link delete NAME"
	}
	return finding(Warn, "udp-port", of, who).but(codes.PortTaken, "free: on another port only soft devices find this one", fix)
}

func onAddress(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return " on " + a.String()
}

// binds is where the exchange will listen.
func (e *exam) binds() netip.AddrPort {
	if e.asked.Index >= 0 && e.known() {
		return locality.Bind(e.asked.List, e.addrs, e.asked.Index, e.Local)
	}
	return netip.AddrPortFrom(netip.Addr{}, uint16(e.asked.TCPPort))
}

func (e *socketExam) tcpRow() Preflight {
	bind := e.bind
	of := fmt.Sprint(bind.Port())
	who, first := e.node.taken("tcp", bind)
	if who == "" {
		return pass("tcp-port", of, "free%s", onAddress(bind.Addr()))
	}
	return finding(Fail, "tcp-port", of, who).but(codes.PortTaken, "free", first.end()+"  # or another --tcp-port on all nodes")
}

// ephemeralRow tells of ports that the kernel may give to any connection.
func (e *socketExam) ephemeralRow() Preflight {
	const dir = "proc/sys/net/ipv4/"
	f := strings.Fields(e.node.text(dir + "ip_local_port_range"))
	if len(f) != 2 {
		return skip("ephemeral-ports", "", "%s cannot be read", dir+"ip_local_port_range")
	}
	low, _ := strconv.Atoi(f[0])
	high, _ := strconv.Atoi(f[1])
	reserved := e.node.text(dir + "ip_local_reserved_ports")
	ports := []int{int(e.bind.Port())}
	if e.soft {
		ports = append(ports, route.RoCEPort)
	}
	var risk []string
	for _, p := range ports {
		if p >= low && p <= high && !inRanges(reserved, p) {
			risk = append(risk, strconv.Itoa(p))
		}
	}
	value := fmt.Sprintf("%d to %d", low, high)
	if len(risk) > 0 {
		all := strings.Trim(reserved+","+strings.Join(risk, ","), ",")
		return finding(Warn, "ephemeral-ports", "", value).but(codes.PortTaken, "without "+strings.Join(risk, " and ")+", which any connection may be given",
			"sysctl -w net.ipv4.ip_local_reserved_ports="+all)
	}
	return pass("ephemeral-ports", "", "%s", value)
}

// inRanges tells whether a list as in 80,8000-8010 has a port.
func inRanges(list string, port int) bool {
	for part := range strings.SplitSeq(list, ",") {
		first, last, is := strings.Cut(part, "-")
		if !is {
			last = first
		}
		low, errLow := strconv.Atoi(first)
		high, errHigh := strconv.Atoi(last)
		if errLow == nil && errHigh == nil && low <= port && port <= high {
			return true
		}
	}
	return false
}

// socketBuffer is what soft asks for, of either buffer (verbs/soft/udp).
const socketBuffer = 8 << 20

func (e *socketExam) bufferRow() Preflight {
	const dir = "proc/sys/net/core/"
	in, okIn := e.node.number(dir + "rmem_max")
	out, okOut := e.node.number(dir + "wmem_max")
	value := fmt.Sprintf("rmem_max %s, wmem_max %s", size(in), size(out))
	switch {
	case !e.soft:
		return skip("socket-buffers", "", "no soft device is to be used")
	case !okIn || !okOut:
		return skip("socket-buffers", "", "net.core.rmem_max is not to be seen in this network namespace")
	case in >= socketBuffer && out >= socketBuffer:
		return pass("socket-buffers", "", "%s", value)
	case e.node.capable(unix.CAP_NET_ADMIN):
		return pass("socket-buffers", "", "%s, and CAP_NET_ADMIN lifts them", value)
	}
	return finding(Warn, "socket-buffers", "", value).but(codes.Slow, size(socketBuffer)+" each",
		fmt.Sprintf("sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d", socketBuffer, socketBuffer))
}

// sockets are those at a port: of UDP any, of TCP those that listen.
func (m machine) sockets(protocol string, port uint16) (list []socket) {
	for _, file := range []string{"proc/net/" + protocol, "proc/net/" + protocol + "6"} {
		for line := range strings.Lines(m.text(file)) {
			f := strings.Fields(line)
			if len(f) < 10 || protocol == "tcp" && f[3] != kernel.Listen {
				continue
			}
			if local, ok := kernel.Address(f[1]); ok && local.Port() == port {
				list = append(list, socket{local, f[9]})
			}
		}
	}
	return list
}

// holders looks for who has sockets.
func (m machine) holders(list []socket) []holder {
	by := map[string]holder{}
	for _, p := range m.list("proc") {
		pid, err := strconv.Atoi(p)
		if err != nil {
			continue
		}
		for _, fd := range m.list("proc/" + p + "/fd") {
			to, _ := fs.ReadLink(m.FS, path.Join("proc", p, "fd", fd)) // or it has just gone
			if inode, is := strings.CutPrefix(to, "socket:["); is {
				by[strings.TrimSuffix(inode, "]")] = holder{pid, m.text("proc/" + p + "/comm")}
			}
		}
	}
	all := make([]holder, len(list))
	for i, s := range list {
		all[i] = by[s.inode]
	}
	return all
}

// taken are the sockets at a port in the way of who binds it, and who has them. Those of this
// process are not in its way.
func (m machine) taken(protocol string, bind netip.AddrPort) (who string, first holder) {
	list := slices.DeleteFunc(m.sockets(protocol, bind.Port()), func(s socket) bool { return !s.collides(bind.Addr()) })
	if len(list) == 0 {
		return "", holder{}
	}
	var words []string
	for i, h := range m.holders(list) {
		switch {
		case h.pid == os.Getpid():
			continue
		case h.pid > 0:
			words = append(words, fmt.Sprintf("%s, pid %d, has %s", cmp.Or(h.name, "a process"), h.pid, list[i].local))
		case protocol == "udp" && m.exists("sys/module/rdma_rxe"):
			words = append(words, fmt.Sprintf("the kernel's rdma_rxe has %s", list[i].local))
		default:
			words = append(words, fmt.Sprintf("another user or container, or the kernel, has %s", list[i].local))
		}
		if first.pid == 0 {
			first = h
		}
	}
	words = slices.Compact(words)
	if more := len(words) - mostHolders; more > 0 {
		words = append(words[:mostHolders], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, "; "), first
}
