package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ringcli/collective"
	"ringcli/collective/backend/nccltest"
	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/collective/reduce/reference"
	"ringcli/configs/usage"
	"ringcli/verbs/gpu"
	"ringcli/verbs/gpu/gputest"
	"ringcli/verbs/memory"
)

// asRank makes the test binary be a rank that runs a scenario: BACKEND/SCENARIO/RANK/SIZE/DIR,
// in whose folder the ranks leave each other what they share.
const asRank = "RINGTEST_AS_RANK"

// hung is long after what does not end has ended.
const hung = 2 * time.Minute

// patience is how long a call may take that does not end by itself: long beside one that does.
const patience = 6 * time.Second

// operationTimeout is shorter than that.
const operationTimeout = patience / 2

// createTimeout is long beside what making a communicator takes, of which ranks have half for joining.
const createTimeout = 10 * time.Second

// rank is one, in its process.
type rank struct {
	name, dir  string
	rank, size int
	gathers    int
	meets      func() // called when it begins to meet the others; nil if nobody asks
	met        func() // called when the ranks have met; likewise
}

func beRank() int {
	words := strings.SplitN(os.Getenv(asRank), "/", 5)
	number := func(text string) int { n, _ := strconv.Atoi(text); return n }
	r := &rank{name: words[0], rank: number(words[2]), size: number(words[3]), dir: words[4]}
	if err := scenarios[words[1]](r); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("OK")
	return 0
}

