package collective

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/collective/reduce/reference"
	"ringcli/ring"
	"ringcli/verbs/memory"
	"ringcli/verbs/verbstest"
)

// matrix is what TestMatrix multiplies out.
type matrix struct {
	options func(rank int) ring.Options // nil is soft:lo
	private bool                        // some buffers are no other rank's to map
	ranks   []int
	types   []reduce.Type
	ops     []reduce.Op
	ways    []CallOptions
	counts  func(n int) []int
}

// fullMatrix is every type, reduction and count by some ways.
func fullMatrix(ways ...CallOptions) matrix {
	long, ranks := 1<<17+3, []int{1, 2, 3, 5}
	if verbstest.Full() {
		ways, long, ranks = append(ways, allWays()...), 1<<20+3, []int{1, 2, 3, 4, 5, 8}
	}
	return matrix{
		ranks: ranks, types: reduce.Types(), ops: reduce.Ops(),
		ways:   ways,
		counts: func(n int) []int { return []int{0, 1, n - 1, n, n + 1, 1000, 65537, long} },
	}
}

var ringWays = []CallOptions{
	{Algorithm: AlgorithmRing, Protocol: Eager}, {Algorithm: AlgorithmRing, Protocol: RendezvousWrite}, {Algorithm: AlgorithmRing, Protocol: RendezvousRead},
	{Algorithm: AlgorithmRing, Protocol: ReceiverInitiated},
}

// elseEager is a way with eager in place of ReceiverInitiated where that cannot be.
func (c *Comm) elseEager(op Operation, o CallOptions) CallOptions {
	if o.Protocol == ReceiverInitiated && (op != OpAllReduce || o.Sync || max(o.Depth, 1) > c.agreement.Load().InitiatedDepth() || c.agreement.Load().Rails) {
		o.Protocol = Eager
	}
	return o
}

var meshWays = []CallOptions{{Algorithm: AlgorithmRecursiveDoubling}, {Algorithm: AlgorithmTree}, {Algorithm: AlgorithmInbox}}

func allWays() []CallOptions { return append(ringWays[:len(ringWays):len(ringWays)], meshWays...) }

// wayName says which way it is.
func wayName(o CallOptions) string { return fmt.Sprintf("%s by %s", o.Algorithm, o.Protocol) }

// sampleMatrix is for -short: a type of each size and kind, and every way that a count can
// fail to divide. The race detector takes less: it looks at who touches what, and no sum.
func sampleMatrix() matrix {
	if verbstest.Race {
		return matrix{
			ranks: []int{1, 2, 5}, types: []reduce.Type{reduce.BFloat16, reduce.Float64}, ops: []reduce.Op{reduce.Avg},
			ways:   allWays(),
			counts: func(n int) []int { return []int{n - 1, 1000, 65537} },
		}
	}
	return matrix{
		ranks: []int{1, 2, 3, 5}, types: []reduce.Type{reduce.Uint8, reduce.Int32, reduce.BFloat16, reduce.Float64},
		ops:    []reduce.Op{reduce.Sum, reduce.Avg},
		ways:   allWays(),
		counts: func(n int) []int { return []int{0, n - 1, n + 1, 1000, 65537} },
	}
}

// TestMatrix runs every operation over soft:lo against the plain reference, bit
// for bit on every rank: round the ring all there is, by other algorithms a sample.
func TestMatrix(t *testing.T) {
	m := fullMatrix(append(ringWays[:len(ringWays):len(ringWays)], CallOptions{})...)
	if testing.Short() || verbstest.Race {
		m = sampleMatrix()
	}
	for _, n := range m.ranks {
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			start := time.Now()
			cases := m.run(t, n)
			t.Logf("%d operations on device soft:lo in %v", cases, time.Since(start).Round(time.Millisecond))
		})
	}
}

// TestMeshMatrix is for the other algorithms, also on ring sizes that only they care about:
// those that are no powers of two, and more than the inbox takes.
func TestMeshMatrix(t *testing.T) {
	m := sampleMatrix()
	m.ranks, m.ways = []int{2, 3, 5, 6, 9}, append([]CallOptions{{}}, meshWays...)
	if verbstest.Full() {
		m.ranks = []int{2, 3, 5, 6, 7, 8, 9, 16}
	}
	m.counts = func(n int) []int { return []int{0, 1, n - 1, n, n + 1, 1000, 65537} }
	if testing.Short() || verbstest.Race {
		m.ranks, m.types = []int{7, 9}, m.types[:2]
	}
	if verbstest.Race {
		m.ranks, m.counts = m.ranks[:1], sampleMatrix().counts
	}
	for _, n := range m.ranks {
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			start := time.Now()
			cases := m.run(t, n)
			t.Logf("%d operations on device soft:lo in %v", cases, time.Since(start).Round(time.Millisecond))
		})
	}
}

