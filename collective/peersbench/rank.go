//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ringcli/collective"
	"ringcli/collective/plain"
	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs"
	"ringcli/verbs/cpu"
	"ringcli/verbs/memory"
	_ "ringcli/verbs/providers"
)

// Which memory the buffers are.
const (
	buffersAlloc   = "alloc"   // Comm.Alloc
	buffersPrivate = "private" // a private mapping, Comm.Register
	buffersSlices  = "slices"  // of the Go heap
)

// rankName is the command that starts this program as a rank. Not for people.
const rankName = "rank"

// rankGrace is how much longer the driver waits than the ring or a collective, so that
// what it reports is what the rank has found out.
const rankGrace = 5 * time.Second

// rank is ringcli's side of peer.c.
type rank struct {
	dir, list, device, buffers string
	algorithm                  string
	options                    collective.CallOptions
	index                      int
	room                       uint64
	limit                      time.Duration // for an order
	pin, pinned                bool

	comm     *collective.Comm
	in, out  []float32
	from, to uint64 // the addresses of both
	answers  *os.File
}

func rankCommand() *cobra.Command {
	var r rank
	c := &cobra.Command{
		Use: rankName, Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return r.run() },
	}
	f := c.Flags()
	f.StringVar(&r.dir, "dir", "", "folder of the FIFOs")
	f.IntVar(&r.index, "index", 0, "place in the list")
	f.StringVar(&r.list, "list", "", "the ring")
	f.StringVar(&r.device, "device", "auto", "device")
	f.StringVar(&r.buffers, "buffers", buffersAlloc, "memory")
	f.StringVar(&r.algorithm, "algorithm", "", "of calls on registered memory")
	f.Uint64Var(&r.room, "room", 0, "bytes of a buffer")
	f.DurationVar(&r.limit, "limit", orderLimit, "of an order")
	f.BoolVar(&r.pin, "pin", false, "run on the CPU of that place only")
	f.BoolVar(&r.pinned, "pinned", false, "it does")
	return c
}

// bind binds this process to a CPU, as mpirun does: before it starts. Threads that are
// there already would stay where they are, so the program is begun anew.
func (r *rank) bind() error {
	cpus, err := cpu.Allowed()
	if err != nil {
		return err
	}
	var one unix.CPUSet
	one.Set(cpus[r.index%len(cpus)])
	runtime.LockOSThread() // the thread that is bound is the one that begins anew
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("bind rank %d: %w", r.index, err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, append(os.Args, "--pinned"), os.Environ())
}

func (r *rank) run() (err error) {
	if r.pin && !r.pinned {
		return r.bind()
	}
	if r.options.Algorithm, err = plan.ParseAlgorithm(r.algorithm); err != nil {
		return err
	}
	runtime.LockOSThread() // as ringcli does
	path := filepath.Join(r.dir, strconv.Itoa(r.index))
	orders, err := os.Open(path + ".orders")
	if err != nil {
		return err
	}
	if r.answers, err = os.OpenFile(path+".answers", os.O_WRONLY, 0); err != nil {
		return err
	}
	ctx := context.Background()
	world, err := ring.Connect(ctx, []string{r.list}, r.index, ring.Options{Device: r.device, Timeout: r.limit - rankGrace, Wait: verbs.WaitYield})
	if err != nil {
		return r.answer("error %v", err)
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	if r.comm, err = collective.New(world, collective.Options{}); err != nil {
		return r.answer("error %v", err)
	}
	defer func() { err = errors.Join(err, r.comm.Close()) }()
	if err := r.allocate(); err != nil {
		return r.answer("error %v", err)
	}
	cpus, err := cpu.Allowed()
	if err != nil {
		return err
	}
	if err := r.answer("%d %s device %s", os.Getpid(), commas(cpus), world.Right().Local.Device); err != nil {
		return err
	}
	for in := bufio.NewScanner(orders); in.Scan(); {
		var what, letter rune
		var count, inPlace, iters, warmup int
		if _, err := fmt.Sscanf(in.Text(), "%c %c %d %d %d %d", &what, &letter, &count, &inPlace, &iters, &warmup); err != nil {
			return r.answer("error order %q: %v", in.Text(), err)
		}
		if what == orderCheck {
			wrong, err := r.wrong(ctx, letter, count, inPlace != 0)
			if err != nil {
				return r.answer("error %v", err)
			}
			if err := r.answer("%d", wrong); err != nil {
				return err
			}
			continue
		}
		elapsed, err := r.measure(ctx, letter, count, inPlace != 0, iters, warmup)
		if err != nil {
			return r.answer("error %v", err)
		}
		if err := r.answer("%d", elapsed.Nanoseconds()); err != nil {
			return err
		}
	}
	return nil // the driver has closed its end
}

// commas writes CPUs as taskset and mpirun take them.
func commas(cpus []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(cpus), " ", ","), "[]")
}

