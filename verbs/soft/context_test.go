package soft

import (
	"errors"
	"testing"

	"ringcli/verbs"
)

// TestClosedContext: a closed context answers no question.
func TestClosedContext(t *testing.T) {
	d, err := verbs.Find("soft:lo")
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Open(verbs.OpenOptions{LocalAddr: freshAddr()})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(want error) {
		t.Helper()
		_, device := c.QueryDevice()
		_, port := c.QueryPort(1)
		_, gid := c.QueryGID(1, 0)
		_, counters := c.Counters(1)
		for what, got := range map[string]error{"device": device, "port": port, "GID": gid, "counters": counters} {
			if !errors.Is(got, want) {
				t.Errorf("query %s: got %v, want %v", what, got, want)
			}
		}
	}
	ask(nil)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	ask(verbs.ErrClosed)
}

// TestMaxQP: a device has so many queue pairs, and one that is closed makes room.
func TestMaxQP(t *testing.T) {
	e := newEnd(t, verbs.OpenOptions{LocalAddr: freshAddr()}, 64) // has one
	defer func(most int) { deviceLimits.MaxQP = most }(deviceLimits.MaxQP)
	deviceLimits.MaxQP = 2
	init := verbs.QPInitAttr{SendCQ: e.cq, RecvCQ: e.cq, Type: verbs.RC}
	last, err := e.pd.CreateQP(init)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.pd.CreateQP(init); !errors.Is(err, verbs.ErrNoMemory) {
		t.Errorf("one too many: got %v, want %v", err, verbs.ErrNoMemory)
	}
	if err := last.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := e.pd.CreateQP(init)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
