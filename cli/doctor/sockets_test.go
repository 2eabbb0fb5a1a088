package doctor

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"ringcli/configs/codes"
	"ringcli/verbs/soft/udp"
)

// everywhere is the address of no one interface, as the kernel writes it.
const everywhere = "00000000"

var socketsCases = []provocation{
	{"UDP held by a process", func(t *testing.T, f *fake) { f.software(); f.holds("udp", everywhere+":12B7", "07", 4242) }, "udp-port", Warn, codes.PortTaken, "perftest, pid 4242, has 0.0.0.0:4791", "kill 4242"},
	{"UDP held by rxe", func(t *testing.T, f *fake) {
		f.software()
		f.holds("udp", everywhere+":12B7", "07", 0)
		f.write("sys/module/rdma_rxe/refcnt", "1")
	}, "udp-port", Warn, codes.PortTaken, "the kernel's rdma_rxe has", "rdma link"},
	{"UDP held, and an adapter needs none", func(t *testing.T, f *fake) { f.holds("udp", everywhere+":12B7", "07", 4242) }, "udp-port", Pass, "", "without a socket", ""},
	{"UDP held at another address", func(t *testing.T, f *fake) {
		f.software()
		f.list(t, "node0,node1", 0)
		f.holds("udp", "0200007F:12B7", "07", 4242)
	}, "udp-port", Pass, "", "free on 10.1.2.3", ""},
	{"TCP held", func(t *testing.T, f *fake) { f.holds("tcp", everywhere+":48A8", "0A", 4242) }, "tcp-port", Fail, codes.PortTaken, "perftest, pid 4242, has 0.0.0.0:18600", "kill 4242  # or another --tcp-port"},
	{"TCP held on loopback, by another ring", func(t *testing.T, f *fake) { f.holds("tcp", "0200007F:48A8", "0A", 4242) }, "tcp-port", Pass, "", "free", ""},
	{"TCP held on loopback, and all addresses are bound", func(t *testing.T, f *fake) {
		f.list(t, "node0,node1", 0)
		f.holds("tcp", "0200007F:48A8", "0A", 4242)
	}, "tcp-port", Fail, codes.PortTaken, "has 127.0.0.2:18600", "kill 4242"},
	{"TCP held by another user", func(t *testing.T, f *fake) { f.holds("tcp", everywhere+":48A8", "0A", 0) }, "tcp-port", Fail, codes.PortTaken, "another user", "ss -lunpt"},
	{"a connection at the port", func(t *testing.T, f *fake) { f.holds("tcp", everywhere+":48A8", "01", 4242) }, "tcp-port", Pass, "", "free", ""},
	{"TCP held by this very process", func(t *testing.T, f *fake) { f.holds("tcp", everywhere+":48A8", "0A", os.Getpid()) }, "tcp-port", Pass, "", "free", ""},
	{"ports that any connection may have", func(t *testing.T, f *fake) {
		f.software()
		f.write("proc/sys/net/ipv4/ip_local_port_range", "1024 65535")
		f.write("proc/sys/net/ipv4/ip_local_reserved_ports", "8000-8010")
	}, "ephemeral-ports", Warn, codes.PortTaken, "1024 to 65535", "sysctl -w net.ipv4.ip_local_reserved_ports=8000-8010,18600,4791"},
	{"reserved ones", func(t *testing.T, f *fake) {
		f.write("proc/sys/net/ipv4/ip_local_port_range", "1024 65535")
		f.write("proc/sys/net/ipv4/ip_local_reserved_ports", "18000-19000")
	}, "ephemeral-ports", Pass, "", "1024", ""},
	{"small socket buffers", func(t *testing.T, f *fake) { f.software() }, "socket-buffers", Warn, codes.Slow, "rmem_max 208 KiB", "sysctl -w net.core.rmem_max=8388608 net.core.wmem_max=8388608"},
	{"small, and a capability", func(t *testing.T, f *fake) {
		f.software()
		f.write("proc/self/status", "CapEff:\t0000000000001000")
	}, "socket-buffers", Pass, "", "CAP_NET_ADMIN", ""},
	{"small, and an adapter", func(t *testing.T, f *fake) {}, "socket-buffers", Skip, "", "no soft device", ""},
	{"many hold it", func(_ *testing.T, f *fake) {
		f.software()
		lines := ""
		for i := range 5 {
			lines += fmt.Sprintf("   %d: %02X00000A:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 %d 1 0 10 0\n", i, i+1, 4711+i)
			f.write(fmt.Sprintf("proc/%d/comm", 4242+i), "perftest\n")
			f.link(fmt.Sprintf("proc/%d/fd/7", 4242+i), fmt.Sprintf("socket:[%d]", 4711+i))
		}
		f.write("proc/net/udp", "  sl  local_address rem_address   st\n"+lines)
	}, "udp-port", Warn, codes.PortTaken, "pid 4244, has 10.0.0.3:4791; and 2 more", "kill 4242"},
	{"a range that is not to be seen", func(_ *testing.T, f *fake) { f.remove("proc/sys/net/ipv4") }, "ephemeral-ports", Skip, "", "cannot be read", ""},
	{"buffers that are not to be seen", func(_ *testing.T, f *fake) { f.software(); f.remove("proc/sys/net/core") }, "socket-buffers", Skip, "", "not to be seen", ""},
}

// What is expected of socket buffers is what soft asks for: the kernel doubles it.
func TestSocketBuffer(t *testing.T) {
	c, err := udp.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if os.Geteuid() != 0 {
		t.Skip("not root: net.core.rmem_max may grant less")
	}
	if c.RecvBuffer() != 2*socketBuffer {
		t.Errorf("soft was granted %d bytes: expected twice %d", c.RecvBuffer(), socketBuffer)
	}
}
