package racktest

import (
	"context"
	"fmt"
	"testing"
)

// The wire between the kernel's device and soft: a veth pair in one machine, of
// which the device has one end, and soft the other in a network namespace of its
// own. There UDP port 4791 is free, and the device is seen nevertheless, since RDMA
// devices belong to all namespaces (rdma-system(8), netns shared).
const (
	wireUp = `ip netns add soft &&
ip link add v0 mtu $1 type veth peer name v1 mtu $1 netns soft &&
ip address add 10.78.0.1/24 dev v0 && ip address add fd78::1/64 dev v0 nodad && ip link set v0 up &&
ip -n soft address add 10.78.0.2/24 dev v1 && ip -n soft address add fd78::2/64 dev v1 nodad &&
ip -n soft link set v1 up && ip -n soft link set lo up && rdma link add rxev type rxe netdev v0`
	wireDown = `rdma link delete rxev; ip link delete v0; ip netns delete soft`
)

// data are the parts of the suite that move data: every operation, both ways.
const data = "/^(Transfer|SGL|Inline|Order|Queues|Completions|Atomics|PSN|Many|Stress)$"

// Soft and rdma_rxe through the conformance suite, in both directions. All of it runs
// at each path MTU and over each family, its data at each MTU over each family. What
// the suite has for an impaired path runs with every fault on either side's packets,
// with MTU and family in turn. The MTUs have a machine each, at the same time.
func TestInterop(t *testing.T) {
	tests := testBinary(t, ".", "./interop")
	for i, mtu := range []struct{ link, path int }{{1500, 1024}, {5000, 4096}} {
		t.Run(fmt.Sprintf("MTU%d", mtu.path), func(t *testing.T) {
			t.Parallel()
			interop(t, 2+i, mtu.link, tests, i == 0)
		})
	}
}

// interop is TestInterop at one MTU, in machine k. turn says whose turn it is.
func interop(t *testing.T, k, mtu int, tests string, turn bool) {
	before := left(t, k)
	defer func() {
		wire(t, k, wireDown)
		if after := left(t, k); after != before {
			t.Errorf("left in the machine:\n%s\nthere was before:\n%s", after, before)
		}
	}()
	wire(t, k, wireUp, fmt.Sprint(mtu))
	for _, family := range []struct {
		name, ibv, soft string
		turn            bool
	}{{"IPv4", "10.78.0.1", "10.78.0.2", turn}, {"IPv6", "fd78::1", "fd78::2", !turn}} {
		run := func(t *testing.T, flags ...string) {
			// Code 13, 34 ms: seven times the suite's 8 ms is less than an emulated
			// machine may need for its turn.
			suite(t, k, append([]string{"ip", "netns", "exec", "soft", tests, "-test.v", "-stress", "300", "-timeout", "13",
				"-ibv", "ibv:rxev", "-ibv-address", family.ibv, "-soft", "soft:v1", "-soft-address", family.soft}, flags...)...)
		}
		part := "."
		if !family.turn {
			part += data
		}
		t.Run(family.name, func(t *testing.T) { run(t, "-test.run", part) })
		for i, fault := range []struct{ name, inject, netem string }{
			{"loss", "soft: loss 2%", "loss 2%"},
			{"duplicate", "soft: duplicate 10%", "duplicate 10%"},
			{"reorder", "soft: reorder 3%", "delay 1ms reorder 95%"},
		} {
			if (i%2 == 0) != family.turn {
				continue
			}
			t.Run(family.name+"/"+fault.name+"/soft", func(t *testing.T) { run(t, "-inject", fault.inject) })
			t.Run(family.name+"/"+fault.name+"/ibv", func(t *testing.T) {
				wire(t, k, "tc qdisc add dev v0 root netem "+fault.netem)
				defer wire(t, k, "tc qdisc delete dev v0 root")
				run(t, "-impaired")
			})
		}
	}
}

// wire runs a script with its arguments in machine k. Unlike inVM it does so after
// a test's end, too.
func wire(t *testing.T, k int, script string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	out, err := bench.Command(ctx, k, "sh", append([]string{"-c", script, "sh"}, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// left is what a run may leave in machine k: RDMA objects, processes of tests,
// network namespaces and interfaces, shared memory.
func left(t *testing.T, k int) string {
	t.Helper()
	return inVM(t, k, "sh", "-c", `rdma resource show; rdma resource show qp; ip netns; ip -brief link; ls /dev/shm; pgrep -l '[.]test$' || true`)
}
