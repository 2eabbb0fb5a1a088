package objects

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestBackground: the goroutine leaves it to who polls, if only once in a tick. Without a
// poll it makes progress in each of some ticks, and then takes over until somebody polls.
// Who blocks has it take over at once.
func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Background
		var progress, turns atomic.Int32
		b.Start(func() { progress.Add(1) }, func() bool {
			turns.Add(1)
			before := b.Polls()
			time.Sleep(watchTick / 2)
			return !b.PolledSince(before, watchTick/2)
		})
		expect := func(when string, ticks, least, most int32) {
			t.Helper()
			synctest.Wait()
			if p, n := progress.Swap(0), turns.Swap(0); p != ticks || n < least || n > most {
				t.Errorf("%s: progress in %d ticks and in %d turns after taking over, want %d and %d to %d", when, p, n, ticks, least, most)
			}
		}
		polling := func(pause, long time.Duration) {
			for begun := time.Now(); time.Since(begun) < long; time.Sleep(pause) {
				b.Polled()
			}
		}
		polling(watchTick-1, time.Second)
		expect("polled once in a tick", 0, 0, 0)
		time.Sleep(LongestUntilTakeOver)
		expect("not polled", quietTicks, 1, int32(LongestUntilTakeOver/(watchTick/2)))
		time.Sleep(time.Second)
		expect("still not polled", 0, 2*int32(time.Second/watchTick), 2*int32(time.Second/watchTick))
		polling(watchTick-1, time.Second)
		expect("polled again", 0, 0, 1)
		b.TakeOver()
		time.Sleep(watchTick / 4)
		expect("blocked", 0, 1, 1)
		polling(watchTick-1, time.Second)
		expect("polled after blocking", 0, 0, 0)
		polling(PollEvery-1, time.Second)
		if turns.Load() != 0 {
			t.Errorf("polled every %v, and it took over", PollEvery)
		}
		polling(8*PollEvery, time.Second)
		if turns.Load() == 0 {
			t.Errorf("polled every %v, and it did not take over", 8*PollEvery)
		}
		if before := b.Polls(); b.PolledSince(before, 1) || b.PolledSince(before, time.Hour) {
			t.Error("no poll, and somebody polled")
		}
		before := b.Polls()
		b.Polled()
		if !b.PolledSince(before, PollEvery) || b.PolledSince(before, PollEvery+1) {
			t.Errorf("one poll: %v in %v and %v in a moment more, want true and false", b.PolledSince(before, PollEvery), PollEvery, b.PolledSince(before, PollEvery+1))
		}
		b.Stop(func() {})
	})
}
