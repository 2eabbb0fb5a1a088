package ring

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"ringcli/verbs"
)

// FuzzQuestion has a neighbour ask anything: it gets an answer or an error in time, and
// the ring goes on.
func FuzzQuestion(f *testing.F) {
	world := connect(f, 3, func(_ int, o *Options) { o.Wait = verbs.WaitBlock })
	kinds := slices.Sorted(maps.Keys(answerers()))
	for i := range kinds {
		for _, payload := range []string{
			`null`, `{}`, `{"hops":9}`, `{"hops":-9223372036854775808}`, `{"number":1,"hops":3}`, `{"of":1,"to":1}`, `{"of":2,"to":-5}`, `{"of":1,"to":1000000}`,
			`{"edge":{"of":1,"to":0},"mark":1,"mtus":[0,256,4096]}`, `{"edge":{"of":1,"to":0},"mtus":[-1]}`, `{"seq":1,"total":1,"patience_ns":1}`, `{"seq":1,"total":4294967295,"patience_ns":9223372036854775807}`,
			`{"host_local":true}`, `[1]`, `"x"`,
		} {
			f.Add(byte(i), byte(0), []byte(payload))
			f.Add(byte(i), byte(1), []byte(payload))
		}
	}
	f.Fuzz(func(t *testing.T, kind, side byte, payload []byte) {
		if !json.Valid(payload) {
			return // no frame holds it
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		name, begun := kinds[int(kind)%len(kinds)], time.Now()
		v, err := (&answers{world[1]}).answer(ctx, name, 0, int(side&1), payload)
		if err == nil {
			_, err = json.Marshal(v)
			if err != nil {
				t.Errorf("%s %s: an answer that is none: %v", name, payload, err)
			}
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%s %s: answered after %s", name, payload, took)
		}
		if err := world[1].Err(); err != nil {
			t.Fatalf("%s %s: the ring failed: %v", name, payload, err)
		}
	})
}

// FuzzConnectionData has a neighbour say anything of its end of an edge: a queue pair goes
// to RTS with it, or it is an error that names both ends.
func FuzzConnectionData(f *testing.F) {
	initialised := func(t testing.TB) *Ring {
		r := newRings(t, 1, func(_ int, o *Options) { o.Wait = verbs.WaitBlock })[0]
		for _, step := range walk(r)[:3] {
			if err := step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	first := initialised(f)
	good := first.table.edges[Left].connectionData()
	bad := good
	bad.GID, bad.QPN, bad.PSN, bad.MTU, bad.SlotCount = verbs.GID{}, 1<<32-1, 1<<32-1, 7, -1
	for _, d := range []connectionData{good, bad, {}} {
		b, err := json.Marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	list := good.Digest
	f.Fuzz(func(t *testing.T, payload []byte) {
		var d connectionData
		if json.Unmarshal(payload, &d) != nil {
			return
		}
		r := initialised(t)
		own := r.table.edges[Left].connectionData()
		if d.Digest == list { // as it would be of a neighbour
			d.Digest = own.Digest
		}
		r.table.change(func() { r.table.edges[Right].Remote = d })
		err := r.RTR(t.Context(), Values{})
		if err == nil {
			err = r.RTS(t.Context(), Values{})
		}
		if err != nil && err.Error() == "" {
			t.Error("an error that says nothing")
		}
	})
}
