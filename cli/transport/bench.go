package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"ringcli/cli/transport/googlebench"
	"ringcli/configs/codes"
	"ringcli/ring/bootstrap/oob"
	"ringcli/verbs"
	"ringcli/verbs/gpu"
	"ringcli/verbs/memory"
	"ringcli/verbs/route"
	"ringcli/verbs/transport"
)

// pageSize is the least distance of what memory is looked at by.
const pageSize = 4096

// bench is the client's end of a bench.
type bench struct {
	c       *oob.Conn
	t       *transport.Transport
	source  *transport.Memory // what is written
	inbound *transport.Memory // where it is read or comes back to
	remote  transport.RemoteBuffer
	gpu     *gpu.Device        // that has this end's memory; nil: the host
	theirs  string             // the server's memory, where a GPU has it
	copied  map[uint64]float64 // bytes a second of memcpy, by size
	rate    float64            // of the port in bytes a second; 0: not known, or of no wire
	beside  map[string]float64 // rates of others, by benchmark
	stamps  uint64
	timeout time.Duration // of a wait for the server's answer, or for a copy of the GPU
}

// family is what is measured at each size.
type family struct {
	name string
	of   func(b *bench, bytes uint64) googlebench.Benchmark
}

// families are in the order of the report.
var families = []family{
	{"BM_RdmaTransport_Write", (*bench).write},
	{"BM_RdmaTransport_Batch", (*bench).batch},
	{"BM_RdmaTransport_Read", (*bench).read},
	{"BM_RdmaTransport_RoundTrip", (*bench).roundTrip},
	{"BM_RdmaTransport_Register", (*bench).register},
	{copyFamily, (*bench).memcpy},
}

const copyFamily = "BM_Memcpy"

// nameOf is a benchmark's name, as Google Benchmark makes it of one with an argument that is
// measured by the clock.
func nameOf(family string, bytes uint64) string { return fmt.Sprintf("%s/%d/real_time", family, bytes) }

// benchmarks are those of the sizes that are asked for, and the greatest size of these.
func (b *bench) benchmarks(sizes []uint64, wanted func(name string) bool) (list []*googlebench.Benchmark, most uint64) {
	index := 0
	for _, f := range families {
		instance := 0
		for _, size := range sizes {
			name := nameOf(f.name, size)
			if !wanted(name) {
				continue
			}
			one := f.of(b, size)
			one.Name, one.Family, one.Instance = name, index, instance
			list, most = append(list, &one), max(most, size)
			instance++
		}
		if instance > 0 {
			index++
		}
	}
	return list, most
}

// prepare allocates memory at both ends, for messages of so many bytes.
func (b *bench) prepare(ctx context.Context, size uint64) (err error) {
	if b.source, err = alloc(ctx, b.t, b.gpu, size, b.timeout); err != nil {
		return err
	}
	if b.inbound, err = alloc(ctx, b.t, b.gpu, size, b.timeout); err != nil {
		return err
	}
	if err := b.c.Send(kindMemory, memoryAsked{size}); err != nil {
		return err
	}
	var given memoryGiven
	if err := b.c.Receive(ctx, kindMemory, &given); err != nil {
		return err
	}
	b.remote, b.theirs = given.Remote, given.GPU
	b.copied = map[uint64]float64{}
	device, _ := b.t.Device()
	b.rate = wireRate(device, b.c)
	return nil
}

// wireRate is that of a device's first port in bytes a second; 0 if it is of no wire, or not
// known.
func wireRate(device string, c *oob.Conn) float64 {
	d, _, err := route.Device(device, c.Local())
	if err != nil {
		return 0
	}
	open, err := d.Open(verbs.OpenOptions{})
	if err != nil {
		return 0
	}
	defer func() { _ = open.Close() }() // it was but asked
	attr, err := open.QueryDevice()
	if err != nil || attr.Software || attr.HostLocal {
		return 0
	}
	port, err := route.QueryPort(open, 1)
	if err != nil {
		return 0
	}
	return float64(port.Attr.SpeedMbps) * 1e6 / 8
}

