package ring

import (
	"errors"
	"strings"
	"testing"

	"ringcli/configs/codes"
)

// A ping of one packet passes where operations would fail: both ends are held against each
// other before the ring is ready, and before the first operation of one that is not pinged.
func TestPingComparesBothEnds(t *testing.T) {
	w := admit(t, nil)
	w.walk(dose{rtr: [2]Values{{MTU: new(1024)}, {}}}, StateRTS)
	pings := map[string]func(r *Ring) error{
		"of all ranks": func(r *Ring) error { _, err := r.Ping(t.Context(), 1); return err },
		"of a side":    func(r *Ring) error { _, err := r.PingSide(t.Context(), Right, 1); return err },
		"none":         func(r *Ring) error { return r.ends.Compare(t.Context(), Left, Right) },
	}
	for _, name := range []string{"of all ranks", "of a side", "none"} {
		for i, err := range each(w.world, pings[name]) {
			var unfit *UnfitError
			if !errors.As(err, &unfit) || unfit.FailureCode() != codes.MTU || !strings.Contains(err.Error(), "up to 1024 bytes pass") || strings.Count(err.Error(), "the path MTUs differ") != 1 {
				t.Errorf("ping %s, rank %d: %v: expected both MTUs, once", name, i, err)
			}
			if s := w.world[i].State(); s != StateRTS || w.world[i].Failed() {
				t.Errorf("ping %s, rank %d: the ring is %s", name, i, s)
			}
		}
	}
	for _, r := range w.world {
		noErrors(t, []error{r.Reset(t.Context())})
	}
	w.walk(dose{}, StateRTS)
	noErrors(t, each(w.world, pings["of all ranks"]))
	if s := w.world[0].State(); s != StateReady {
		t.Errorf("with one MTU the ring is %s", s)
	}
}
