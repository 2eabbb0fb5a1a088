package ring

import (
	"testing"
	"time"

	"ringcli/configs/usage"
)

// Faults are those of the options until others are injected; shared memory has none.
func TestInject(t *testing.T) {
	const text = "soft: delay 50ms to 2 on 1"
	world := connect(t, 3, func(rank int, o *Options) { o.Inject = text })
	slow := func(want bool) {
		t.Helper()
		results := make([]PingResult, len(world))
		noErrors(t, each(world, func(r *Ring) (err error) { results[r.Rank()], err = r.Ping(t.Context(), 3); return err }))
		for rank, p := range results {
			if got := p.Min >= 50*time.Millisecond; want && got != (rank == 1) || got && !want {
				t.Errorf("rank %d pings its right neighbour in %s, while %q is injected", rank, p.Min, world[0].Faults().Text())
			}
		}
	}
	slow(true)
	for _, bad := range []string{"soft: loss 1% to 3", "soft: lose 1%", "shm: loss 1%"} {
		if err := world[0].Faults().Inject(bad); !usage.Is(err) {
			t.Errorf("inject %q: %v: expected a mistake in its usage", bad, err)
		}
	}
	if got := world[0].Faults().Text(); got != text {
		t.Errorf("%q is injected", got)
	}
	noErrors(t, each(world, func(r *Ring) error { return r.faults.Inject("off") }))
	slow(false)
	shared := connect(t, 2, func(_ int, o *Options) { o.Device = "shm" })
	for _, r := range shared {
		if err := r.faults.Inject(text[:len("soft: delay 50ms")]); !usage.Is(err) {
			t.Errorf("%v: expected shared memory to be refused", err)
		}
	}
}