// TestLargeByEveryAlgorithm: an algorithm that is asked for is taken, however long
// the vector.
func TestLargeByEveryAlgorithm(t *testing.T) {
	count := 2<<20 + 3 // 8 MiB
	if verbstest.Race {
		count = 1<<18 + 3
	}
	for _, n := range []int{2, 5} {
		w := newWorld(t, n, ring.Options{}, nil)
		k := newKit(w, count, reduce.Float32, reduce.Avg)
		k.expect(count)
		for _, way := range meshWays {
			for _, op := range plan.Operations() {
				for _, inPlace := range []bool{false, true} {
					k.check(op, count, way, inPlace)
				}
			}
		}
		for r, c := range w.comms {
			if most := 16 << 20; c.exec.Staging() > most {
				t.Errorf("rank %d of %d has %d bytes of partial results, want at most %d", r, n, c.exec.Staging(), most)
			}
		}
		w.must(func(rank int, _ *Comm) error { return errors.Join(k.send[rank].Free(), k.recv[rank].Free()) })
	}
}

// on is all ranks on one device.
func on(device string) func(int) ring.Options {
	return func(int) ring.Options { return ring.Options{Device: device} }
}

const matrixSeed = 20261121

// guard bytes after every buffer must stay as they are.
const guard = 64

// rootedCount is the number of elements, which all matrices have, for which every rank is the root
// in its turn where nothing is left out.
const rootedCount = 1000

// poison fills what an operation has to overwrite, or must leave alone.
const poison = 0xa5

func (m matrix) run(t *testing.T, n int) (cases int) {
	if m.options == nil {
		m.options = on("soft:lo")
	}
	w := newWorldOf(t, n, m.options, nil)
	counts := m.counts(n)
	longest := 0
	for _, c := range counts {
		longest = max(longest, c)
	}
	k := &kit{w: w, n: n, inputs: make([][]byte, n), send: make([]*Buffer, n), recv: make([]*Buffer, n)}
	w.must(func(rank int, c *Comm) (err error) {
		k.inputs[rank] = make([]byte, 8*longest)
		// Buffers that others can map, and some that they can't.
		if k.send[rank], err = m.alloc(t, c, rank%3 == 1, uint64(8*longest+guard)); err != nil {
			return err
		}
		k.recv[rank], err = m.alloc(t, c, rank%4 == 2, uint64(8*longest+guard))
		return err
	})
	k.gathered = make([]byte, 8*longest)
	sample, shared := sampleMatrix(), w.comms[0].agreement.Load().NotShared == ""
	for _, typ := range m.types {
		for _, red := range m.ops {
			k.typ, k.red = typ, red
			sampled := slices.Contains(sample.types, typ) && slices.Contains(sample.ops, red)
			w.must(func(rank int, _ *Comm) error {
				reference.Fill(k.inputs[rank][:longest*typ.Size()], typ, red, rank, 0, matrixSeed)
				copy(k.send[rank].Bytes(), k.inputs[rank])
				return nil
			})
			for _, count := range counts {
				if count > 1<<17 && !sampled && !verbstest.Full() {
					continue // how a long vector is cut depends on the size of its elements alone
				}
				k.expect(count)
				for i, way := range m.ways {
					if !sampled && !verbstest.Full() && (i+int(typ)+int(red))%3 > 0 {
						continue // what a type's sums are does not depend on how its bytes came
					}
					if n > way.Algorithm.MaxRanks(way.Protocol, shared) || way.Algorithm > AlgorithmRing && count > 1<<17 {
						continue // for long vectors by these there is TestLargeByEveryAlgorithm
					}
					for _, inPlace := range []bool{false, true} {
						for _, op := range plan.Operations() {
							if !op.Reduces() && red != m.ops[0] {
								continue // it does not depend on the reduction
							}
							if op != OpAllReduce && way.Protocol == ReceiverInitiated {
								continue
							}
							if verbstest.Full() && op.Rooted() && count == rootedCount {
								for root := range n {
									k.checkFrom(root, op, count, way, inPlace)
								}
								cases += n
								continue
							}
							k.check(op, count, way, inPlace)
							cases++
						}
					}
				}
			}
		}
	}
	if testing.Short() && !verbstest.Race {
		k.metEveryRoot(t, m.ways)
	}
	return cases
}

// kit holds the buffers of a matrix over one ring.
type kit struct {
	w          *world
	n          int
	typ        reduce.Type
	red        reduce.Op
	inputs     [][]byte // by rank, plain memory
	send, recv []*Buffer
	gathered   []byte            // by expect
	wants      map[wanted][]byte // once it is needed
	root       int               // of the last operation that had one
	roots      roots
}

