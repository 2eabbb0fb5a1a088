package verbstest

import (
	"errors"
	"testing"
	"time"

	"ringcli/verbs"
)

// Inline data is copied while posting: the buffer may change at once and needs
// no region.
func testInline(t *testing.T, h Harness) {
	l := connect(t, h, func(c *config) { c.Cap.MaxInlineData = 64 })
	_, init, err := l.a.qp.Query()
	l.ok(err, "query")
	limit := init.Cap.MaxInlineData
	if want := l.a.dev.MaxInline; limit < 64 && (want == 0 || limit < want) {
		t.Fatalf("asked for %d bytes of inline data, got %d", want, limit)
	}
	inline := func(wr verbs.WorkRequest) verbs.WorkRequest {
		wr.Flags |= verbs.FlagInline
		for i := range wr.SGL {
			wr.SGL[i].LKey = 0xbad // inline data needs none
		}
		return wr
	}
	buf := l.a.buf.Bytes()
	half := limit / 2
	id := uint64(0)
	for _, n := range []int{0, 1, 3, half, limit} {
		id++
		at := 1000 * int(id)
		fill(buf[:n], id)
		blank(l.b.buf.Bytes()[at : at+2000])
		// No receive is there yet, so the SEND waits while the buffer changes.
		l.post(l.a, inline(send(id, l.a.sge(0, n/3), l.a.sge(n/3, n-n/3))),
			inline(l.b.remote(request(verbs.OpWrite, id, l.a.sge(0, n)), at)))
		blank(buf[:n])
		l.b.recv.none(time.Millisecond, "no receive posted")
		l.receives(l.b, id, id+1, l.b.sge(at+1000, 1000))
		l.a.send.one(id, verbs.Success, "inline SEND of %d bytes", n)
		l.a.send.one(id, verbs.Success, "inline WRITE of %d bytes", n)
		if wc := l.b.recv.one(id, verbs.Success, "inline SEND of %d bytes", n); int(wc.ByteLen) != n {
			t.Errorf("received %d bytes, want %d", wc.ByteLen, n)
		}
		l.ok(verify(l.b.buf.Bytes()[at+1000:][:n], id), "inline SEND")
		l.ok(verify(l.b.buf.Bytes()[at:][:n], id), "inline WRITE")
	}
	for name, wr := range map[string]verbs.WorkRequest{
		"too long":                 inline(send(1, l.a.sge(0, limit+1))),
		"too long in two":          inline(send(1, l.a.sge(0, limit), l.a.sge(0, 1))),
		"a READ, which takes none": inline(l.b.remote(request(verbs.OpRead, 1, l.a.sge(0, 8)), 0)),
	} {
		if n, err := l.a.qp.PostSend([]verbs.WorkRequest{wr}); n != 0 || !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("inline data, %s: got %d, %v, want an invalid argument", name, n, err)
		}
	}
}
