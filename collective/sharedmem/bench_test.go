package sharedmem

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/collective/reduce"
	"ringcli/verbs/memory"
)

// benchSizes are bytes of the whole vector.
var benchSizes = sizesOr(8, 64, 512, 4<<10, 32<<10, 64<<10, 256<<10, 1<<20, 4<<20, 16<<20, 64<<20)

// sizesOr returns the sizes that the environment gives, or these.
func sizesOr(sizes ...int) []int {
	var given []int
	for _, text := range strings.FieldsFunc(os.Getenv("DIRECT_SIZES"), func(r rune) bool { return r == ',' }) {
		if n, err := strconv.Atoi(text); err == nil {
			given = append(given, n)
		}
	}
	if given == nil {
		return sizes
	}
	return given
}

// sample is one measurement of a round.
type sample struct {
	Size int
	What string
	US   float64
}

// BenchmarkProcesses prints the times of calls between processes, medians of
// rounds in which everything takes turns: mapped and plain buffers, memcpy of as
// many bytes, the floor of an all-reduce on two ranks, and how long a line takes
// from one core to the other, without which no two runs can be compared. The
// environment may give DIRECT_ROUNDS, DIRECT_SIZES (bytes, by commas), DIRECT_OPS=1
// for all operations, DIRECT_STORES for fixed ones, DIRECT_MIN=1 for the least of
// the rounds, and DIRECT_UNPINNED=1.
func BenchmarkProcesses(b *testing.B) {
	for _, n := range []int{2, 3, 4, 8} {
		b.Run(fmt.Sprint("ranks=", n), func(b *testing.B) {
			rounds := max(1, min(b.N, 9))
			if text := os.Getenv("DIRECT_ROUNDS"); text != "" {
				if _, err := fmt.Sscan(text, &rounds); err != nil {
					b.Fatal(err)
				}
			}
			benchProcesses(b, n, rounds)
			b.ReportMetric(0, "ns/op") // that of everything together says nothing
		})
	}
}

func benchProcesses(b *testing.B, n, rounds int) {
	outputs, errs := spawn(b, "bench", fmt.Sprint(rounds), n, 2*uint64(max(slices.Max(benchSizes), 1<<20)))
	for _, err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
	times := map[int]map[string][]float64{}
	var names []string
	for _, text := range strings.Fields(outputs[0]) {
		var s sample
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			b.Fatalf("%q: %v", text, err)
		}
		if times[s.Size] == nil {
			times[s.Size] = map[string][]float64{}
		}
		times[s.Size][s.What] = append(times[s.Size][s.What], s.US)
		if !slices.Contains(names, s.What) {
			names = append(names, s.What)
		}
	}
	median := 1
	if os.Getenv("DIRECT_MIN") != "" {
		median = 0 // of a machine that others use
	}
	var t strings.Builder
	fmt.Fprintf(&t, "%d ranks, us, medians of %d rounds\n%10s", n, rounds, "bytes")
	for _, name := range names {
		fmt.Fprintf(&t, " %12s", name)
	}
	for _, size := range benchSizes {
		if times[size] == nil {
			continue
		}
		fmt.Fprintf(&t, "\n%10d", size)
		for _, name := range names {
			all := times[size][name]
			if len(all) == 0 {
				fmt.Fprintf(&t, " %12s", "-")
				continue
			}
			slices.Sort(all)
			fmt.Fprintf(&t, " %12.2f", all[len(all)/2*median])
		}
	}
	fmt.Println(t.String())
}

// benchJob is one rank of the benchmark; rank 0 prints samples.
func benchJob(p *process) error {
	var rounds int
	if _, err := fmt.Sscan(p.arg, &rounds); err != nil {
		return err
	}
	if os.Getenv("DIRECT_UNPINNED") == "" {
		pin(p.rank)
	}
	half := p.arenaBytes / 2
	mapped := [2]Buffer{{p.arena, true, 0}, {p.arena + half, true, 0}}
	plainMemory, err := memory.Alloc(p.arenaBytes)
	if err != nil {
		return err
	}
	defer func() { _ = plainMemory.Free() }()
	plain := [2]Buffer{{Addr: plainMemory.Addr()}, {Addr: plainMemory.Addr() + half}}
	for _, b := range []uint64{p.arena, plainMemory.Addr()} {
		all := memory.Slice[float32](b, int(p.arenaBytes/4))
		for i := range all {
			all[i] = float32(p.rank + i%7)
		}
	}
	report := func(size int, what string, d time.Duration, times int) {
		if p.rank == 0 {
			text, _ := json.Marshal(sample{size, what, float64(d.Nanoseconds()) / float64(times) / 1000})
			fmt.Println(string(text))
		}
	}
	if os.Getenv("DIRECT_STORES") != "" {
		p.team.fixed = true
		if _, err := fmt.Sscan(os.Getenv("DIRECT_STORES"), (*uint8)(&p.team.pull.stores)); err != nil {
			return err
		}
	}
	ops := []Phases{AllReduce}
	if os.Getenv("DIRECT_OPS") != "" {
		ops = []Phases{AllReduce, ReduceScatter, AllGather}
	}
	for range rounds {
		for _, size := range benchSizes {
			times := iterations(size, p.size)
			report(size, "line-ns", time.Duration(1000*p.probe()), 1)
			for _, op := range ops {
				for i, buffers := range [][2]Buffer{mapped, plain} {
					what := [...]string{ReduceScatter: "rs", AllGather: "ag", AllReduce: "ar"}[op] + [...]string{"-map", "-plain"}[i]
					d, err := p.measure(op, buffers, size, times)
					if err != nil {
						return err
					}
					report(size, what, d, times)
				}
			}
			if err := p.team.Inbox(&Call{Phases: Barrier}); err != nil {
				return err
			}
			if d := p.memcpy(size, times); p.rank == 0 {
				report(size, "memcpy", d, times)
			}
			if p.size == 2 && size >= 1<<10 {
				best := time.Duration(math.MaxInt64)
				for _, stream := range []bool{false, true} {
					d, err := p.floor(size, max(times/2, 3), stream)
					if err != nil {
						return err
					}
					best = min(best, d)
				}
				report(size, "floor", best, max(times/2, 3))
			}
		}
	}
	return nil
}

