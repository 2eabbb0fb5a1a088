package shm_test

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"ringcli/verbs"
)

// A peer is killed in the middle of traffic both ways. The survivor's requests end
// in time, the first that fails with RetryExceeded, its objects close, and nothing
// is left behind.
func TestKilledPeer(t *testing.T) {
	kills := 36
	if testing.Short() {
		kills = 6
	}
	files, maps := leftovers(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range kills {
		killPeer(t, i%2 == 0, i%3 == 0, time.Duration(rng.IntN(20000))*time.Microsecond)
		if t.Failed() {
			return
		}
	}
	// The runtime opens a few of its own.
	if f, m := leftovers(t); f > files+3 || m > maps {
		t.Errorf("after %d kills %d descriptors and %d maps of arenas are open, before %d and %d", kills, f, m, files, maps)
	}
}

func killPeer(t *testing.T, arena, peerArena bool, after time.Duration) {
	t.Helper()
	const size = 1 << 20
	e, err := newEnd(arena, size)
	if err != nil {
		t.Fatal(err)
	}
	p := startPeer(t, e, role{Arena: peerArena, Bytes: size, Flood: true})
	var wrs []verbs.WorkRequest
	for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpFetchAdd} {
		for _, n := range []uint32{8, 4096, 200 << 10} {
			if op != verbs.OpFetchAdd || n == 8 {
				wrs = append(wrs, verbs.WorkRequest{Opcode: op, Flags: verbs.FlagSignaled, SGL: e.sge(0, n), RKey: p.RKey, RemoteAddr: p.Addr})
			}
		}
	}
	posted, ended := 0, 0
	var failures []verbs.Status
	killed := time.Time{}
	begun := time.Now()
	for killed.IsZero() || posted > ended {
		if killed.IsZero() && time.Since(begun) > after {
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			killed = time.Now()
		}
		for killed.IsZero() && posted-ended < 50 {
			n, err := e.qp.PostSend(wrs)
			posted += n
			if err != nil {
				t.Fatal(err)
			}
		}
		wcs, err := e.poll(time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		for _, wc := range wcs {
			if ended++; wc.Status != verbs.Success {
				failures = append(failures, wc.Status)
			}
		}
		if !killed.IsZero() && time.Since(killed) > 20*time.Second {
			t.Fatalf("20 s after the kill %d of %d requests have ended, the failures %v", ended, posted, failures)
		}
	}
	if len(failures) > 0 && failures[0] != verbs.RetryExceeded {
		t.Errorf("the first failure is %s, want %s", failures[0], verbs.RetryExceeded)
	}
	for _, s := range failures[min(1, len(failures)):] {
		if s != verbs.FlushError {
			t.Errorf("behind the first failure: %s, want %s", s, verbs.FlushError)
		}
	}
	if p.end() == nil {
		t.Error("the peer ended by itself")
	}
	if err := e.close(); err != nil {
		t.Error(err)
	}
}

// leftovers counts what this process has open.
func leftovers(t *testing.T) (files, arenas int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return len(list), strings.Count(string(maps), "ringcli-arena")
}
