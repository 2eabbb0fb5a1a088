package verbstest

import (
	"encoding/binary"
	"fmt"

	"ringcli/verbs"
)

// sge names n bytes of a side's buffer.
func (s *side) sge(off, n int) verbs.SGE {
	return verbs.SGE{Addr: s.buf.Addr() + uint64(off), Length: uint32(n), LKey: s.mr.LKey()}
}

// remote makes a request aim at an offset in the peer's buffer.
func (s *side) remote(wr verbs.WorkRequest, off int) verbs.WorkRequest {
	wr.RemoteAddr, wr.RKey = s.buf.Addr()+uint64(off), s.mr.RKey()
	return wr
}

func send(id uint64, sgl ...verbs.SGE) verbs.WorkRequest { return request(verbs.OpSend, id, sgl...) }

// request makes a signalled request.
func request(op verbs.Opcode, id uint64, sgl ...verbs.SGE) verbs.WorkRequest {
	return verbs.WorkRequest{ID: id, Opcode: op, Flags: verbs.FlagSignaled, SGL: sgl}
}

// post posts sends that must all be taken.
func (r *rig) post(e *end, wrs ...verbs.WorkRequest) {
	r.t.Helper()
	if n, err := e.qp.PostSend(wrs); err != nil || (n != len(wrs)) {
		r.t.Fatalf("%s posts %d sends, the first %s: stopped at %d: %v", e.name, len(wrs), wrs[0].Opcode, n, err)
	}
}

// receive posts receives that must all be taken.
func (r *rig) receive(e *end, wrs ...verbs.WorkRequest) {
	r.t.Helper()
	if n, err := e.qp.PostRecv(wrs); err != nil || (n != len(wrs)) {
		r.t.Fatalf("%s posts %d receives: stopped at %d: %v", e.name, len(wrs), n, err)
	}
}

// receives posts receives with IDs from to to-1, all into the same bytes.
func (r *rig) receives(e *end, from, to uint64, sgl ...verbs.SGE) {
	r.t.Helper()
	for id := from; id < to; id++ {
		r.receive(e, verbs.WorkRequest{ID: id, SGL: sgl})
	}
}

// fill writes a pattern that depends on the message and on the offset in it.
func fill(b []byte, seed uint64) {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], word(seed, i))
	}
	for ; i < len(b); i++ {
		b[i] = byte(word(seed, i&^7) >> (8 * (i & 7)))
	}
}

// verify says where b differs from what fill would write.
func verify(b []byte, seed uint64) error {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if binary.LittleEndian.Uint64(b[i:]) != word(seed, i) {
			break
		}
	}
	for ; i < len(b); i++ {
		if want := byte(word(seed, i&^7) >> (8 * (i & 7))); b[i] != want {
			return fmt.Errorf("byte %d of %d is %#02x, want %#02x", i, len(b), b[i], want)
		}
	}
	return nil
}

// word is splitmix64 of the message's number and the offset.
func word(seed uint64, off int) uint64 {
	x := seed*0x9e3779b97f4a7c15 + uint64(off)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

const untouched = 0xee

// blank marks memory, so that untouchedIn can tell whether a byte was written.
func blank(b []byte) {
	for i := range b {
		b[i] = untouched
	}
}

func untouchedIn(b []byte) error {
	for i, x := range b {
		if x != untouched {
			return fmt.Errorf("byte %d of %d was overwritten with %#02x", i, len(b), x)
		}
	}
	return nil
}