// stamp makes the first bytes of each page of the source new, so that what was written before
// is not taken for what is written now.
func (b *bench) stamp(ctx context.Context, size uint64) error {
	b.stamps++
	for at := uint64(0); at+8 <= size; at += pageSize {
		binary.LittleEndian.PutUint64(b.source.Bytes()[at:], b.stamps<<32|at/pageSize)
	}
	return upload(ctx, b.source, size)
}

// check compares what came back with the source.
func (b *bench) check(ctx context.Context, size uint64) error {
	if err := errors.Join(download(ctx, b.source, size), download(ctx, b.inbound, size)); err != nil {
		return err
	}
	if bytes.Equal(b.source.Bytes()[:size], b.inbound.Bytes()[:size]) {
		return nil
	}
	return codes.With(codes.WrongData, fmt.Errorf("wrong data: of %d bytes that were moved some differ", size))
}

// fetch reads what the server has.
func (b *bench) fetch(ctx context.Context, size uint64) error {
	into, err := b.inbound.View(0, size)
	if err != nil {
		return err
	}
	if err := b.t.Read(context.Background(), into, b.remote).Wait(ctx); err != nil {
		return err
	}
	return arrived(ctx, b.inbound, size)
}

// settle has the server's GPU, if it has one, take what was written: one-sided writes tell it
// nothing.
func (b *bench) settle(ctx context.Context, size uint64) error {
	if b.theirs == "" {
		return nil
	}
	if err := b.c.Send(kindSettle, memoryAsked{size}); err != nil {
		return err
	}
	return b.c.Receive(ctx, kindSettle, nil)
}

// put writes the source once.
func (b *bench) put(ctx context.Context, size uint64, notify bool) error {
	from, err := b.source.View(0, size)
	if err == nil {
		err = leaving(ctx, b.source, size)
	}
	if err != nil {
		return err
	}
	return b.t.Write(context.Background(), from, b.remote, notify).Wait(ctx)
}

// stamped begins a benchmark that writes.
func (b *bench) stamped(size uint64) func(context.Context) error {
	return func(ctx context.Context) error { return b.stamp(ctx, size) }
}

// fetched ends a benchmark that writes: what the server has is what was written.
func (b *bench) fetched(size uint64) func(context.Context) error {
	return func(ctx context.Context) error {
		return errors.Join(b.settle(ctx, size), b.fetch(ctx, size), b.check(ctx, size))
	}
}

// write is one write after the other, each waited for.
func (b *bench) write(size uint64) googlebench.Benchmark {
	return googlebench.Benchmark{
		Bytes: size, Begin: b.stamped(size), End: b.fetched(size), Counters: b.shares,
		Iterate: repeat(func(ctx context.Context) error { return b.put(ctx, size, false) }),
	}
}