// wanted is what a result depends on, for the inputs that expect was called for.
type wanted struct {
	algorithm Algorithm
	op        Operation
	root      int
}

// want returns what an operation makes of the inputs that expect was called for.
func (k *kit) want(call Call) []byte {
	planned, err := k.w.comms[0].Plan(call)
	switch {
	case err != nil:
		k.w.tb.Fatal(err)
	case !call.Op.Reduces() && call.Op.Rooted():
		return k.inputs[call.Root]
	case !call.Op.Reduces():
		return k.gathered
	}
	key := wanted{planned.Algorithm, call.Op, call.Root}
	if planned.Algorithm != AlgorithmHierarchical && !call.Op.Rooted() {
		key.op = OpAllReduce // has the same order of operands
	}
	want := k.wants[key]
	if want == nil {
		want = make([]byte, call.Count*k.typ.Size())
		c := planned.Checker(k.n, k.w.comms[0].Hosts(), matrixSeed)
		c.Expect(0, call.Count, want)
		k.wants[key] = want
	}
	return want
}

// expect computes what the operations on count elements must yield.
func (k *kit) expect(count int) {
	size := k.typ.Size()
	for r := range k.n {
		lo, hi := reduce.Chunk(count, k.n, r)
		copy(k.gathered[lo*size:hi*size], k.inputs[r][lo*size:])
	}
	k.wants = map[wanted][]byte{}
}

// check runs one operation on all ranks and compares every byte of every buffer.
// k.send holds the inputs before and after. Roots take turns.
func (k *kit) check(op Operation, count int, o CallOptions, inPlace bool) {
	k.w.tb.Helper()
	if op.Rooted() {
		k.root = k.nextRoot(Call{Op: op, Count: count, Type: k.typ, CallOptions: o}, inPlace)
	}
	k.checkFrom(k.root, op, count, o, inPlace)
}

// checkFrom is check of a root, which counts where the operation has one.
func (k *kit) checkFrom(root int, op Operation, count int, o CallOptions, inPlace bool) {
	k.w.tb.Helper()
	call := Call{Op: op, Count: count, Type: k.typ, CallOptions: o}
	if op.Reduces() {
		call.Reduction = k.red
	}
	if op.Rooted() {
		call.Root = root
	}
	want := k.want(call)
	size := k.typ.Size()
	whole := count * size
	errs := k.w.each(func(rank int, c *Comm) error {
		call, input := call, k.inputs[rank][:whole]
		sent, received := call.Buffers(k.n, rank)
		send, recv := k.send[rank].Bytes()[:whole+guard], k.recv[rank].Bytes()[:whole+guard]
		fill(recv)
		around := bytes.Clone(recv) // what is there afterwards
		first := 0                  // of recv, where the result lies
		call.Send, call.Recv = k.send[rank].Addr()+uint64(sent.Lo*size), k.recv[rank].Addr()
		if inPlace {
			copy(recv[sent.Lo*size:sent.Hi*size], input[sent.Lo*size:])
			copy(around, recv)
			first = received.Lo * size
			call.Send, call.Recv = k.recv[rank].Addr()+uint64(sent.Lo*size), k.recv[rank].Addr()+uint64(first)
		}
		result := want[received.Lo*size : received.Hi*size]
		last := first + len(result)
		if err := c.Run(context.Background(), call); err != nil {
			return err
		}
		if !bytes.Equal(recv[first:last], result) {
			wrong, at := reference.Compare(recv[first:last], result, k.typ)
			return fmt.Errorf("%d elements are wrong, the first at %d: got %s, want %s", wrong, at,
				reference.Format(recv[first+at*size:first+(at+1)*size], k.typ), reference.Format(result[at*size:(at+1)*size], k.typ))
		}
		if !bytes.Equal(send[:whole], input) {
			return fmt.Errorf("the send buffer was written")
		}
		if !bytes.Equal(recv[:first], around[:first]) || !bytes.Equal(recv[last:], around[last:]) {
			return fmt.Errorf("bytes around the result were written")
		}
		return nil
	})
	for r, err := range errs {
		if err != nil {
			k.w.tb.Errorf("%s of %d %s, %s, root %d, %s, %s, in place %v: rank %d: %v", op, count, k.typ, k.red, call.Root, o.Algorithm, o.Protocol, inPlace, r, err)
		}
	}
	if k.w.tb.Failed() {
		k.w.tb.FailNow()
	}
}

func fill(b []byte) {
	if len(b) == 0 {
		return
	}
	b[0] = poison
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// alloc returns a buffer, on request in memory that is this process's alone.
func (m matrix) alloc(t *testing.T, c *Comm, private bool, n uint64) (*Buffer, error) {
	if !private || !m.private {
		return c.Alloc(n)
	}
	block, err := memory.Alloc(n)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = block.Free() })
	return c.Register(block.Addr(), n)
}
