package cli

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// cable is a point-to-point link between two network namespaces of the test's own, whose
// packets the test carries. Node i has 10.78.0.(i+1).
type cable struct {
	names [2]string
	ends  [2]*os.File
	// carry tells whether a packet that node from sends arrives, and may change it; what it
	// returns besides goes back to the sender. It is not changed while packets come.
	carry func(from int, packet []byte) (arrives bool, back []byte)
	after func(from int, packet []byte) time.Duration // delays; nil: none
}

func newCable(t *testing.T, mtu int) *cable {
	t.Helper()
	c := &cable{}
	for i := range c.names {
		name := namespace(t, i)
		c.names[i] = name
		end, err := tunIn(name)
		if err != nil {
			t.Skipf("needs TUN devices: %v", err)
		}
		t.Cleanup(func() { _ = end.Close() })
		c.ends[i] = end
		ip(t, "-n", name, "address", "add", fmt.Sprintf("10.78.0.%d/24", i+1), "dev", "tun0")
		ip(t, "-n", name, "link", "set", "dev", "tun0", "mtu", fmt.Sprint(mtu), "up")
	}
	return c
}

// within does something in a network namespace.
func within(namespace string, do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // which ends with the goroutine: it stays in the namespace
		if unix.Gettid() == os.Getpid() {
			// The main thread does not end, and its namespace is what /proc shows of the process.
			done <- within(namespace, do)
			runtime.UnlockOSThread()
			return
		}
		ns, err := unix.Open("/run/netns/"+namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(ns, unix.CLONE_NEWNET)
			_ = unix.Close(ns)
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// tunIn makes the interface tun0 in a network namespace.
func tunIn(namespace string) (f *os.File, err error) {
	err = within(namespace, func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq("tun0")
		if err == nil {
			request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
		}
		f = os.NewFile(uintptr(fd), "tun0") // of an interface, else nothing wakes who reads
		return err
	})
	return f, err
}

// run carries packets until the test ends.
func (c *cable) run(t *testing.T) {
	var carrying sync.WaitGroup
	for from := range c.ends {
		carrying.Go(func() {
			b := make([]byte, 1<<16)
			for {
				n, err := c.ends[from].Read(b)
				if err != nil {
					return
				}
				packet := b[:n]
				if n < 20 || packet[0]>>4 != 4 {
					continue
				}
				arrives, back := true, []byte(nil)
				if c.carry != nil {
					arrives, back = c.carry(from, packet)
				}
				if back != nil {
					_, _ = c.ends[from].Write(back)
				}
				if !arrives {
					continue
				}
				if c.after != nil {
					if wait := c.after(from, packet); wait > 0 {
						late := append([]byte(nil), packet...)
						time.AfterFunc(wait, func() { _, _ = c.ends[1-from].Write(late) })
						continue
					}
				}
				_, _ = c.ends[1-from].Write(packet)
			}
		})
	}
	t.Cleanup(func() {
		for _, f := range c.ends {
			_ = f.Close()
		}
		carrying.Wait()
	})
}

// ipSum is the checksum of an IP or ICMP header.
func ipSum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// tooBig is a router's ICMP message that a packet is too long for a link.
func tooBig(packet []byte, router string, mtu int) []byte {
	b := make([]byte, 28, 56)
	b[0], b[8], b[9] = 0x45, 64, 1
	binary.BigEndian.PutUint16(b[2:], 56)
	copy(b[12:], netip.MustParseAddr(router).AsSlice())
	copy(b[16:], packet[12:16])
	binary.BigEndian.PutUint16(b[10:], ipSum(b[:20]))
	b[20], b[21] = 3, 4
	binary.BigEndian.PutUint16(b[26:], uint16(mtu))
	b = append(b, packet[:28]...)
	binary.BigEndian.PutUint16(b[22:], ipSum(b[20:]))
	return b
}

// udpFrom tells whether a packet is UDP of this source port.
func udpFrom(packet []byte, port uint16) bool {
	return packet[9] == unix.IPPROTO_UDP && binary.BigEndian.Uint16(packet[20:]) == port
}

// start starts the two ranks.
func (c *cable) start(t *testing.T, line string, args ...string) [2]*process {
	t.Helper()
	c.run(t)
	return startIn(t, c.names, "10.78.0.1,10.78.0.2", line, args...)
}

// startIn starts two ranks in namespaces.
func startIn(t *testing.T, names [2]string, list, line string, args ...string) (ranks [2]*process) {
	t.Helper()
	for i := range ranks {
		p := program(t, append([]string{"connect", "--index", fmt.Sprint(i), "--list", list, "--timeout", "20s", "--output", "json", "-c", line}, args...)...)
		p.in(names[i]).start(t)
		ranks[i] = p
	}
	return ranks
}

// paths runs path on two ranks of a cable and returns the code of rank 0 and its rows, by
// direction and check.
func (c *cable) paths(t *testing.T, line string, args ...string) (code int, rows map[string]map[string]any) {
	t.Helper()
	return pathsOf(t, c.start(t, line, args...))
}

// pathsOf waits for two ranks that run path.
func pathsOf(t *testing.T, ranks [2]*process) (code int, rows map[string]map[string]any) {
	t.Helper()
	code = ranks[0].end(t, hung)
	if other := ranks[1].end(t, hung); other != code {
		t.Errorf("exit codes %d and %d", code, other)
	}
	rows = map[string]map[string]any{}
	for _, o := range objects(t, ranks[0].stdout.String()) {
		if check, is := o["check"].(string); is {
			rows[fmt.Sprintf("%v-%v %s", o["from"], o["to"], check)] = o
		}
	}
	if len(rows) != 10 {
		t.Fatalf("%d rows\n%s%s", len(rows), ranks[0].stdout.String(), ranks[0].stderr.String())
	}
	return code, rows
}

// Each fault of a path is named by its direction, and nothing else is.
func TestPathProvoked(t *testing.T) {
	verbstest.Long(t)
	small := func(says bool) func(int, []byte) (bool, []byte) {
		return func(from int, packet []byte) (bool, []byte) {
			if from == 1 || len(packet) <= 1000 {
				return true, nil
			}
			if says {
				return false, tooBig(packet, "10.78.0.254", 1000)
			}
			return false, nil
		}
	}
	for _, c := range []struct {
		name  string
		carry func(from int, packet []byte) (bool, []byte)
		after func(from int, packet []byte) time.Duration
		args  []string
		code  int
		wrong map[string]string // the rows that are not well: verdict and words
	}{
		{name: "clean"},
		// What a soft device sends has the traffic class, too; other packets of it are lost here.
		{name: "traffic class", args: []string{"--traffic-class", "106"}, carry: func(_ int, packet []byte) (bool, []byte) {
			return !udpFrom(packet, 4791) || packet[1] == 106, nil
		}},
		{name: "mtu", carry: small(false), code: exit.Critical, wrong: map[string]string{
			"0-1 size": "FAIL packets of up to 1000 bytes arrive, longer ones do not (tun0 has MTU 1500); the queue pair's MTU 1024 needs 1088; no router has reported a limit",
		}},
		{name: "mtu told", carry: small(true), code: exit.Critical, wrong: map[string]string{
			"0-1 size": "FAIL packets of up to 1000 bytes arrive, longer ones do not (tun0 has MTU 1500); the queue pair's MTU 1024 needs 1088; 10.78.0.254 says that its next link takes 1000",
		}},
		{name: "mtu that is enough", carry: small(false), args: []string{"--mtu", "512"}, code: exit.Warning, wrong: map[string]string{
			"0-1 size": "WARN packets of up to 1000 bytes arrive, longer ones do not (tun0 has MTU 1500); the queue pair's MTU 512 needs 576",
		}},
		{name: "dscp", carry: func(from int, packet []byte) (bool, []byte) {
			if from == 1 && packet[9] == unix.IPPROTO_UDP {
				packet[1] &= 3 // DSCP 0
				binary.BigEndian.PutUint16(packet[10:], 0)
				binary.BigEndian.PutUint16(packet[10:], ipSum(packet[:20]))
			}
			return true, nil
		}, code: exit.Warning, wrong: map[string]string{
			"1-0 marks": "WARN DSCP 26 ECT(0) arrives as DSCP 0 ECT(0), DSCP 48 not ECT arrives as DSCP 0 not ECT",
		}},
		{name: "ecn", carry: func(from int, packet []byte) (bool, []byte) {
			if from == 0 && packet[9] == unix.IPPROTO_UDP {
				packet[1] &^= 3
				binary.BigEndian.PutUint16(packet[10:], 0)
				binary.BigEndian.PutUint16(packet[10:], ipSum(packet[:20]))
			}
			return true, nil
		}, code: exit.Warning, wrong: map[string]string{
			"0-1 marks": "WARN DSCP 0 ECT(0) arrives as DSCP 0 not ECT",
		}},
		{name: "one source port", carry: func(from int, packet []byte) (bool, []byte) {
			return from == 1 || !udpFrom(packet, 49155), nil
		}, code: exit.Critical, wrong: map[string]string{
			"0-1 ports": "FAIL source port 49155: ",
		}},
		{name: "a longer path", after: func(from int, packet []byte) time.Duration {
			if from == 1 && udpFrom(packet, 49154) {
				return 20 * time.Millisecond
			}
			return 0
		}, code: exit.Warning, wrong: map[string]string{
			"1-0 ports": "WARN source port 49154: later by ",
		}},
		{name: "a firewall", carry: func(_ int, packet []byte) (bool, []byte) {
			return packet[9] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(packet[22:]) == 4791, nil
		}, code: exit.Warning, wrong: map[string]string{
			"0-1 size": "WARN nothing arrives at UDP port", "1-0 size": "WARN nothing arrives at UDP port",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.name == "a firewall" {
				t.Skip("it waits for what does not come; `make test-long` runs it")
			}
			t.Parallel()
			wire := newCable(t, 1500)
			wire.carry, wire.after = c.carry, c.after
			code, rows := wire.paths(t, "path", c.args...)
			if code != c.code {
				t.Errorf("exit code %d: expected %d", code, c.code)
			}
			for key, row := range rows {
				verdict, words, _ := strings.Cut(c.wrong[key], " ")
				switch {
				case c.wrong[key] == "" && row["ok"] != true, c.wrong[key] != "" && row["verdict"] != verdict,
					!strings.Contains(fmt.Sprint(row["value"]), words), row["ok"] != true && (row["fix"] == "" || row["expected"] == ""):
					t.Errorf("%s: %v %q, expected %q, fix %q: expected %q", key, row["verdict"], row["value"], row["expected"], row["fix"], c.wrong[key])
				}
			}
		})
	}
}

// A rank that dies meanwhile is the usual verdict, and Ctrl-C ends all.
func TestPathEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal syscall.Signal
		to     int
		codes  [2]int
		words  string // of rank 0
	}{
		"died":   {syscall.SIGKILL, 1, [2]int{exit.Critical, -1}, "rank 1"},
		"Ctrl-C": {syscall.SIGINT, 0, [2]int{exit.Interrupted, exit.Critical}, "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wire := newCable(t, 1500)
			began, once := make(chan struct{}), sync.Once{}
			wire.carry = func(_ int, packet []byte) (bool, []byte) {
				if packet[9] == unix.IPPROTO_UDP && binary.BigEndian.Uint16(packet[22:]) != 4791 {
					once.Do(func() { close(began) })
					return false, nil // so that it lasts
				}
				return true, nil
			}
			ranks := wire.start(t, "path; path; path; path")
			select {
			case <-began:
			case <-time.After(hung):
				t.Fatal("no probe was sent")
			}
			if err := ranks[c.to].Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			for i, p := range ranks {
				if c.codes[i] < 0 {
					_ = p.Wait()
				} else if code := p.end(t, hung); code != c.codes[i] {
					t.Errorf("rank %d: exit code %d: expected %d\n%s", i, code, c.codes[i], p.stderr.String())
				}
			}
			if text := ranks[0].stdout.String() + ranks[0].stderr.String(); !strings.Contains(text, c.words) {
				t.Errorf("expected %q\n%s", c.words, text)
			}
		})
	}
}

