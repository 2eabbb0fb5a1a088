package shm_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/shm"
)

// run posts requests, signals the last, and waits for it.
func (e *end) run(t testing.TB, wrs ...verbs.WorkRequest) {
	t.Helper()
	wrs[len(wrs)-1].Flags |= verbs.FlagSignaled
	if n, err := e.qp.PostSend(wrs); err != nil {
		t.Fatalf("request %d: %v", n, err)
	}
	wcs, err := e.poll(10 * time.Second)
	if err != nil || len(wcs) != 1 || wcs[0].Status != verbs.Success {
		t.Fatalf("%s of %d bytes: got %v, %v after at most 10 s, want success", wrs[0].Opcode, wrs[0].SGL[0].Length, wcs, err)
	}
}

// Every operation in sizes around where the ways of travelling change, between
// processes, out of and into arenas and other memory, where the processes can read
// each other's memory and where they cannot.
func TestProcesses(t *testing.T) {
	for _, c := range []struct{ arena, peerArena, blind, peerBlind bool }{
		{true, true, false, false}, {false, true, false, false}, {true, false, false, false}, {false, false, false, false},
		{false, false, true, false}, {false, false, false, true}, {false, false, true, true}, {true, true, true, true},
	} {
		t.Run(fmt.Sprintf("arena=%v_peerArena=%v_blind=%v_peerBlind=%v", c.arena, c.peerArena, c.blind, c.peerBlind), func(t *testing.T) {
			if c.blind {
				shm.ForbidReading()
				defer shm.AllowReading()
			}
			const half = 4 << 20
			e, err := newEnd(c.arena, 2*half)
			if err != nil {
				t.Fatal(err)
			}
			p := startPeer(t, e, role{Arena: c.peerArena, Bytes: half, Receive: 16, Blind: c.peerBlind})
			for _, n := range []uint32{0, 1, 8, 24, 25, 511, 512, 4096, 16384, 16385, 65536, 65537, 300001, 1 << 20, 3<<20 + 5} {
				for i, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpSend, verbs.OpWriteImm, verbs.OpSendImm} {
					transfer(t, e, p, op, n, uint64(n)<<8+uint64(i))
				}
			}
			add := verbs.WorkRequest{Opcode: verbs.OpFetchAdd, SGL: e.sge(0, 8), RKey: p.RKey, RemoteAddr: p.Addr, CompareAdd: 5}
			e.run(t, verbs.WorkRequest{Opcode: verbs.OpWrite, SGL: e.sge(half, 8), RKey: p.RKey, RemoteAddr: p.Addr}, add, add)
			before := binary.NativeEndian.Uint64(e.mem.Bytes()[half:])
			if got := binary.NativeEndian.Uint64(e.mem.Bytes()); got != before+5 {
				t.Errorf("the second FETCH_ADD of 5 to %d brought %d", before, got)
			}
			testMap(t, e, p, c.peerArena)
			if err := p.end(); err != nil {
				t.Error(err)
			}
			if err := e.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A request that has waited for a receive is answered when that comes, also if its owner then polls
// no more: the goroutine that makes progress meanwhile has gone to sleep for want of it.
func TestAnsweredWithoutPolls(t *testing.T) {
	var ends [2]*end
	for i := range ends {
		e, err := newEnd(true, 4096)
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = e
		defer func() {
			if err := e.close(); err != nil {
				t.Error(err)
			}
		}()
	}
	for i, e := range ends {
		other, err := ends[1-i].contact()
		if err == nil {
			err = e.connect(other)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	a, b := ends[0], ends[1]
	for range 3 {
		if _, err := a.qp.PostSend([]verbs.WorkRequest{{Opcode: verbs.OpSend, Flags: verbs.FlagSignaled, SGL: a.sge(0, 8)}}); err != nil {
			t.Fatal(err)
		}
		if wcs, err := a.poll(100 * time.Millisecond); err != nil || len(wcs) > 0 {
			t.Fatalf("without a receive: %v, %v", wcs, err)
		}
		if _, err := b.qp.PostRecv([]verbs.WorkRequest{{SGL: b.sge(0, 8)}}); err != nil {
			t.Fatal(err)
		}
		if wcs, err := a.poll(10 * time.Second); err != nil || len(wcs) != 1 || wcs[0].Status != verbs.Success {
			t.Fatalf("got %v, %v after at most 10 s, want success", wcs, err)
		}
		if wcs, err := b.poll(10 * time.Second); err != nil || len(wcs) != 1 || wcs[0].Status != verbs.Success {
			t.Fatalf("the receive: got %v, %v, want success", wcs, err)
		}
	}
}

// transfer sends n bytes in two pieces to the peer, and reads them back.
func transfer(t *testing.T, e *end, p *peer, op verbs.Opcode, n uint32, seed uint64) {
	t.Helper()
	const half = 4 << 20
	source, back := e.mem.Bytes()[:n], e.mem.Bytes()[half:][:n]
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range source {
		source[i] = byte(rng.Uint32())
	}
	clear(back)
	cut := n / 3
	there := verbs.WorkRequest{Opcode: op, SGL: append(e.sge(0, cut), e.sge(uint64(cut), n-cut)...), RKey: p.RKey, RemoteAddr: p.Addr, Imm: 1}
	again := verbs.WorkRequest{Opcode: verbs.OpRead, Flags: verbs.FlagFence, SGL: append(e.sge(half, cut), e.sge(half+uint64(cut), n-cut)...), RKey: p.RKey, RemoteAddr: p.Addr}
	e.run(t, there, again)
	if !bytes.Equal(source, back) {
		at := 0
		for source[at] == back[at] {
			at++
		}
		t.Fatalf("%s of %d bytes, read back: byte %d is %#x, want %#x", op, n, at, back[at], source[at])
	}
}

// testMap looks into the peer's memory without a request.
func testMap(t *testing.T, e *end, p *peer, inArena bool) {
	t.Helper()
	m, err := e.ctx.(verbs.Mapper).Reach(t.Context(), p.GID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(m.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	}()
	both := verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	at, err := m.Map(p.RKey, p.Addr+8, 100, both)
	if !inArena {
		if !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("map memory that is in no arena: got %v, want an invalid argument", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	source := e.mem.Bytes()[:100]
	_, _ = rand.NewChaCha8([32]byte{1}).Read(source)
	e.run(t, verbs.WorkRequest{Opcode: verbs.OpWrite, SGL: e.sge(0, 100), RKey: p.RKey, RemoteAddr: p.Addr + 8})
	if !bytes.Equal(memory.Bytes(at, 100), source) {
		t.Error("what was written does not show in the view")
	}
	copy(memory.Bytes(at, 3), "abc")
	e.run(t, verbs.WorkRequest{Opcode: verbs.OpRead, SGL: e.sge(200, 3), RKey: p.RKey, RemoteAddr: p.Addr + 8})
	if got := string(e.mem.Bytes()[200:203]); got != "abc" {
		t.Errorf("what was put into the view is read as %q", got)
	}
	for _, c := range []struct {
		what         string
		rkey         uint32
		addr, length uint64
		access       verbs.Access
		text         string
	}{
		{"a wrong key", p.RKey ^ 1, p.Addr, 8, both, "has this key"},
		{"beyond the end", p.RKey, p.Addr, 5 << 20, both, "the region has"},
		{"before the start", p.RKey, p.Addr - 8, 8, both, "the region has"},
		{"no right to read", p.RKey, p.Addr, 8, verbs.AccessRemoteWrite, "expected REMOTE_READ"},
	} {
		if _, err := m.Map(c.rkey, c.addr, c.length, c.access); !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("map with %s: got %v, want one that speaks of %q", c.what, err, c.text)
		}
	}
}
