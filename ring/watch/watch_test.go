package watch

import (
	"testing"

	"ringcli/verbs"
)

// A queue of any depth keeps the newest requests, wherever it wraps.
func TestFIFO(t *testing.T) {
	for _, depth := range []int{0, 1, 3, 4, 128} {
		f := newFIFO(depth)
		if len(f.entries) < max(1, depth) {
			t.Fatalf("%d entries for a depth of %d", len(f.entries), depth)
		}
		const all = 1000
		for i := range all {
			f.push(&verbs.WorkRequest{ID: uint64(i), SGL: []verbs.SGE{{Addr: 7, Length: 1, LKey: 8}, {Length: 2}}})
		}
		if f.posted() != len(f.entries) {
			t.Errorf("depth %d: %d are posted, of %d", depth, f.posted(), len(f.entries))
		}
		for i := range all {
			at := f.find(uint64(i))
			if kept := i >= all-len(f.entries); kept != (at >= 0) {
				t.Errorf("depth %d: request %d is at %d", depth, i, at)
			} else if kept && *f.at(at) != (request{id: uint64(i), addr: 7, length: 3, lkey: 8}) {
				t.Errorf("depth %d: request %d is %+v", depth, i, *f.at(at))
			}
		}
	}
}

// device takes every request.
type device struct{ verbs.QP }

func (device) Num() uint32                                   { return 17 }
func (device) PostSend(wrs []verbs.WorkRequest) (int, error) { return len(wrs), nil }

func watched() (w *QP, wrs []verbs.WorkRequest, wc *verbs.Completion) {
	return New(device{}, verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}), []verbs.WorkRequest{{ID: 5, SGL: []verbs.SGE{{Addr: 1, Length: 2, LKey: 3}}}},
		&verbs.Completion{ID: 5, QPN: 17, Opcode: verbs.WCSend}
}

// The watch costs the hot path no allocation.
func TestWatchAllocatesNothing(t *testing.T) {
	w, wrs, wc := watched()
	if n := testing.AllocsPerRun(1000, func() {
		if n, err := w.PostSend(wrs); n != 1 || err != nil || !w.Completed(wc) {
			t.Fatalf("%d, %v", n, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a request and its completion", n)
	}
	if k := w.Known(); k.Sends != 0 || k.First != nil {
		t.Errorf("%+v: expected nothing to be posted", k)
	}
	if w.Completed(&verbs.Completion{ID: 5, QPN: 18}) {
		t.Error("a completion of another queue pair was taken")
	}
}

func BenchmarkWatch(b *testing.B) {
	w, wrs, wc := watched()
	for b.Loop() {
		_, _ = w.PostSend(wrs)
		w.Completed(wc)
	}
}
