package collective

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs/memory"
)

// ordersPage is where the orders of operands are documented.
const ordersPage = "../cli/topics/algorithms.txt"

// documented are the orders of operands as the page words them, of an all-reduce and of a reduce,
// and as this test computes them, by hand: the sum of the elements x of all ranks that are in a
// chunk. Nothing of package reference is used.
var documented = []struct {
	algorithm     Algorithm
	all, reduce   string
	sum           func(x []float32, chunk int) float32
	reduced       func(x []float32, chunk, root int) float32
	sizesOfNoHost []int // numbers of ranks
}{
	{
		AlgorithmRing, "chunk c: ((x[c+1] + x[c+2]) + ...) + x[c], modulo n", "the whole vector is the chunk of the root",
		ringSum, func(x []float32, _, root int) float32 { return ringSum(x, root) }, []int{2, 3, 5},
	},
	{
		AlgorithmRecursiveDoubling, "p is the largest power of two in n: y[v] = x[2v] + x[2v+1] for v < n-p, else x[v+n-p]; then y[v] = y[v] + y[v+d] for d = p/2 ... 2, 1 and v < d; the result is y[0]",
		"x[root+r] in the place of x[r], modulo n",
		func(x []float32, _ int) float32 { return doublingSum(x) },
		func(x []float32, _, root int) float32 { return doublingSum(turned(x, root)) }, []int{2, 3, 4, 6},
	},
	{
		AlgorithmTree, "t(0,n); t(lo,hi) = (t(lo,m) + x[m]) + t(m+1,hi), m is (lo+hi)/2 rounded down; what is empty is left out",
		"x[root-n/2+r] in the place of x[r], modulo n, n/2 rounded down: the root is in the middle",
		func(x []float32, _ int) float32 { return treeSum(x, 0, len(x)) },
		func(x []float32, _, root int) float32 { return treeSum(turned(x, root-len(x)/2+len(x)), 0, len(x)) }, []int{2, 3, 5, 6},
	},
	{
		AlgorithmInbox, "((x[0] + x[1]) + ...) + x[n-1]", "as all-reduce, whatever the root",
		func(x []float32, _ int) float32 { return ringSum(x, len(x)-1) },
		func(x []float32, _, _ int) float32 { return ringSum(x, len(x)-1) }, []int{2, 3, 5},
	},
}

// ringSum begins after a rank and ends with it.
func ringSum(x []float32, last int) float32 {
	sum := x[(last+1)%len(x)]
	for k := 2; k <= len(x); k++ {
		sum += x[(last+k)%len(x)]
	}
	return sum
}

// turned has the element of rank first+r at r.
func turned(x []float32, first int) (y []float32) {
	for r := range x {
		y = append(y, x[(first+r)%len(x)])
	}
	return y
}

func doublingSum(x []float32) float32 {
	p := 1
	for 2*p <= len(x) {
		p *= 2
	}
	var y []float32
	for v := range p {
		if extra := len(x) - p; v < extra {
			y = append(y, x[2*v]+x[2*v+1])
		} else {
			y = append(y, x[v+extra])
		}
	}
	for d := p / 2; d >= 1; d /= 2 {
		for v := range d {
			y[v] += y[v+d]
		}
	}
	return y[0]
}

func treeSum(x []float32, lo, hi int) float32 {
	m := (lo + hi) / 2
	sum := x[m]
	if lo < m {
		sum = treeSum(x, lo, m) + sum
	}
	if m+1 < hi {
		sum += treeSum(x, m+1, hi)
	}
	return sum
}

// hierarchies are hosts with the ranks of each, and the orders of their chunks, written out: in
// each bracket the ranks of a host.
var hierarchies = []struct {
	sizes  []int
	chunks [][][]int
}{
	{[]int{2, 2}, [][][]int{{{0, 1}, {2, 3}}, {{2, 3}, {0, 1}}, {{1, 0}, {3, 2}}, {{3, 2}, {1, 0}}}},
	{[]int{3, 1}, [][][]int{{{0, 1, 2}, {3}}, {{3}, {0, 1, 2}}, {{1, 2, 0}, {3}}, {{2, 0, 1}, {3}}}},
	{[]int{1, 1, 2}, [][][]int{{{0}, {1}, {2, 3}}, {{1}, {2, 3}, {0}}, {{2, 3}, {0}, {1}}, {{3, 2}, {0}, {1}}}},
	{[]int{3, 3}, [][][]int{{{0, 1, 2}, {3, 4, 5}}, {{3, 4, 5}, {0, 1, 2}}, {{1, 2, 0}, {4, 5, 3}}, {{4, 5, 3}, {1, 2, 0}}, {{2, 0, 1}, {5, 3, 4}}, {{5, 3, 4}, {2, 0, 1}}}},
}

// alongSum adds the ranks of each host, and then the hosts.
func alongSum(x []float32, hosts [][]int) (all float32) {
	for i, ranks := range hosts {
		sum := x[ranks[0]]
		for _, rank := range ranks[1:] {
			sum += x[rank]
		}
		if i == 0 {
			all = sum
		} else {
			all += sum
		}
	}
	return all
}

