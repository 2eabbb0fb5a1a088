package racktest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// transportDevice has the tests of a transport run on the kernel's device.
const transportDevice = "RINGTEST_TRANSPORT_DEVICE=ibv:rxe0"

// Transports on the kernel's device: the examples, two processes, what is told of where, late
// peers, bounds, dead peers. Supported is true there.
func TestTransport(t *testing.T) {
	suite(t, 1, "env", transportDevice, testBinary(t, product, "./verbs/transport"), "-test.v", "-test.run",
		"^Test(Examples|TwoProcesses|ConnectInSequence|Notifications|ReadAndBatch|ManyGoroutines|Bounds|WrongPeer|Cancel|CloseAmidWrites|DeadPeer|AbsentPeer|Supported)$")
	out := inVM(t, 1, testBinary(t, product, "./verbs/transport"), "-test.v", "-test.run", "^TestSupported$")
	if !strings.Contains(out, "true: ibv:rxe0: port 1 is active") {
		t.Errorf("Supported says something else than that there is rxe0:\n%s", out)
	}
}

// Two machines: what one writes into the other's memory comes back.
func TestTransportBetweenMachines(t *testing.T) {
	binary := testBinary(t, product, "./verbs/transport")
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	const rounds = 100
	type end struct {
		in  *io.PipeWriter
		out *bufio.Reader
		err chan error
	}
	var ends [2]end
	for i, role := range []string{fmt.Sprintf(`"Echo":%d`, rounds), fmt.Sprintf(`"Lead":%d`, rounds)} {
		fromUs, toIt := io.Pipe()
		toUs, fromIt := io.Pipe()
		said := newOutput()
		c := bench.Command(ctx, 1+i, binary, "-test.run=^$")
		c.Env = []string{`RINGTEST_TRANSPORT_PEER={"Device":"ibv:rxe0",` + role + `}`}
		c.Stdin, c.Stdout, c.Stderr = fromUs, fromIt, said
		ends[i] = end{toIt, bufio.NewReader(toUs), make(chan error, 1)}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			err := c.Wait()
			if err != nil {
				err = fmt.Errorf("machine %d: %w\n%s", 1+i, err, said)
			}
			_ = fromIt.Close()
			_ = fromUs.Close()
			ends[i].err <- err
		}()
	}
	// Each is told what the other has said of itself: a line.
	var lines [2]string
	for i := range ends {
		line, err := ends[i].out.ReadString('\n')
		if err != nil {
			t.Fatalf("machine %d says nothing: %v, %v", 1+i, err, <-ends[i].err)
		}
		lines[1-i] = line
	}
	for i := range ends {
		if _, err := io.WriteString(ends[i].in, lines[i]); err != nil {
			t.Fatal(err)
		}
	}
	last, err := ends[1].out.ReadString('\n') // when its rounds are over
	if err != nil || !strings.Contains(last, fmt.Sprintf("%d rounds", rounds)) {
		t.Errorf("the leader says %q, %v", last, err)
	}
	for i := range ends {
		_ = ends[i].in.Close()
	}
	for i := range ends {
		select {
		case err := <-ends[i].err:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(deadline):
			t.Errorf("machine %d does not end", 1+i)
		}
	}
}

// Without libibverbs, without a device, and with one whose port is down, nothing is taken in
// place of RDMA, and the reason says what is missing.
func TestTransportUnsupported(t *testing.T) {
	binary := testBinary(t, product, "./verbs/transport")
	for _, c := range []struct{ before, after, want string }{
		{"mount --bind /dev/null $(readlink -f /usr/lib/*/libibverbs.so.1)", "umount $(readlink -f /usr/lib/*/libibverbs.so.1)", "false: ibv: "},
		{"echo 1 >/proc/sys/net/ipv6/conf/eth0/keep_addr_on_down; ip link set eth0 down", "ip link set eth0 up", "false: ibv:rxe0: port 1 of ibv:rxe0 is DOWN"},
		{"rdma link delete rxe0", "rdma link add rxe0 type rxe netdev eth0", "false: ibv: no RDMA device"},
	} {
		out := inVM(t, 1, "sh", "-c", fmt.Sprintf("%s && { %s -test.v -test.run '^TestSupported$'; status=$?; %s; exit $status; }", c.before, binary, c.after))
		if !strings.Contains(out, c.want) {
			t.Errorf("after %q: expected %q in\n%s", c.before, c.want, out)
		}
	}
	if out := inVM(t, 1, binary, "-test.v", "-test.run", "^TestSupported$"); !strings.Contains(out, "true: ibv:rxe0") {
		t.Errorf("it does not come back:\n%s", out)
	}
}