// pin keeps the caller on one CPU for good: where ranks are as many as CPUs, none
// is to wait for another's.
func pin(rank int) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(rank % runtime.NumCPU())
	_ = unix.SchedSetaffinity(0, &set)
}

func iterations(size, ranks int) int {
	n := max(2, min(20_000, 40<<20/(size+1<<11)))
	if ranks > 2 {
		n = max(2, n/4)
	}
	return n
}

// measure times calls back to back, as nccl-tests does.
func (p *process) measure(op Phases, buffers [2]Buffer, size, times int) (time.Duration, error) {
	c := Call{Phases: op, Type: reduce.Float32, Signature: Signature{Digest: uint64(size) << 32, Count: uint64(size) / 4}, Send: buffers[0], Recv: buffers[1]}
	call := p.team.Pull
	if size <= 32<<10 {
		call = p.team.Inbox
	}
	for range 1 + times/10 {
		if err := call(&c); err != nil {
			return 0, err
		}
	}
	if err := p.team.Inbox(&Call{Phases: Barrier}); err != nil {
		return 0, err
	}
	begun := time.Now()
	for range times {
		if err := call(&c); err != nil {
			return 0, err
		}
	}
	return time.Since(begun), nil
}

func (p *process) memcpy(size, times int) time.Duration {
	dst, src := memory.Bytes(p.arena, size), memory.Bytes(p.arena+p.arenaBytes/2, size)
	begun := time.Now()
	for range times {
		copy(dst, src)
	}
	return time.Since(begun)
}

// floor is the least that an all-reduce of two ranks has to move: each reads its
// half of both inputs and writes it to both outputs. Both wait for each other at
// the start alone.
func (p *process) floor(size, times int, stream bool) (time.Duration, error) {
	other := p.arena + p.arenaBytes - 2*uint64(p.rank)*p.arenaBytes // of the two ranks' arenas
	lo, hi := p.rank*size/2, (p.rank+1)*size/2
	kernel := reduce.Lookup(reduce.Float32, reduce.Sum)
	var scratch [8 << 10]byte
	half := p.arenaBytes / 2
	if err := p.team.Inbox(&Call{Phases: Barrier}); err != nil {
		return 0, err
	}
	begun := time.Now()
	for range times {
		for at := lo; at < hi; at += len(scratch) {
			n := min(len(scratch), hi-at)
			a, b := memory.Bytes(p.arena+uint64(at), n), memory.Bytes(other+uint64(at), n)
			out, theirs := memory.Bytes(p.arena+half+uint64(at), n), memory.Bytes(other+half+uint64(at), n)
			if stream {
				kernel(scratch[:n], a, b)
				reduce.Stream(out, scratch[:n])
				reduce.Stream(theirs, scratch[:n])
			} else {
				kernel(out, a, b)
				copy(theirs, out)
			}
		}
	}
	if err := p.team.Inbox(&Call{Phases: Barrier}); err != nil {
		return 0, err
	}
	return time.Since(begun), nil
}

// probe returns the nanoseconds that a line takes from rank 0 to rank 1, the
// least of a few tries; the other ranks do not take part.
func (p *process) probe() float64 {
	if p.rank > 1 {
		return 0
	}
	const times = 500
	mine, theirs := &p.header[p.size+p.rank], &p.header[p.size+1-p.rank]
	best := math.Inf(1)
	for range 3 {
		start := mine.load()
		begun := time.Now()
		for i := start + 1; i <= start+times; i++ {
			if p.rank == 0 {
				mine.store(i)
			}
			for spins := 0; theirs.load() < i; spins++ {
				if spins > 1000 {
					p.team.wait.spin.Yield()
				}
			}
			if p.rank == 1 {
				mine.store(i)
			}
		}
		best = min(best, float64(time.Since(begun).Nanoseconds())/(2*times))
	}
	return best
}
