package memfd

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
)

func wordOf(a *Arena) *uint32 { return &memory.Slice[uint32](a.Addr(), 1)[0] }

func TestWaitEndsAtItsTime(t *testing.T) {
	word := wordOf(create(t, 4))
	for _, d := range []time.Duration{-time.Second, 0, 20 * time.Millisecond} {
		begun := time.Now()
		var err error
		for err == nil { // a signal may end a wait early
			err = Wait(word, 0, d)
		}
		if !errors.Is(err, unix.ETIMEDOUT) {
			t.Errorf("wait for %v: %v", d, err)
		}
		if took := time.Since(begun); took < d {
			t.Errorf("wait for %v: took %v", d, took)
		}
	}
}

func TestWaitForAnotherValue(t *testing.T) {
	word := wordOf(create(t, 4))
	atomic.StoreUint32(word, 2)
	if err := Wait(word, 1, time.Hour); err != nil {
		t.Errorf("the word is not what is waited on: %v", err)
	}
	if n := testing.AllocsPerRun(100, func() {
		_, _ = Wait(word, 1, time.Hour), Wake(word)
	}); n != 0 {
		t.Errorf("Wait and Wake allocate %v times", n)
	}
}

func TestWaitOnNothing(t *testing.T) {
	a := create(t, 4)
	word := (*uint32)(nil)
	if err := Wait(word, 0, time.Second); err == nil || errors.Is(err, unix.ETIMEDOUT) {
		t.Errorf("wait on no word: %v", err)
	}
	odd := &memory.Slice[[3]uint32](a.Addr()+1, 1)[0][0]
	if err := Wake(odd); err == nil {
		t.Error("wake waiters of a word at an odd address: no error")
	}
}

func TestWakeEach(t *testing.T) {
	word := wordOf(create(t, 4))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for atomic.LoadUint32(word) == 0 {
				if err := Wait(word, 0, 20*time.Second); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	time.Sleep(5 * time.Millisecond) // that most of them sleep
	atomic.StoreUint32(word, 1)
	for range 4 {
		if err := Wake(word); err != nil {
			t.Fatal(err)
		}
	}
	group.Wait()
}

func TestWakeAcrossProcesses(t *testing.T) {
	c, h := spawn(t), listen(t)
	p := dial(t, h, c.key)
	addr, _ := mapped(t, p, c.do("create 4096")[0], false)
	word := &memory.Slice[uint32](addr, 1)[0]
	done := make(chan error, 1)
	go func() { // a waiter needs no more than to read the word
		for atomic.LoadUint32(word) == 0 {
			if err := Wait(word, 0, 20*time.Second); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	time.Sleep(5 * time.Millisecond) // that it sleeps
	c.do("store 1")
	if err := <-done; err != nil {
		t.Error(err)
	}
}
