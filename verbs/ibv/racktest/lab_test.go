package racktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/verbs/ibv/racktest/rack"
)

// The steps of the labs.
const (
	stepsOfA, stepsOfC = 13, 12
	// writeOfA and writeOfC are the first ones that need an rkey.
	writeOfA, writeOfC = 12, 11
)

// wrongKey is no region's: keys of rdma_rxe and of soft have small indices.
const wrongKey = "0xdeadbeef"

// labStep is a line of a lab's output: a step, or the summary, which has Steps.
type labStep struct {
	OK     bool              `json:"ok"`
	Step   int               `json:"step"`
	Name   string            `json:"name"`
	Values map[string]string `json:"values"`
	Peer   map[string]string `json:"peer"`
	Error  string            `json:"error"`
	Steps  *int              `json:"steps"`
	Device string            `json:"device"`
}

// attended is how a lab went at one end.
type attended struct {
	code    int
	steps   []labStep
	summary labStep
	output  string
}

// attend runs ringcli lab in a machine, or on the host's leg if k is 0. It may be
// called on any goroutine.
func attend(ctx context.Context, ringcli string, k int, args ...string) (attended, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, deadline, fmt.Errorf("not ended after %v", deadline))
	defer cancel()
	args = append([]string{ringcli, "lab"}, append(args, "--output", "json", "--timeout", "15s", "--qp-timeout", "16")...)
	output, err := player{node: k}.run(ctx, args)
	a := attended{output: output}
	if err != nil {
		var exit interface{ ExitCode() int }
		if !errors.As(err, &exit) {
			return a, err
		}
		a.code = exit.ExitCode()
	}
	for text := range strings.Lines(withoutWaits(output)) {
		var s labStep
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return a, fmt.Errorf("%v: %w: %q", args, err, text)
		}
		switch {
		case s.Steps != nil:
			a.summary = s
		case s.Step > 0: // else the error that the command ends with
			a.steps = append(a.steps, s)
		}
	}
	if a.summary.Steps == nil || len(a.steps) == 0 {
		return a, fmt.Errorf("%v: no summary, or no steps:\n%s", args, output)
	}
	return a, nil
}

// passed checks that all steps were taken, on the device.
func (a attended) passed(t *testing.T, device string, steps int) {
	t.Helper()
	if a.code != 0 || len(a.steps) != steps || *a.summary.Steps != steps || !a.summary.OK || a.summary.Device != device {
		t.Errorf("exit code %d, %d steps of %d on %s, expected %s\n%s", a.code, *a.summary.Steps, steps, a.summary.Device, device, a.output)
	}
	for _, s := range a.steps {
		if !s.OK {
			t.Errorf("step %d, %s: %s", s.Step, s.Name, s.Error)
		}
	}
}

// failed checks that the lab has failed at a step, and says the parts.
func (a attended) failed(t *testing.T, step int, parts ...string) {
	t.Helper()
	last := a.steps[len(a.steps)-1]
	if a.code != 2 || a.summary.OK || *a.summary.Steps != step-1 || last.OK || last.Step != step {
		t.Errorf("exit code %d after %d steps, expected 2, and the failure of step %d\n%s", a.code, *a.summary.Steps, step, a.output)
	}
	for _, part := range parts {
		if !strings.Contains(last.Error, part) {
			t.Errorf("step %d does not say %q: %s", last.Step, part, last.Error)
		}
	}
}

// places are where lab a runs: with rxe in a machine, and where there is none.
func places(t *testing.T) map[string]struct {
	node   int
	device string
} {
	plain(t, 4)
	return map[string]struct {
		node   int
		device string
	}{
		"rxe":  {2, "ibv:rxe0"},
		"soft": {4, "soft:eth0"},
	}
}

