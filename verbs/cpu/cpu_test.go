package cpu

import "testing"

func TestPin(t *testing.T) {
	for _, cpu := range []int{-1, 1 << 20} {
		if err := Pin(cpu); err == nil {
			t.Errorf("pinned to CPU %d", cpu)
		}
	}
	done := make(chan struct{})
	go func() { // the pinned thread ends with its goroutine
		defer close(done)
		all, err := Allowed()
		if err != nil || len(all) == 0 {
			t.Errorf("Allowed: %v, %v", all, err)
			return
		}
		last := all[len(all)-1]
		if err := Pin(last); err != nil {
			t.Error(err)
			return
		}
		if now, err := Allowed(); err != nil || len(now) != 1 || now[0] != last {
			t.Errorf("pinned to %d, may run on %v, %v", last, now, err)
		}
	}()
	<-done
}