func (r *rank) answer(format string, args ...any) error {
	_, err := r.answers.WriteString(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ") + "\n")
	return err
}

// allocate makes the two buffers. They live as long as the process.
func (r *rank) allocate() error {
	count := int(r.room / elemSize)
	if r.buffers == buffersSlices {
		r.in, r.out = make([]float32, count), make([]float32, count)
		clear(r.in) // a page that was never written to is not there yet
		clear(r.out)
		return nil
	}
	for _, b := range []struct {
		view *[]float32
		addr *uint64
	}{{&r.in, &r.from}, {&r.out, &r.to}} {
		if r.buffers == buffersPrivate {
			block, err := memory.Alloc(r.room)
			if err != nil {
				return err
			}
			if _, err := r.comm.Register(block.Addr(), r.room); err != nil {
				return err
			}
			*b.addr = block.Addr()
		} else {
			buffer, err := r.comm.Alloc(r.room)
			if err != nil {
				return err
			}
			*b.addr = buffer.Addr()
		}
		*b.view = memory.Slice[float32](*b.addr, count)
		clear(*b.view)
	}
	return nil
}

// operation returns what runs an operation once. In place everything is in the
// second buffer, as in peer.c.
func (r *rank) operation(letter rune, count int, inPlace bool) func(context.Context) error {
	c := r.comm
	own := count / c.Size()
	lo := c.Rank() * own
	at := uint64(lo) * elemSize
	from, to := r.from, r.to
	in, out := r.in, r.out[:count]
	p := plain.New(c)
	slices := r.buffers == buffersSlices
	op := collective.OpAllReduce
	switch letter {
	case 'r':
		out = r.out[:own]
		if inPlace {
			in, out = r.out, r.out[lo:lo+own]
			from, to = r.to, r.to+at
		}
		if slices {
			return func(ctx context.Context) error { return plain.ReduceScatter(ctx, p, in[:count], out, reduce.Sum) }
		}
		op = collective.OpReduceScatter
	case 'g':
		in = r.in[:own]
		if inPlace {
			in, from = r.out[lo:lo+own], r.to+at
		}
		if slices {
			return func(ctx context.Context) error { return plain.AllGather(ctx, p, in, out) }
		}
		op = collective.OpAllGather
	case 'b': // which MPI has in place alone
		if slices {
			return func(ctx context.Context) error { return plain.Broadcast(ctx, p, out, out, 0) }
		}
		op, from = collective.OpBroadcast, r.to
	case 'd':
		if inPlace {
			in, from = r.out, r.to
		}
		if slices {
			return func(ctx context.Context) error { return plain.Reduce(ctx, p, in[:count], out, reduce.Sum, 0) }
		}
		op = collective.OpReduce
	case 'w':
		return c.Barrier
	default:
		if inPlace {
			in, from = r.out, r.to
		}
		if slices {
			return func(ctx context.Context) error { return plain.AllReduce(ctx, p, in[:count], out, reduce.Sum) }
		}
	}
	call := collective.Call{Op: op, Send: from, Recv: to, Count: count, Type: reduce.Float32, Reduction: reduce.Sum, CallOptions: r.options}
	return func(ctx context.Context) error { return c.Run(ctx, call) }
}

func (r *rank) measure(ctx context.Context, letter rune, count int, inPlace bool, iters, warmup int) (time.Duration, error) {
	once := r.operation(letter, count, inPlace)
	for range warmup {
		if err := once(ctx); err != nil {
			return 0, err
		}
	}
	if err := r.comm.Barrier(ctx); err != nil {
		return 0, err
	}
	start := time.Now()
	for range iters {
		if err := once(ctx); err != nil {
			return 0, err
		}
	}
	elapsed := time.Since(start)
	// The driver wakes up at the first answer: nobody is to be in the loop then.
	return elapsed, r.comm.Barrier(ctx)
}

// element is what a rank puts in: small integers, whose sums are exact.
func element(rank, i int) float32 { return float32((i*7 + rank*3) & 15) }

// wrong runs the operation once and counts the elements that are not as they should be.
func (r *rank) wrong(ctx context.Context, letter rune, count int, inPlace bool) (int, error) {
	n, me := r.comm.Size(), r.comm.Rank()
	own := count / n
	lo := me * own
	for i := range count {
		r.out[i] = -1
	}
	to := r.in
	if inPlace || letter == 'b' {
		to = r.out
	}
	first, last, at := 0, count, 0
	if letter == 'g' {
		first, last = lo, lo+own
		if !inPlace {
			at = -lo
		}
	}
	if letter == 'b' && me != 0 {
		last = 0
	}
	for i := first; i < last; i++ {
		to[at+i] = element(me, i)
	}
	if err := r.operation(letter, count, inPlace)(ctx); err != nil {
		return 0, err
	}
	if letter == 'd' && me != 0 {
		return 0, nil
	}
	out := r.out[:count]
	base := 0
	if letter == 'r' {
		out, base = r.out[:own], lo
		if inPlace {
			out = r.out[lo : lo+own] // MPI puts it in front
		}
	}
	bad := 0
	for i, got := range out {
		want := float32(0)
		switch letter {
		case 'g':
			want = element(i/own, i)
		case 'b':
			want = element(0, i)
		default:
			for k := range n {
				want += element(k, base+i)
			}
		}
		if got != want {
			bad++
		}
	}
	return bad, nil
}
