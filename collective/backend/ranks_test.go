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
	for _, op := range collective.Operations() {
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

// failing runs an all-reduce that is expected to fail, and tells how.
func failing(ctx context.Context, r *rank, b Backend) error {
	return fails(ctx, b, collective.Call{Op: collective.OpAllReduce, Type: reduce.Float32, Count: 16})
}

// failingGroup is failing of what is several of the library's operations.
func failingGroup(ctx context.Context, r *rank, b Backend) error {
	return fails(ctx, b, collective.Call{Op: collective.OpReduceScatter, Type: reduce.Float32, Count: 17})
}

// closing only closes.
func closing(_ context.Context, _ *rank, b Backend) error {
	err := b.Close()
	if again := b.Close(); again != nil {
		return fmt.Errorf("the second Close failed, too: %w", again)
	}
	return err
}

func fails(ctx context.Context, b Backend, k collective.Call) error {
	buffer, err := alloc(b, 4096)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	k.Send, k.Recv = buffer.Addr(), buffer.Addr()
	h, err := b.Start(limited, k)
	if err != nil {
		return err
	}
	first := h.Wait(ctx)
	again := b.Run(ctx, k)
	if first == nil || again == nil || b.Err() == nil || again.Error() != b.Err().Error() {
		return fmt.Errorf("not failed: %w, then %w, and Err is %w", first, again, b.Err())
	}
	return first
}

// overlapping starts what uses the buffers of one in flight, which does not end by itself.
func overlapping(ctx context.Context, _ *rank, b Backend) error {
	buffer, err := alloc(b, 64)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	k := collective.Call{Op: collective.OpAllReduce, Type: reduce.Float32, Count: 16, Send: buffer.Addr(), Recv: buffer.Addr()}
	first, err := b.Start(limited, k)
	if err != nil {
		return err
	}
	_, second := b.Start(ctx, k)
	return errors.Join(second, first.Wait(ctx))
}

// cancelled has one operation that lasts, and one behind it whose context ends.
func cancelled(ctx context.Context, b Backend, k collective.Call) error {
	first, err := b.Start(ctx, k)
	if err != nil {
		return err
	}
	behind, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k.Send, k.Recv = k.Send+4096, k.Recv+4096
	second, err := b.Start(behind, k)
	if err != nil {
		return err
	}
	time.Sleep(200 * time.Millisecond) // in which the first one comes into the library
	cancel(errors.New("enough"))
	return errors.Join(first.Wait(ctx), second.Wait(ctx))
}

// cancelledTurn is cancelled, on all ranks.
func cancelledTurn(ctx context.Context, _ *rank, b Backend) error {
	buffer, err := alloc(b, 8192)
	if err != nil {
		return err
	}
	return cancelled(ctx, b, collective.Call{Op: collective.OpAllReduce, Type: reduce.Float32, Count: 16, Send: buffer.Addr(), Recv: buffer.Addr()})
}

// abandoned has an operation that the other rank does not join, and one behind it whose context
// ends: the first one's does not.
func abandoned(ctx context.Context, r *rank, b Backend) (err error) {
	if r.rank == 0 {
		buffer, failed := alloc(b, 8192)
		if failed != nil {
			return failed
		}
		k := collective.Call{Op: collective.OpReduceScatter, Type: reduce.Float32, Count: 17, Send: buffer.Addr(), Recv: buffer.Addr()} // a group
		err = cancelled(ctx, b, k)
	}
	_, gathered := r.gather(ctx, nil)
	return errors.Join(err, gathered)
}

// kept fails, and leaves the library what it may be at work on. Close tells of an abort that failed.
func kept(ctx context.Context, r *rank, b Backend) error {
	err := failing(ctx, r, b)
	closed := b.Close()
	if b.(*vendor).stream.Raw() == 0 {
		return errors.New("the stream is given back while the library may use it")
	}
	return errors.Join(err, closed)
}

// allKnow makes a communicator that fails, on all ranks alike.
func (r *rank) allKnow(ctx context.Context, timeout time.Duration) error {
	_, err := r.create(ctx, timeout)
	if e, all := errors.AsType[*RanksError](err); all {
		own, is := errors.AsType[*Error](err)
		if is != (e.Own != nil) || is && !strings.Contains(e.Error(), fmt.Sprintf("rank %d: %s", r.rank, own)) {
			return fmt.Errorf("%w: this rank's library has returned %s", err, fmt.Sprint(own))
		}
		return fmt.Errorf("one for all: %w", err)
	}
	return err
}

// absent has an operation that the other rank does not join and whose context never ends, one
// that waits for its turn, and a Close that comes meanwhile.
func absent(ctx context.Context, r *rank, b Backend) (err error) {
	if r.rank == 0 {
		ended := make(chan error, 2)
		for range cap(ended) {
			go func() { ended <- b.Run(context.Background(), collective.Call{Op: collective.OpBarrier}) }()
			time.Sleep(200 * time.Millisecond) // in which it comes into the library, or into the line
		}
		if err = b.Close(); err != nil {
			err = fmt.Errorf("Close: %w", err)
		}
		err = errors.Join(err, <-ended, <-ended)
	}
	_, gathered := r.gather(ctx, nil)
	return errors.Join(err, gathered)
}

// old asks for what the library's version has not.
func old(ctx context.Context, _ *rank, b Backend) error {
	buffer, err := alloc(b, 64)
	if err != nil {
		return err
	}
	k := collective.Call{Op: collective.OpAllReduce, Type: reduce.BFloat16, Count: 16, Send: buffer.Addr(), Recv: buffer.Addr()}
	averaged := k
	averaged.Type, averaged.Reduction = reduce.Float32, reduce.Avg
	return errors.Join(b.Run(ctx, k), b.Run(ctx, averaged))
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

// Each way to fail ends, and says how.
func TestFailures(t *testing.T) {
	t.Parallel()
	gpus := gputest.Build(t)
	nccl, blocking := nccltest.Build(t, nccltest.Sonames...)+":"+gpus, nccltest.BuildOld(t, nccltest.Sonames...)+":"+gpus
	const ofOne = "NCCLTEST_RANK=1"
	for _, c := range []struct {
		name, path, scenario string
		variables            []string
		want                 []string // of each rank
	}{
		{"a code", nccl, "failing", []string{"NCCLTEST_FAIL=ncclAllReduce:4"}, []string{"ncclAllReduce returned ncclInvalidArgument (4): invalid argument: ncclAllReduce was told to fail"}},
		{"an unknown code", nccl, "failing", []string{"NCCLTEST_FAIL=ncclAllReduce:99"}, []string{"returned a code that nccl.h has not (99): unknown result code"}},
		{"a code without last error", blocking, "failing", []string{"NCCLTEST_FAIL=ncclAllReduce:5"}, []string{"ncclAllReduce returned ncclInvalidUsage (5): invalid usage\n"}},
		{"asynchronous", nccl, "failing", []string{"NCCLTEST_ASYNC=6"}, []string{"ncclAllReduce, by ncclCommGetAsyncError, returned ncclRemoteError (6): remote process exited"}},
		{"asynchronous itself", nccl, "failing", []string{"NCCLTEST_FAIL=ncclCommGetAsyncError:2"}, []string{"ncclCommGetAsyncError returned ncclSystemError (2)"}},
		{"one rank fails", nccl, "failing", []string{"NCCLTEST_FAIL=ncclAllReduce:3", ofOne}, []string{"ncclAllReduce, by ncclCommGetAsyncError, returned ncclRemoteError (6)", "ncclAllReduce returned ncclInternalError (3)"}},
		{"a library that blocks", nccl, "failing", []string{"NCCLTEST_BLOCK=ncclAllReduce"}, []string{"deadline exceeded"}},
		{"an old one that blocks", blocking, "failing", []string{"NCCLTEST_BLOCK=ncclAllReduce"}, []string{"deadline exceeded"}},
		{"one that is stuck", nccl, "failing", []string{"NCCLTEST_STUCK=ncclAllReduce"}, []string{"deadline exceeded"}},
		{"stuck and not aborted", nccl, "failing", []string{"NCCLTEST_STUCK=ncclAllReduce,ncclCommAbort"}, []string{"deadline exceeded"}},
		{"an abort that is stuck", nccl, "kept", []string{"NCCLTEST_STUCK=ncclCommAbort", "NCCLTEST_FAIL=ncclAllReduce:3"}, []string{"ncclAllReduce returned ncclInternalError (3)"}},
		{"an abort that fails", nccl, "kept", []string{"NCCLTEST_FAIL=ncclCommAbort:1,ncclAllReduce:3"}, []string{"ncclCommAbort returned ncclUnhandledCudaError (1)"}},
		{"overlapping", nccl, "overlapping", []string{"NCCLTEST_BLOCK=ncclAllReduce"}, []string{"which belongs to all-reduce in flight until its handle resolves: wait for that, or use another buffer"}},
		{"cancelled before its turn", nccl, "cancelled", []string{"NCCLTEST_BLOCK=ncclAllReduce"}, []string{"enough"}},
		{"no group", nccl, "failing group", []string{"NCCLTEST_FAIL=ncclGroupStart:3"}, []string{"ncclGroupStart returned ncclInternalError (3)"}},
		{"no operation of a group", nccl, "failing group", []string{"NCCLTEST_FAIL=ncclReduce:4"}, []string{"ncclReduce returned ncclInvalidArgument (4)"}},
		{"no end of a group", nccl, "failing group", []string{"NCCLTEST_FAIL=ncclGroupEnd:5"}, []string{"ncclGroupEnd returned ncclInvalidUsage (5)"}},
		{"one's group that does not end", nccl, "failing group", []string{"NCCLTEST_FAIL=ncclGroupEnd:5", ofOne}, []string{"ncclGroupEnd, by ncclCommGetAsyncError, returned ncclRemoteError (6)", "ncclGroupEnd returned ncclInvalidUsage (5)"}},
		{"not finalized", nccl, "closing", []string{"NCCLTEST_FAIL=ncclCommFinalize:3"}, []string{"ncclCommFinalize returned ncclInternalError (3)"}},
		{"one not finalized", nccl, "closing", []string{"NCCLTEST_FAIL=ncclCommFinalize:3", ofOne}, []string{"OK", "ncclCommFinalize returned ncclInternalError (3)"}},
		{"finalized too slowly", nccl, "closing", []string{"NCCLTEST_BLOCK=ncclCommFinalize"}, []string{"ncclCommDestroy was given up after "}},
		{"not destroyed", nccl, "closing", []string{"NCCLTEST_FAIL=ncclCommDestroy:2"}, []string{"ncclCommDestroy returned ncclSystemError (2)"}},
		{"an old one not destroyed", blocking, "closing", []string{"NCCLTEST_FAIL=ncclCommDestroy:2"}, []string{"ncclCommDestroy returned ncclSystemError (2)"}},
		{"aborted by one behind it", nccl, "abandoned", nil, []string{"cancelled before its turn: enough", "OK"}},
		{"aborted within a group", nccl, "abandoned", []string{"NCCLTEST_SLOW=ncclReduce:400"}, []string{"cancelled before its turn: enough", "OK"}},
		{"an old one aborted by one behind it", blocking, "abandoned", nil, []string{"enough", "OK"}},
		{"no deadline, and a close", nccl, "absent", nil, []string{"nccl: barrier: barrier was given up after ", "OK"}},
		{"an old one, no deadline, and a close", blocking, "absent", nil, []string{"nccl: barrier: barrier was given up after ", "OK"}},
		{"an old communicator that comes late", blocking, "late", []string{"NCCLTEST_SLOW=ncclCommInitRank:3000"}, []string{"too long"}},
		{"no unique id", nccl, "create", []string{"NCCLTEST_FAIL=ncclGetUniqueId:2"}, []string{"rank 0: nccl: ncclGetUniqueId returned ncclSystemError (2)"}},
		{"no communicator", nccl, "create", []string{"NCCLTEST_FAIL=ncclCommInitRankConfig:5"}, []string{"making a communicator of 2 ranks: rank 0: nccl: ncclCommInitRankConfig returned ncclInvalidUsage (5)"}},
		{"no communicator of one", nccl, "create", []string{"NCCLTEST_FAIL=ncclCommInitRankConfig:5", ofOne}, []string{"one for all: nccl: making a communicator of 2 ranks: rank 0: ncclCommInitRankConfig was given up after"}},
		{"what one says at last", nccl, "create", []string{"NCCLTEST_FAIL=ncclCommInitRankConfig:5", ofOne}, []string{"; rank 1: nccl: ncclCommInitRankConfig returned ncclInvalidUsage (5)"}},
		{"one's communicator that fails later", nccl, "create", []string{"NCCLTEST_FAIL=ncclCommInitRank:3", ofOne}, []string{"; rank 1: nccl: ncclCommInitRankConfig, by ncclCommGetAsyncError, returned ncclInternalError (3)"}},
		{"one old communicator, for which another is stuck", blocking, "create", []string{"NCCLTEST_FAIL=ncclCommInitRank:3", ofOne}, []string{"; rank 1: nccl: ncclCommInitRank returned ncclInternalError (3)"}},
		{"no old communicator", blocking, "create", []string{"NCCLTEST_FAIL=ncclCommInitRank:5"}, []string{"ncclCommInitRank returned ncclInvalidUsage (5)"}},
		{"a communicator that fails later", nccl, "create", []string{"NCCLTEST_FAIL=ncclCommInitRank:3"}, []string{"ncclCommInitRankConfig, by ncclCommGetAsyncError, returned ncclInternalError (3)"}},
		{"a communicator that blocks", nccl, "create", []string{"NCCLTEST_BLOCK=ncclCommInitRank"}, []string{"deadline exceeded"}},
		{"an old one that is stuck", blocking, "create", []string{"NCCLTEST_STUCK=ncclCommInitRank"}, []string{"deadline exceeded"}},
		{"an old one's type and reduction", nccl, "old", []string{"NCCLTEST_VERSION=2908"}, []string{"nccl 2.9.8 has no element type bfloat16: expected 2.10.0 or later\nnccl 2.9.8 has no reduction avg: expected 2.10.0 or later"}},
		{"one's communicator that fails later, and whose abort is stuck", nccl, "create", []string{"NCCLTEST_FAIL=ncclCommInitRank:3", "NCCLTEST_STUCK=ncclCommAbort", ofOne}, []string{"one for all: "}},
		{"old ones that are stuck in making one", blocking, "create", []string{"NCCLTEST_STUCK=ncclCommInitRank,ncclCommAbort"}, []string{"one for all: "}},
		{"one that comes late", nccl, "waiting", []string{"NCCLTEST_SLOW=ncclCommInitRank:1500"}, []string{"OK"}},
		{"an interruption after the time to join", nccl, "interrupted", nil, []string{"too long", "one for all: "}},
		{"no library", gpus, "create", nil, []string{"not available: nccl: rank 0: libnccl.so.2 cannot be loaded"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			texts, called := world(t, c.path, NCCL, c.scenario, 2, c.variables...)
			if made, gone := called["communicator"], called["ncclCommDestroy"]+called["ncclCommAbort"]; made != gone && !strings.Contains(c.name, "stuck") {
				t.Errorf("%d communicators, %d destroyed and %d aborted: expected one end of each", made, called["ncclCommDestroy"], called["ncclCommAbort"])
			}
			for rank, text := range texts {
				if want := c.want[min(rank, len(c.want)-1)]; !strings.Contains(text, want) {
					t.Errorf("rank %d: %s\nexpected %q", rank, text, want)
				}
			}
		})
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
