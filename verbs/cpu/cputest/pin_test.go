package cputest

import (
	"testing"

	"ringcli/verbs/cpu"
)

func TestPin(t *testing.T) {
	for _, number := range []int{-1, 1 << 20} {
		if err := Pin(number); err == nil {
			t.Errorf("pinned to CPU %d", number)
		}
	}
	done := make(chan struct{})
	go func() { // the pinned thread ends with its goroutine
		defer close(done)
		all, err := cpu.Allowed()
		if err != nil || len(all) == 0 {
			t.Errorf("Allowed: %v, %v", all, err)
			return
		}
		last := all[len(all)-1]
		if err := Pin(last); err != nil {
			t.Error(err)
			return
		}
		if now, err := cpu.Allowed(); err != nil || len(now) != 1 || now[0] != last {
			t.Errorf("pinned to %d, may run on %v, %v", last, now, err)
		}
	}()
	<-done
}
