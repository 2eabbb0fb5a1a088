package main

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/collective/model"
	"ringcli/collective/reduce"
)

// costs are those of memory on this machine, where so many ranks work at once.
type costs struct {
	gamma, copy model.Curve // out of a slot that is in the cache
	line        float64
	// Of vectors of other ranks: what reducing them costs beyond a copy, and a copy of what was
	// just written beyond one of what was not.
	reduced, fetched model.Curve
}

// slotBytes is as long as a segment out of a slot.
const slotBytes = 240 << 10

// memory measures with a thread for each rank. Vectors of V bytes: each rank has an input
// and an output as long, and what comes is in a slot.
func memory(n int, quick bool) (c costs) {
	span := 50 * time.Millisecond
	if quick {
		span = 5 * time.Millisecond
	}
	add := reduce.Lookup(reduce.Float32, reduce.Sum)
	for size := 16 << 10; size <= 16<<20; size *= 4 {
		in, out, slots := vectors(n, size), vectors(n, size), vectors(n, slotBytes)
		piece := min(size/n, slotBytes)
		point := func(seconds float64, moved int) model.Point {
			return model.Point{Bytes: float64(size), PerByte: seconds / float64(moved)}
		}
		ring := together(n, span, func(r int) { // what comes lies in a slot, the own is anywhere in the vector
			for lo := 0; lo+piece <= size; lo += piece {
				add(slots[r][:piece], slots[r][:piece], in[r][lo:lo+piece])
			}
		}, func(r int) {
			for lo := 0; lo+piece <= size; lo += piece {
				copy(out[r][lo:lo+piece], slots[r][:piece])
			}
		})
		c.gamma, c.copy = append(c.gamma, point(ring[0], size)), append(c.copy, point(ring[1], size))
		c.pulls(n, span, in, out, size)
	}
	c.line = line(4 * span)
	return c
}

// pulls measures what each rank does with its part of another one's vector, with stores as they
// are faster.
func (c *costs) pulls(n int, span time.Duration, in, out [][]byte, size int) {
	const block = 2 << 10
	add := reduce.Lookup(reduce.Float32, reduce.Sum)
	scratch, written, streamed := vectors(n, block), vectors(n, size), vectors(n, size) // the latter is in no cache
	part := size / n / block * block
	if n == 1 || part == 0 {
		return
	}
	blocks := func(do func(lo int)) {
		for lo := 0; lo < part; lo += block {
			do(lo)
		}
	}
	other := func(r int) int { return (r + 1) % n }
	took := together(n, span,
		func(r int) { copy(out[r][:part], in[other(r)][:part]) },
		func(r int) { reduce.Stream(streamed[r][:part], in[other(r)][:part]) },
		func(r int) { add(out[r][:part], in[r][:part], in[other(r)][:part]) },
		func(r int) {
			blocks(func(lo int) {
				add(scratch[r][:block], in[r][lo:lo+block], in[other(r)][lo:lo+block])
				reduce.Stream(streamed[r][lo:lo+block], scratch[r][:block])
			})
		},
		func(r int) { copy(written[r][:part], in[r][:part]) },
		func(r int) { copy(out[r][:part], written[other(r)][:part]) },
	)
	copied := min(took[0], took[1])
	beyond := func(took float64) model.Point {
		return model.Point{Bytes: float64(size), PerByte: max(0, took-copied) / float64(part)}
	}
	c.reduced, c.fetched = append(c.reduced, beyond(min(took[2], took[3]))), append(c.fetched, beyond(took[5]))
}

// vectors are n of so many bytes that are there.
func vectors(n, size int) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = make([]byte, size+64)
		for j := range list[i] {
			list[i][j] = 1
		}
	}
	return list
}

// together has n threads do two things by turns, all the same at once, for a span, and
// returns how long each of them takes: of the slowest thread, the lower quartile of the
// rounds, which leaves out those in which something else had a CPU.
func together(n int, span time.Duration, things ...func(rank int)) (seconds []float64) {
	var stop atomic.Bool
	var wg sync.WaitGroup
	start := newBarrier(n)
	each := make([][][]float64, n) // by rank and thing
	for r := range n {
		each[r] = make([][]float64, len(things))
		wg.Go(func() {
			defer pin(r)()
			for begun := time.Now(); !start.agree(&stop); {
				for i, do := range things {
					start.wait()
					from := time.Now()
					do(r)
					each[r][i] = append(each[r][i], time.Since(from).Seconds())
				}
				if r == 0 && time.Since(begun) > span {
					stop.Store(true)
				}
			}
		})
	}
	wg.Wait()
	for i := range things {
		var slowest []float64
		for round := range each[0][i] {
			most := 0.0
			for r := range n {
				most = max(most, each[r][i][round])
			}
			slowest = append(slowest, most)
		}
		slices.Sort(slowest)
		seconds = append(seconds, slowest[len(slowest)/4])
	}
	return seconds
}

// pin binds the goroutine to a thread of its own, on the CPU of a rank, as ringcli does, until
// the returned function is called: the thread ends with its goroutine, or is bound no more.
func pin(rank int) (free func()) {
	runtime.LockOSThread()
	var was, own unix.CPUSet
	if unix.SchedGetaffinity(0, &was) != nil {
		return runtime.UnlockOSThread
	}
	left := rank % max(1, was.Count())
	for cpu := 0; left >= 0 && cpu < 1024; cpu++ {
		if was.IsSet(cpu) {
			if left == 0 {
				own.Set(cpu)
			}
			left--
		}
	}
	if unix.SchedSetaffinity(0, &own) != nil { // it runs wherever it may
		return runtime.UnlockOSThread
	}
	return func() {
		if unix.SchedSetaffinity(0, &was) == nil {
			runtime.UnlockOSThread()
		}
	}
}

// barrier has n threads wait for each other, spinning.
type barrier struct {
	n       int64
	came    atomic.Int64
	stopped atomic.Bool
}

func newBarrier(n int) *barrier { return &barrier{n: int64(n)} }

func (b *barrier) wait() {
	mine := b.came.Add(1)
	turn := (mine + b.n - 1) / b.n * b.n
	for spins := 0; b.came.Load() < turn; spins++ {
		if spins%1024 == 1023 {
			runtime.Gosched()
		}
	}
}

// agree meets, and tells all threads alike whether to stop.
func (b *barrier) agree(stop *atomic.Bool) bool {
	b.wait()
	if stop.Load() {
		b.stopped.Store(true)
	}
	b.wait()
	return b.stopped.Load()
}

// line is a cache line's way from thread to thread.
func line(span time.Duration) float64 {
	var there, back atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer pin(1)()
		for seen := int64(0); seen >= 0; {
			if now := there.Load(); now != seen {
				seen = now
				back.Store(now)
			}
		}
	}()
	defer pin(0)()
	const batch = 10
	best, turns := time.Hour, int64(0)
	for begun := time.Now(); time.Since(begun) < span; {
		from := time.Now()
		for range batch {
			turns++
			there.Store(turns)
			for back.Load() != turns { // it spins
				continue
			}
		}
		best = min(best, time.Since(from))
	}
	there.Store(-1)
	<-done
	return best.Seconds() / batch / 2
}