// Two queue pairs of one process.
func TestLabA(t *testing.T) {
	ringcli := binary(t, "ringcli")
	for name, place := range places(t) {
		t.Run(name, func(t *testing.T) {
			a, err := attend(t.Context(), ringcli, place.node, "a", "--device", place.device)
			if err != nil {
				t.Fatal(err)
			}
			a.passed(t, place.device, stepsOfA)
			rtr, rts := a.steps[6], a.steps[7]
			for _, c := range []struct{ name, got, want string }{
				{"QP0's dest_qp_num", rtr.Values["dest_qp_num"], rtr.Peer["qp_num"]},
				{"QP1's dest_qp_num", rtr.Peer["dest_qp_num"], rtr.Values["qp_num"]},
				{"QP0's rq_psn", rtr.Values["rq_psn"], rts.Peer["sq_psn"]},
				{"QP1's rq_psn", rtr.Peer["rq_psn"], rts.Values["sq_psn"]},
			} {
				if c.got == "" || c.got != c.want {
					t.Errorf("%s is %q, the other end's %q", c.name, c.got, c.want)
				}
			}
			for _, s := range a.steps[9:] {
				if got := s.Values["verified"] + s.Peer["verified"]; got != "8192 bytes" {
					t.Errorf("step %d, %s: verified %q", s.Step, s.Name, got)
				}
			}
			if a, err = attend(t.Context(), ringcli, place.node, "a", "--device", place.device, "--rkey", wrongKey); err != nil {
				t.Fatal(err)
			}
			a.failed(t, writeOfA, "REM_ACCESS_ERR (10", "rkey "+wrongKey, "the peer's region has rkey")
		})
	}
}

// Lab d takes what is the best way here: rdma_rxe registers no dma-buf, and memory of a GPU where the
// host could touch it, too, which is so of peer memory; else it is staged.
func TestLabD(t *testing.T) {
	ringcli := binary(t, "ringcli")
	libraries, sources := filepath.Join(shared, "gpu"), filepath.Join(product, "verbs/gpu/gputest/testdata")
	if err := os.MkdirAll(libraries, 0o755); err != nil {
		t.Fatal(err)
	}
	cc := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-fvisibility=hidden", "-O1", "-o", filepath.Join(libraries, "libcuda.so.1"),
		filepath.Join(sources, "gpu.c"), filepath.Join(sources, "kernels.c"), "-lpthread")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for mapped, path := range map[string]string{"0": "staged", "1": "peer memory"} {
		script := filepath.Join(libraries, "ringcli-"+mapped)
		text := fmt.Sprintf("#!/bin/sh\nLD_LIBRARY_PATH=%s RINGTEST_GPU_MAPPED=%s exec %s \"$@\"\n", libraries, mapped, ringcli)
		if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		a, err := attend(t.Context(), script, 2, "d", "--device", "ibv:rxe0", "--memory", "cuda:1")
		if err != nil {
			t.Fatal(err)
		}
		a.passed(t, "ibv:rxe0", stepsOfA)
		for _, end := range []map[string]string{a.steps[3].Values, a.steps[3].Peer} {
			if end["path"] != path || !strings.Contains(end["not"], "ibv_reg_dmabuf_mr") || path == "staged" != strings.Contains(end["not"], "peer memory: ") {
				t.Errorf("path %q, not %q: expected %q", end["path"], end["not"], path)
			}
			t.Log(end["path"], end["not"])
		}
		for _, s := range a.steps[9:] {
			if got := s.Values["verified"] + s.Peer["verified"]; got != "8192 bytes in cuda:1" {
				t.Errorf("step %d, %s: verified %q", s.Step, s.Name, got)
			}
		}
	}
}

// Lab b is the pingpong: with the stock tool at the other end.
func TestLabB(t *testing.T) {
	ringcli := binary(t, "ringcli")
	options := []string{"-s", "1024", "-n", "1000", "-m", "1024"}
	for _, ours := range []player{oursOnSoft(t, 254), oursIn(2)} {
		t.Run(ours.String(), func(t *testing.T) {
			device := seat{node: ours.node, address: ours.address}.device()
			stock := stockIn(1)
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			lab := []string{ringcli, "lab", "b", "--device", device, "--timeout", "15s", "--explain"}
			var served, asked string
			var errs [2]error
			var ends sync.WaitGroup
			ends.Go(func() { served, errs[0] = stock.run(ctx, stock.command(ringcli, nil, options)) })
			asked, errs[1] = ours.run(ctx, append(lab, stock.address.String()))
			ends.Wait()
			if err := errors.Join(errs[:]...); err != nil {
				t.Fatal(err)
			}
			for _, said := range []string{served, asked} {
				for _, want := range []string{"  local address:  LID 0x0000, QPN 0x", "  remote address: LID 0x0000, QPN 0x", "2048000 bytes in ", "1000 iters in "} {
					if !strings.Contains(said, want) {
						t.Errorf("no %q in\n%s", want, said)
					}
				}
			}
		})
	}
}