// repeat runs one iteration after the other.
func repeat(one func(context.Context) error) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		for range n {
			if err := one(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// Writes of a batch, of which two are in flight: 16 writes, as `bench p2p` has.
const batchWrites = 8

// batch is writes in batches, whose time is that of one write.
func (b *bench) batch(size uint64) googlebench.Benchmark {
	return googlebench.Benchmark{
		Bytes: size, Begin: b.stamped(size), End: b.fetched(size), Counters: b.shares,
		Iterate: func(ctx context.Context, n int) error {
			from, err := b.source.View(0, size)
			if err != nil {
				return err
			}
			one := transport.Transfer{Op: transport.Write, Local: from, Remote: b.remote}
			list := slices.Repeat([]transport.Transfer{one}, batchWrites)
			var before []*transport.Future
			for n > 0 && err == nil {
				now := min(n, batchWrites)
				for i := 0; i < now && err == nil; i++ {
					err = leaving(ctx, b.source, size)
				}
				if err != nil {
					break
				}
				futures := b.t.Batch(context.Background(), list[:now]...)
				n -= now
				err = transport.WaitAll(ctx, before...)
				before = futures
			}
			return errors.Join(err, transport.WaitAll(ctx, before...))
		},
	}
}

// read is one read after the other.
func (b *bench) read(size uint64) googlebench.Benchmark {
	return googlebench.Benchmark{
		Bytes: size, Counters: b.shares,
		Begin: func(ctx context.Context) error {
			return errors.Join(b.stamp(ctx, size), b.put(ctx, size, false), b.settle(ctx, size))
		},
		End:     func(ctx context.Context) error { return b.check(ctx, size) },
		Iterate: repeat(func(ctx context.Context) error { return b.fetch(ctx, size) }),
	}
}

// roundTrip is a write that notifies, and one that the server answers it with.
func (b *bench) roundTrip(size uint64) googlebench.Benchmark {
	return googlebench.Benchmark{
		Bytes: 2 * size, Counters: b.shares,
		Begin: func(ctx context.Context) error {
			if err := b.stamp(ctx, size); err != nil {
				return err
			}
			if err := b.c.Send(kindEcho, echoAsked{size, b.inbound.Remote()}); err != nil {
				return err
			}
			return b.c.Receive(ctx, kindEcho, nil)
		},
		End: func(ctx context.Context) error {
			if err := b.c.Send(kindStop, nil); err != nil {
				return err
			}
			return errors.Join(b.c.Receive(ctx, kindStop, nil), b.check(ctx, size))
		},
		Iterate: func(ctx context.Context, n int) error {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			late := time.AfterFunc(b.timeout, func() {
				cancel(codes.With(codes.Timeout, fmt.Errorf("no answer of the server within %v to a write that notifies it", b.timeout)))
			})
			defer late.Stop()
			return repeat(func(ctx context.Context) error {
				late.Reset(b.timeout)
				if err := b.put(ctx, size, true); err != nil {
					return err
				}
				if err := b.t.WaitForWrite(ctx).Wait(ctx); err != nil {
					return err
				}
				return arrived(ctx, b.inbound, size)
			})(ctx, n)
		},
	}
}

// register is what it costs to register memory of the host, and to deregister it; of a GPU's it is
// allocated and freed, too.
func (b *bench) register(size uint64) googlebench.Benchmark {
	again := func(register func() (*transport.Memory, error)) func(context.Context, int) error {
		return repeat(func(ctx context.Context) error {
			m, err := register()
			if err != nil {
				return err
			}
			return errors.Join(m.Close(), ctx.Err())
		})
	}
	if b.gpu != nil {
		return googlebench.Benchmark{Iterate: again(func() (*transport.Memory, error) { return b.t.AllocOn(b.gpu, size) })}
	}
	var block *memory.Block
	return googlebench.Benchmark{
		Begin: func(ctx context.Context) (err error) {
			if block, err = memory.Alloc(size); err != nil {
				return err
			}
			if err := touch(ctx, block.Bytes()); err != nil {
				return errors.Join(err, block.Free())
			}
			return nil
		},
		End:     func(context.Context) error { return block.Free() },
		Iterate: again(func() (*transport.Memory, error) { return b.t.Register(block.Addr(), size, verbs.MemoryHost) }),
	}
}

// memcpy is what the others are held against: a copy within this process, or within the GPU.
func (b *bench) memcpy(size uint64) googlebench.Benchmark {
	return googlebench.Benchmark{
		Bytes: size,
		Iterate: func(ctx context.Context, n int) error {
			from, to := b.source.Region(), b.inbound.Region()
			for range n {
				if from == nil {
					copy(b.inbound.Bytes()[:size], b.source.Bytes()[:size])
				} else if err := from.CopyTo(ctx, to, int(size)); err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		},
		Counters: func(r *googlebench.Row) []googlebench.Counter {
			b.copied[size] = r.Rate()
			return nil
		},
	}
}

// shares are what a rate is of others: of memcpy's at that size, of the port's, and of what
// another has measured.
func (b *bench) shares(r *googlebench.Row) []googlebench.Counter {
	var list []googlebench.Counter
	if rate := b.beside[r.Benchmark.Name]; rate > 0 {
		list = append(list, googlebench.Counter{Name: "h100", Value: rate, Rate: true}, googlebench.Counter{Name: "of_h100", Value: r.Rate() / rate})
	}
	size := r.Benchmark.Bytes
	if r.Benchmark.Name == nameOf("BM_RdmaTransport_RoundTrip", size/2) {
		size /= 2
	}
	if rate := b.copied[size]; rate > 0 {
		list = append(list, googlebench.Counter{Name: "of_memcpy", Value: r.Rate() / rate})
	}
	if b.rate > 0 {
		list = append(list, googlebench.Counter{Name: "of_rate", Value: r.Rate() / b.rate})
	}
	return list
}