// TestDocumentedOrders: the sums of all-reduce and reduce are, to the bit, those in the order of
// operands that the page of algorithms has, for each root.
func TestDocumentedOrders(t *testing.T) {
	text, err := os.ReadFile(ordersPage)
	if err != nil {
		t.Fatal(err)
	}
	page := regexp.MustCompile(`\s+`).ReplaceAllString(string(text), " ")
	for _, d := range documented {
		for _, says := range []string{d.all, d.reduce} {
			if !strings.Contains(page, d.algorithm.String()+" "+says) {
				t.Errorf("%s does not say of %s: %s", ordersPage, d.algorithm, says)
			}
		}
		for _, n := range d.sizesOfNoHost {
			t.Run(fmt.Sprintf("%s/%d", d.algorithm, n), func(t *testing.T) {
				w := newWorldOf(t, n, func(int) ring.Options { return ring.Options{Device: "soft:lo"} }, nil)
				holdOrders(t, w, CallOptions{Algorithm: d.algorithm}, d.sum, d.reduced)
			})
		}
	}
	if says := "hierarchical as all-reduce, whatever the root"; !strings.Contains(page, says) {
		t.Errorf("%s does not say: %s", ordersPage, says)
	}
	for _, h := range hierarchies {
		t.Run(fmt.Sprintf("hierarchical/%d", h.sizes), func(t *testing.T) {
			sum := func(x []float32, chunk int) float32 { return alongSum(x, h.chunks[chunk]) }
			for name, options := range map[string]func(int) ring.Options{
				"packets": func(int) ring.Options {
					return ring.Options{Device: "soft:lo", Hosts: strings.Trim(strings.ReplaceAll(fmt.Sprint(h.sizes), " ", ","), "[]")}
				},
				"shared memory": along(h.sizes...),
			} {
				t.Run(name, func(t *testing.T) {
					w := newWorldOf(t, len(h.chunks), options, nil)
					holdOrders(t, w, hierarchical, sum, func(x []float32, chunk, _ int) float32 { return sum(x, chunk) })
				})
			}
		})
	}
}

// perChunk is how many elements a chunk has. Their sums depend on the order.
const perChunk = 32

// orderly is an element of a rank: of the magnitudes 1 to 1e8, and of either sign.
func orderly(rank, i int) float32 {
	x := float32(math.Pow(10, float64((rank*5+i*3)%9))) * (1 + float32(rank+i%7)/8)
	if (rank+i/3)%2 == 1 {
		return -x
	}
	return x
}

// holdOrders runs all-reduce, and reduce to each root, and holds the results against the sums.
func holdOrders(t *testing.T, w *world, way CallOptions, sum func(x []float32, chunk int) float32, reduced func(x []float32, chunk, root int) float32) {
	t.Helper()
	n := len(w.comms)
	count := n * perChunk
	send, recv := make([]*Buffer, n), make([]*Buffer, n)
	floats := func(b *Buffer) []float32 { return memory.Slice[float32](b.Addr(), count) }
	w.must(func(rank int, c *Comm) (err error) {
		for _, b := range []**Buffer{&send[rank], &recv[rank]} {
			if *b, err = c.Alloc(uint64(4 * count)); err != nil {
				return err
			}
		}
		for i := range count {
			floats(send[rank])[i] = orderly(rank, i)
		}
		return nil
	})
	x := func(i int) (all []float32) {
		for rank := range n {
			all = append(all, orderly(rank, i))
		}
		return all
	}
	run := func(op Operation, root int) {
		w.must(func(rank int, c *Comm) error {
			return c.Run(context.Background(), Call{Op: op, Count: count, Type: reduce.Float32, Reduction: reduce.Sum, Root: root,
				Send: send[rank].Addr(), Recv: recv[rank].Addr(), CallOptions: way})
		})
	}
	run(OpAllReduce, 0)
	for rank := range n {
		for i, got := range floats(recv[rank]) {
			if want := sum(x(i), i/perChunk); got != want {
				t.Fatalf("all-reduce, rank %d, element %d of chunk %d: %v, expected %v of %v", rank, i, i/perChunk, got, want, x(i))
			}
		}
	}
	for root := range n {
		run(OpReduce, root)
		for i, got := range floats(recv[root]) {
			if want := reduced(x(i), i/perChunk, root); got != want {
				t.Fatalf("reduce to %d, element %d of chunk %d: %v, expected %v of %v", root, i, i/perChunk, got, want, x(i))
			}
		}
	}
}

// The elements of the test tell the orders of each algorithm apart: that of one root or chunk from
// that of another, and so what the page says of a reduce from what it does not.
func TestElementsTellOrdersApart(t *testing.T) {
	for name, sum := range map[string]func(x []float32) float32{
		"ring":         func(x []float32) float32 { return ringSum(x, 0) },
		"doubling":     doublingSum,
		"tree":         func(x []float32) float32 { return treeSum(x, 0, len(x)) },
		"hosts of 3,1": func(x []float32) float32 { return alongSum(x, hierarchies[1].chunks[0]) },
	} {
		n := 4
		if name == "doubling" { // of 4 it is (x[0]+x[2])+(x[1]+x[3]) from wherever it begins
			n = 3
		}
		var sums [][]float32 // by where the order begins
		for first := range n {
			sums = append(sums, nil)
			for i := range n * perChunk {
				var x []float32
				for rank := range n {
					x = append(x, orderly(rank, i))
				}
				sums[first] = append(sums[first], sum(turned(x, first)))
			}
			for other := range first {
				if slices.Equal(sums[first], sums[other]) {
					t.Errorf("%s gives the same sums from rank %d and from rank %d on", name, first, other)
				}
			}
		}
	}
}