// end is where a rank of lab c is.
type end struct {
	seat
	flags []string
}

// labC runs both ends of lab c.
func labC(t *testing.T, ends [2]end) (both [2]attended) {
	t.Helper()
	ringcli := binary(t, "ringcli")
	list := listOf([]seat{ends[0].seat, ends[1].seat})
	var errs [2]error
	var all sync.WaitGroup
	for rank, e := range ends {
		all.Go(func() {
			args := append([]string{"c", "--device", e.device(), "--list", list, "--index", strconv.Itoa(rank)}, e.flags...)
			both[rank], errs[rank] = attend(t.Context(), ringcli, e.node, args...)
		})
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return both
}

// Two hosts: two kernels, and a kernel with soft, either way round.
func TestLabC(t *testing.T) {
	vm1, vm2, host := end{seat: onRXE(1)[0]}, end{seat: onRXE(2)[0]}, end{seat: onSoft(t, 254)}
	vm6, host6 := end{seat: seat{node: 1, address: bench.Address6(1)}}, end{seat: seat{address: rack.HostAddress6()}}
	for name, ends := range map[string][2]end{
		"rxe and rxe": {vm1, vm2}, "rxe and soft": {vm1, host}, "soft and rxe": {host, vm2}, "IPv6": {vm6, host6},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			both := labC(t, ends)
			for rank, a := range both {
				a.passed(t, ends[rank].device(), stepsOfC)
				if t.Failed() {
					return
				}
				for _, s := range a.steps[9:] {
					// Each SENDs, WRITEs and READs; who gets the bytes verifies them.
					if got, want := s.Values["verified"], fmt.Sprintf("8192 bytes of rank %d", 1-rank); got != want {
						t.Errorf("rank %d, step %d, %s: verified %q, expected %q", rank, s.Step, s.Name, got, want)
					}
				}
				gid, err := netip.ParseAddr(a.steps[3].Values["gid"])
				if want := ends[rank].address; err != nil || gid.Unmap() != want {
					t.Errorf("rank %d speaks from %s, expected %s", rank, a.steps[3].Values["gid"], want)
				}
				// What one end was told is what the other has.
				mine, theirs := a.steps[3].Values, both[1-rank].steps[4].Peer
				for _, value := range []string{"gid", "qpn", "psn", "raddr", "rkey"} {
					if mine[value] == "" || mine[value] != theirs[value] {
						t.Errorf("rank %d has %s %q, the other end was told %q", rank, value, mine[value], theirs[value])
					}
				}
			}
			t.Logf("%d of %d steps in %.1f s", *both[0].summary.Steps, stepsOfC, time.Since(began).Seconds())
		})
	}
}

// A wrong rkey makes the lab fail at both ends.
func TestLabCWrongKey(t *testing.T) {
	vm1, vm2, host := end{seat: onRXE(1)[0]}, end{seat: onRXE(2)[0]}, end{seat: onSoft(t, 254)}
	wrong := func(e end) end { return end{e.seat, []string{"--rkey", wrongKey}} }
	for _, c := range []struct {
		name string
		ends [2]end
		rank int // that has the wrong one
	}{
		{"rxe of rxe", [2]end{vm1, wrong(vm2)}, 1},
		{"soft of rxe", [2]end{vm1, wrong(host)}, 1},
		{"rxe of soft", [2]end{wrong(vm1), host}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			both := labC(t, c.ends)
			both[c.rank].failed(t, writeOfC, "REM_ACCESS_ERR (10", "rkey "+wrongKey, "the peer's region has rkey")
			both[1-c.rank].failed(t, writeOfC, fmt.Sprintf("at rank %d: ", c.rank), "REM_ACCESS_ERR (10")
		})
	}
}
