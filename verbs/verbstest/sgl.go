package verbstest

import (
	"errors"
	"fmt"
	"testing"

	"ringcli/verbs"
)

// Lists of several elements, whose boundaries fall inside packets, with elements
// of nothing among them, out of several regions.
func testSGL(t *testing.T, h Harness) {
	l := connect(t, h)
	m := l.mtu()
	gather := [][]int{
		{1, 2}, {m - 1, 2, m}, {0, 5, 0}, {m, m, m}, {3, 0, 2*m + 1, 1}, {7, 5, 3, 1}, {m / 2, m, m / 2, 3}, {0, 0, 0, m + 1}, {0},
	}
	scatter := [][]int{ // each at least as long as the list above it
		{2, 1, 0}, {m, m, 1}, {1, 4}, {1, 3*m - 2, 1}, {m + 2, 0, m + 1, m}, {16}, {1, 1, 2*m + 1}, {1, m}, {5, 5},
	}
	// Half of the elements lie in a second region of each side.
	type memory struct {
		bytes []byte
		mr    verbs.MR
	}
	second := map[*end]memory{}
	for _, e := range []*end{l.a, l.b} {
		buf, mr := l.region(e.pd, 256<<10, rightsAll)
		second[e] = memory{buf.Bytes(), mr}
	}
	// layout spreads elements over both regions and returns them as SGEs and bytes.
	layout := func(e *end, lengths []int) (sgl []verbs.SGE, pieces [][]byte) {
		for i, n := range lengths {
			mem, off := memory{e.buf.Bytes(), e.mr}, i*16384+i*3+1
			if i%2 == 1 {
				mem = second[e]
			}
			sgl = append(sgl, verbs.SGE{Addr: mem.mr.Addr() + uint64(off), Length: uint32(n), LKey: mem.mr.LKey()})
			pieces = append(pieces, mem.bytes[off:off+n])
		}
		return sgl, pieces
	}
	const flat = 512 << 10 // where the one-sided operations' remote bytes lie
	for i, lengths := range gather {
		l.sub(fmt.Sprintf("Gather%v", lengths), func(t *testing.T) {
			sgl, pieces := layout(l.a, lengths)
			total := 0
			for j, p := range pieces {
				fill(p, uint64(100*i+j))
				total += len(p)
			}
			same := func(got []byte, what string) {
				t.Helper()
				for j, p := range pieces {
					l.ok(verify(got[:len(p)], uint64(100*i+j)), "%s, element %d", what, j)
					got = got[len(p):]
				}
			}
			into, targets := layout(l.b, scatter[i])
			for _, p := range targets {
				blank(p)
			}
			blank(l.b.buf.Bytes()[flat:][:total])
			l.receive(l.b, verbs.WorkRequest{ID: 3, SGL: into})
			l.post(l.a, request(verbs.OpSend, 1, sgl...), l.b.remote(request(verbs.OpWrite, 2, sgl...), flat))
			l.a.send.each(verbs.Success, 1, 3, "SEND and WRITE")
			if wc := l.b.recv.one(3, verbs.Success, "SEND"); int(wc.ByteLen) != total {
				t.Fatalf("received %d bytes, want %d", wc.ByteLen, total)
			}
			var got []byte
			for _, p := range targets {
				got = append(got, p...)
			}
			same(got, fmt.Sprintf("scattered to %v", scatter[i]))
			l.ok(untouchedIn(got[total:]), "behind the message")
			same(l.b.buf.Bytes()[flat:], "WRITE")
		})
	}
	for _, lengths := range scatter {
		l.sub(fmt.Sprintf("ReadInto%v", lengths), func(t *testing.T) {
			total := 0
			sgl, pieces := layout(l.a, lengths)
			for _, p := range pieces {
				blank(p)
				total += len(p)
			}
			fill(l.b.buf.Bytes()[flat:][:total], 77)
			l.post(l.a, l.b.remote(request(verbs.OpRead, 1, sgl...), flat))
			l.a.send.one(1, verbs.Success, "READ")
			var got []byte
			for _, p := range pieces {
				got = append(got, p...)
			}
			l.ok(verify(got, 77), "data")
		})
	}
	l.sub("TooMany", func(t *testing.T) {
		_, init, err := l.a.qp.Query()
		l.ok(err, "query")
		sgl := make([]verbs.SGE, max(init.Cap.MaxSendSGE, init.Cap.MaxRecvSGE)+1)
		for i := range sgl {
			sgl[i] = l.a.sge(i, 1)
		}
		if n, err := l.a.qp.PostSend([]verbs.WorkRequest{request(verbs.OpSend, 1, sgl...)}); n != 0 || !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("a SEND of %d elements: got %d, %v, want an invalid argument", len(sgl), n, err)
		}
		if n, err := l.a.qp.PostRecv([]verbs.WorkRequest{{ID: 1, SGL: sgl}}); n != 0 || !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("a receive of %d elements: got %d, %v, want an invalid argument", len(sgl), n, err)
		}
	})
}