// gather leaves the own bytes in a file, and reads those of the others.
func (r *rank) gather(ctx context.Context, mine []byte) (all [][]byte, err error) {
	r.gathers++
	if r.meets != nil {
		r.meets()
	}
	file := func(rank int) string { return filepath.Join(r.dir, fmt.Sprintf("%d-%d", r.gathers, rank)) }
	if err := os.WriteFile(file(r.rank)+".new", mine, 0o600); err != nil {
		return nil, err
	}
	if err := os.Rename(file(r.rank)+".new", file(r.rank)); err != nil {
		return nil, err
	}
	for rank := range r.size {
		text, err := os.ReadFile(file(rank))
		for ; errors.Is(err, os.ErrNotExist); text, err = os.ReadFile(file(rank)) {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			time.Sleep(time.Millisecond)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	if r.met != nil {
		r.met()
	}
	return all, nil
}

func (r *rank) create(ctx context.Context, timeout time.Duration) (Backend, error) {
	list, err := Factories(&Configuration{NumChannels: 1, BufferSize: 4 << 20})
	if err != nil {
		return nil, err
	}
	f, err := Pick(list, r.name)
	if err != nil {
		return nil, err
	}
	return f.Create(ctx, World{Rank: r.rank, Size: r.size, Device: r.rank, Gather: r.gather, Timeout: timeout})
}

// with runs what a scenario does with a back end, and closes it twice.
func with(f func(ctx context.Context, r *rank, b Backend) error) func(*rank) error {
	return func(r *rank) error {
		ctx, cancel := context.WithTimeout(context.Background(), hung)
		defer cancel()
		b, err := r.create(ctx, hung)
		if err != nil {
			return err
		}
		b.(*vendor).timeout = func() time.Duration { return operationTimeout }
		if b.Name() != r.name || b.Rank() != r.rank || b.Size() != r.size || b.Priority() < 90 || !strings.HasSuffix(b.Device(), ":"+strconv.Itoa(r.rank%2)) {
			return fmt.Errorf("%s: rank %d of %d on %s with priority %d", b.Name(), b.Rank(), b.Size(), b.Device(), b.Priority())
		}
		err = f(ctx, r, b)
		return errors.Join(err, b.Close(), b.Close())
	}
}

// buffer is memory of a back end's device, with the host's copy.
type buffer struct {
	*gpu.Memory
	stream *gpu.Stream
	host   *gpu.Pinned
}

func alloc(b Backend, n uint64) (*buffer, error) {
	place, err := gpu.ParsePlace(b.Device())
	if err != nil {
		return nil, err
	}
	d, err := gpu.Open(place)
	if err != nil {
		return nil, err
	}
	m, err := d.Alloc(int(n))
	if err != nil {
		return nil, err
	}
	host, err := d.AllocPinned(int(n))
	if err != nil {
		return nil, err
	}
	stream, err := d.NewStream()
	return &buffer{m, stream, host}, err
}

func (b *buffer) push(ctx context.Context) error {
	return errors.Join(b.stream.ToDevice(b.Addr(), b.host.Addr(), b.Len()), b.stream.Wait(ctx))
}

func (b *buffer) pull(ctx context.Context) error {
	return errors.Join(b.stream.FromDevice(b.host.Addr(), b.Addr(), b.Len()), b.stream.Wait(ctx))
}

func (b *buffer) Bytes() []byte { return memory.Bytes(b.host.Addr(), b.Len()) }

func (b *buffer) free() error { return errors.Join(b.Free(), b.host.Free(), b.stream.Close()) }

// operate runs a call with inputs of a seed in place or not, and counts wrong elements.
func (r *rank) operate(ctx context.Context, b Backend, k collective.Call, inPlace bool, run func(collective.Call) error) error {
	seed := reference.OrderFree | uint64(k.Count)
	send, recv := k.Buffers(r.size, r.rank)
	size := k.Type.Size()
	whole, err := alloc(b, uint64(k.Count*size))
	if err != nil {
		return err
	}
	out, from := whole, send.Lo*size
	k.Send, k.Recv = whole.Addr()+uint64(send.Lo*size), whole.Addr()+uint64(recv.Lo*size)
	if !inPlace {
		if out, err = alloc(b, uint64(recv.Len()*size)); err != nil {
			return err
		}
		k.Recv = out.Addr()
	}
	reference.Fill(whole.Bytes()[from:from+send.Len()*size], k.Type, k.Reduction, r.rank, send.Lo, seed)
	if err := errors.Join(whole.push(ctx), run(k), out.pull(ctx)); err != nil {
		return err
	}
	got := out.Bytes()
	if inPlace {
		got = got[recv.Lo*size : recv.Hi*size]
	}
	c := k.Checker(r.size, nil, seed)
	if k.Reduction == reduce.Avg {
		c.Ulps = uint64(r.size)
	}
	verify := c.VerifyGathered
	if k.Op.Reduces() {
		verify = c.Verify
	}
	if wrong, first := verify(recv.Lo, recv.Hi, got); wrong > 0 {
		return fmt.Errorf("%s of %d %s, %s, root %d, in place %v: %d wrong, the first at %+v", k.Op, k.Count, k.Type, k.Reduction, k.Root, inPlace, wrong, first)
	}
	if out != whole {
		err = out.free()
	}
	return errors.Join(err, whole.free())
}

// calls are those of every operation.
func calls(size int, types []reduce.Type, counts []int) (list []collective.Call) {
	for _, op := range plan.Operations() {
		for _, typ := range types {
			for _, red := range reduce.Ops() {
				if !op.Reduces() && red != reduce.Sum {
					continue
				}
				for _, count := range counts {
					list = append(list, collective.Call{Op: op, Type: typ, Reduction: red, Count: count, Root: 0})
					if op.Rooted() {
						list[len(list)-1].Root = size - 1
					}
				}
			}
		}
	}
	return list
}

func matrix(ctx context.Context, r *rank, b Backend) error {
	for _, k := range calls(r.size, reduce.Types(), []int{0, 1, 1024 * r.size, 1001}) {
		for _, inPlace := range []bool{false, true} {
			if err := r.operate(ctx, b, k, inPlace, func(k collective.Call) error { return b.Run(ctx, k) }); err != nil {
				return err
			}
		}
	}
	// More than the library has in hand at a time.
	for _, k := range calls(r.size, []reduce.Type{reduce.Float32}, []int{1<<18 + 1}) {
		if err := r.operate(ctx, b, k, false, func(k collective.Call) error { return b.Run(ctx, k) }); err != nil {
			return err
		}
	}
	return b.Run(ctx, collective.Call{Op: collective.OpBarrier})
}

// inFlight starts all operations one after the other, and then waits for them.
func inFlight(ctx context.Context, r *rank, b Backend) error {
	var handles []*collective.Handle
	for _, k := range calls(r.size, []reduce.Type{reduce.Int32, reduce.BFloat16}, []int{64}) {
		if err := r.operate(ctx, b, k, false, func(k collective.Call) error {
			h, err := b.Start(ctx, k)
			if err != nil {
				return err
			}
			handles = append(handles, h)
			return h.Wait(ctx)
		}); err != nil {
			return err
		}
	}
	one, err := alloc(b, 4096)
	if err != nil {
		return err
	}
	two, err := alloc(b, 4096)
	if err != nil {
		return err
	}
	for i := range uint64(4) {
		h, err := b.Start(ctx, collective.Call{Op: collective.OpAllReduce, Type: reduce.Int32, Count: 256, Send: one.Addr() + i*1024, Recv: two.Addr() + i*1024})
		if err != nil {
			return err
		}
		handles = append(handles, h)
	}
	barrier, err := b.Start(ctx, collective.Call{Op: collective.OpBarrier})
	if err != nil {
		return err
	}
	for _, h := range append(handles, barrier) {
		if err := h.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// refused has each call that is refused before the library hears of it.
func refused(ctx context.Context, r *rank, b Backend) error {
	buffer, err := alloc(b, 64)
	if err != nil {
		return err
	}
	host, err := memory.Alloc(4096)
	if err != nil {
		return err
	}
	kind := map[string]gpu.Kind{NCCL: gpu.CUDA, RCCL: gpu.HIP}[r.name]
	own, beside, others := gpu.Place{Kind: kind, Index: r.rank}, gpu.Place{Kind: kind, Index: 1 - r.rank}, gpu.Place{Kind: gpu.CUDA + gpu.HIP - kind}
	given := map[gpu.Place]uint64{}
	for _, place := range []gpu.Place{beside, others} {
		d, err := gpu.Open(place)
		if err != nil {
			return err
		}
		m, err := d.Alloc(64)
		if err != nil {
			return err
		}
		given[place] = m.Addr()
	}
	good := collective.Call{Op: collective.OpAllReduce, Type: reduce.Float32, Count: 16, Send: buffer.Addr(), Recv: buffer.Addr()}
	change := func(f func(*collective.Call)) collective.Call { k := good; f(&k); return k }
	for want, k := range map[string]collective.Call{
		"needs a send buffer of 64 bytes of " + own.String() + " memory, and none is given":              change(func(k *collective.Call) { k.Send = 0 }),
		"needs a receive buffer of 64 bytes of " + own.String() + " memory, and none is given":           change(func(k *collective.Call) { k.Recv = 0 }),
		own.String() + " memory, and host memory is given":                                               change(func(k *collective.Call) { k.Recv = host.Addr() }),
		own.String() + " memory, and host memory is given, at " + fmt.Sprintf("%#x", buffer.host.Addr()): change(func(k *collective.Call) { k.Send = buffer.host.Addr() }),
		own.String() + " memory, and " + beside.String() + " memory is given":                            change(func(k *collective.Call) { k.Recv = given[beside] }),
		own.String() + " memory, and " + others.String() + " memory is given":                            change(func(k *collective.Call) { k.Send = given[others] }),
		"are left":                                     change(func(k *collective.Call) { k.Count = 1 << 20 }),
		"has no element type type(200)":                change(func(k *collective.Call) { k.Type = 200 }),
		"has no reduction op(200)":                     change(func(k *collective.Call) { k.Reduction = 200 }),
		"has no operation operation 77":                change(func(k *collective.Call) { k.Op = 77 }),
		"expected 0 or more":                           change(func(k *collective.Call) { k.Count = -1 }),
		"expected a rank from 0 to 1":                  change(func(k *collective.Call) { k.Op, k.Root = collective.OpReduce, 2 }),
		"chooses its algorithm, protocol and segments": change(func(k *collective.Call) { k.Algorithm = collective.AlgorithmTree }),
	} {
		_, startErr := b.Start(ctx, k)
		for _, err := range []error{b.Run(ctx, k), startErr} {
			if !usage.Is(err) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), r.name) {
				return fmt.Errorf("%+v: %w: expected %s and %q", k, err, r.name, want)
			}
		}
	}
	if err := b.Run(ctx, good); err != nil { // nothing has been harmed
		return err
	}
	if err := errors.Join(b.Close(), host.Free()); err != nil {
		return err
	}
	if err := b.Run(ctx, good); !errors.Is(err, ErrClosed) {
		return fmt.Errorf("after Close: %w", err)
	}
	return nil
}

var scenarios = map[string]func(*rank) error{
	"matrix": with(matrix), "in flight": with(inFlight), "refused": with(refused), "failing": with(failing), "failing group": with(failingGroup), "closing": with(closing), "cancelled": with(cancelledTurn), "abandoned": with(abandoned), "kept": with(kept), "absent": with(absent), "overlapping": with(overlapping), "old": with(old),
	"create": func(r *rank) error { return r.allKnow(context.Background(), createTimeout) },
	// late gives up while the library is about to make a communicator, and looks what becomes of it.
	"late": func(r *rank) error {
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		r.met = func() { time.AfterFunc(200*time.Millisecond, func() { cancel(errors.New("too long")) }) }
		_, err := r.create(ctx, hung)
		return err
	},
	// waiting has one rank that comes when most of the other's time to meet is over.
	"waiting": func(r *rank) error {
		time.Sleep(time.Duration(r.rank) * createTimeout * 3 / 4)
		b, err := r.create(context.Background(), createTimeout)
		if err != nil {
			return err
		}
		_, err = r.gather(context.Background(), nil)
		return errors.Join(err, b.Close())
	},
	// interrupted has rank 0 interrupted while it tells the other, which does not come to that, that
	// its time to join is over.
	"interrupted": func(r *rank) error {
		gone := filepath.Join(r.dir, "gone")
		if r.rank > 0 {
			r.met = func() {
				for _, err := os.Stat(gone); err != nil; _, err = os.Stat(gone) {
					time.Sleep(time.Millisecond)
				}
			}
			return r.allKnow(context.Background(), createTimeout)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		r.meets = func() {
			if r.gathers == 2 {
				time.AfterFunc(200*time.Millisecond, func() { cancel(errors.New("too long")) })
			}
		}
		err := r.allKnow(ctx, createTimeout)
		return errors.Join(err, os.WriteFile(gone, nil, 0o600))
	},
}

// world runs a scenario on ranks of their own processes, and returns what each prints, and how
// often they called each of the library's functions.
func world(t *testing.T, path, name, scenario string, size int, variables ...string) (texts []string, calls map[string]int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	outs := make([]bytes.Buffer, size)
	var ranks []*exec.Cmd
	for rank := range size {
		cmd := exec.CommandContext(ctx, self)
		cmd.Stdout, cmd.Stderr = &outs[rank], &outs[rank]
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+path, "NCCLTEST_DIR="+dir, "NCCLTEST_TRACE="+trace, "NCCL_DEBUG=WARN", fmt.Sprintf("%s=%s/%s/%d/%d/%s", asRank, name, scenario, rank, size, dir))
		cmd.Env = append(cmd.Env, variables...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ranks = append(ranks, cmd)
	}
	for rank, cmd := range ranks {
		_ = cmd.Wait() // its words say more
		texts = append(texts, outs[rank].String())
	}
	if ctx.Err() != nil {
		t.Fatalf("%s hung: %q", scenario, texts)
	}
	for rank, text := range texts {
		for _, never := range []string{"DATA RACE", "panic:", "fatal error:", "nccltest:"} {
			if strings.Contains(text, never) {
				t.Errorf("%s, rank %d has %q:\n%s", scenario, rank, never, text)
			}
		}
	}
	lines, err := os.ReadFile(trace)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // no library, no file
		t.Fatal(err)
	}
	calls = map[string]int{}
	for line := range strings.Lines(string(lines)) {
		calls[strings.TrimSpace(line)]++
	}
	return texts, calls
}

// Every operation of every type and reduction, of any count, in place and not, on one rank
// and on several processes, by both libraries, and by one that can only block.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	gpus := gputest.Build(t)
	news, olds := nccltest.Build(t, nccltest.Sonames...), nccltest.BuildOld(t, nccltest.Sonames...)
	for _, c := range []struct {
		name, nccl, scenario string
		size                 int
		long                 bool
	}{
		{NCCL, news, "matrix", 1, true}, {NCCL, news, "matrix", 3, true}, {RCCL, news, "matrix", 2, false}, {NCCL, olds, "matrix", 2, true},
		{NCCL, news, "in flight", 2, false}, {RCCL, olds, "in flight", 3, false}, {NCCL, news, "refused", 2, false}, {RCCL, olds, "refused", 2, false},
	} {
		if c.long && testing.Short() {
			continue // a sample
		}
		texts, called := world(t, c.nccl+":"+gpus, c.name, c.scenario, c.size)
		if called["communicator"] != c.size || called["ncclCommDestroy"] != c.size || called["ncclCommAbort"] != 0 {
			t.Errorf("%s, %s: %d communicators, %d destroyed and %d aborted: expected that each of %d ranks destroys one once",
				c.name, c.scenario, called["communicator"], called["ncclCommDestroy"], called["ncclCommAbort"], c.size)
		}
		for rank, text := range texts {
			if text != "OK\n" {
				t.Errorf("%s, %s, rank %d of %d: %s", c.name, c.scenario, rank, c.size, text)
			}
		}
	}
}

// Our own ring is a back end, too, and needs a ring.
func TestRingNeedsARing(t *testing.T) {
	list, err := Factories(&Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	f := list[slices.IndexFunc(list, func(f *Factory) bool { return f.Name() == Ring })]
	if _, err := f.Create(t.Context(), World{}); !usage.Is(err) || !strings.Contains(err.Error(), "no ring is given") {
		t.Error(err)
	}
	if _, err := list[0].Create(t.Context(), World{}); !usage.Is(err) || !strings.Contains(err.Error(), "no way to share") {
		t.Error(err)
	}
}