// A router of the kernel's says what its next link takes, and a route by another interface than
// the device's is told.
func TestPathThroughRouter(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	another := func(node, router string) { // interface leads to the other node
		ip(t, "-n", router, "link", "add", "eth2", "type", "veth", "peer", "name", "eth1", "netns", node)
		ip(t, "-n", router, "link", "set", "eth2", "up")
		ip(t, "-n", router, "address", "add", "10.79.2.254/24", "dev", "eth2")
		ip(t, "-n", node, "address", "add", "10.79.2.1/24", "dev", "eth1")
		ip(t, "-n", node, "link", "set", "eth1", "up")
		ip(t, "-n", node, "route", "replace", "default", "via", "10.79.2.254")
	}
	for name, c := range map[string]struct {
		// change is what happens to node 0, and to the router.
		change func(node, router string)
		code   int
		wrong  map[string]string
	}{
		"mtu": {change: func(_, router string) {
			ip(t, "-n", router, "route", "replace", "10.79.1.0/24", "dev", "eth1", "mtu", "lock", "1050")
		}, code: exit.Critical, wrong: map[string]string{
			"0-1 size": "packets of up to 1050 bytes arrive, longer ones do not (eth0 has MTU 1500); the queue pair's MTU 1024 needs 1088; 10.79.0.254 says that its next link takes 1050",
		}},
		"interface": {change: another, code: exit.Warning, wrong: map[string]string{
			"0-1 route": "by eth1 to the router 10.79.2.254",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var names [3]string // the last is the router
			for i := range names {
				names[i] = namespace(t, i)
			}
			router := names[2]
			for i, node := range names[:2] {
				port := fmt.Sprintf("eth%d", i)
				ip(t, "-n", router, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", node)
				ip(t, "-n", router, "link", "set", port, "up")
				ip(t, "-n", router, "address", "add", fmt.Sprintf("10.79.%d.254/24", i), "dev", port)
				ip(t, "-n", node, "address", "add", fmt.Sprintf("10.79.%d.1/24", i), "dev", "eth0")
				ip(t, "-n", node, "link", "set", "eth0", "up")
				ip(t, "-n", node, "route", "add", "default", "via", fmt.Sprintf("10.79.%d.254", i))
			}
			c.change(names[0], router)
			ip(t, "netns", "exec", router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward; for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done")
			code, rows := pathsOf(t, startIn(t, [2]string(names[:2]), "10.79.0.1,10.79.1.1", "path"))
			if code != c.code {
				t.Errorf("exit code %d: expected %d", code, c.code)
			}
			for key, row := range rows {
				words, wrong := c.wrong[key]
				if well := row["ok"] == true; wrong == well || !strings.Contains(fmt.Sprint(row["value"]), words) {
					t.Errorf("%s: %v %q: expected %q", key, row["verdict"], row["value"], words)
				}
			}
		})
	}
}
