package collective_test

import (
	"context"
	"fmt"
	"sync"

	"ringcli/collective"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs"
	"ringcli/verbs/memory"
	_ "ringcli/verbs/soft" // the provider of the devices
)

// rank is what a rank of the examples has: its Comm, and eight elements to send and to receive.
type rank struct {
	*collective.Comm
	send, recv         []int32
	sendAddr, recvAddr uint64
}

// onThree runs one function on three ranks, here three goroutines, and prints what each
// has received.
func onThree(run func(ctx context.Context, r *rank) error) {
	const count = 8
	hosts := []string{"127.0.19.1", "127.0.19.2", "127.0.19.3"}
	node := func(index int) (result []int32, err error) {
		ctx := context.Background()
		ready, err := ring.Connect(ctx, hosts, index, ring.Options{Wait: verbs.WaitGosched})
		if err != nil {
			return nil, err
		}
		defer func() { _ = ready.Close() }()
		c, err := collective.New(ready, collective.Options{})
		if err != nil {
			return nil, err
		}
		defer func() { _ = c.Close() }()
		buffer, err := c.Alloc(2 * 4 * count)
		if err != nil {
			return nil, err
		}
		r := &rank{Comm: c, sendAddr: buffer.Addr(), recvAddr: buffer.Addr() + 4*count}
		r.send, r.recv = memory.Slice[int32](r.sendAddr, count), memory.Slice[int32](r.recvAddr, count)
		for i := range r.send {
			r.send[i] = int32(10*(index+1) + i)
		}
		err = run(ctx, r)
		return append(result, r.recv...), err
	}
	results, errs := make([][]int32, len(hosts)), make([]error, len(hosts))
	var wg sync.WaitGroup
	for index := range hosts {
		wg.Go(func() { results[index], errs[index] = node(index) })
	}
	wg.Wait()
	for index := range hosts {
		fmt.Println("rank", index, "has", results[index], errs[index])
	}
}

func ExampleComm_AllReduce() {
	onThree(func(ctx context.Context, r *rank) error {
		return r.AllReduce(ctx, r.sendAddr, r.recvAddr, 8, reduce.Int32, reduce.Sum, collective.CallOptions{})
	})
	// Output:
	// rank 0 has [60 63 66 69 72 75 78 81] <nil>
	// rank 1 has [60 63 66 69 72 75 78 81] <nil>
	// rank 2 has [60 63 66 69 72 75 78 81] <nil>
}

// Each rank has the chunk of the sum that it owns: two, three and three of eight elements.
func ExampleComm_ReduceScatter() {
	onThree(func(ctx context.Context, r *rank) error {
		return r.ReduceScatter(ctx, r.sendAddr, r.recvAddr, 8, reduce.Int32, reduce.Sum, collective.CallOptions{})
	})
	// Output:
	// rank 0 has [60 63 0 0 0 0 0 0] <nil>
	// rank 1 has [66 69 72 0 0 0 0 0] <nil>
	// rank 2 has [75 78 81 0 0 0 0 0] <nil>
}

// Each rank sends the chunk that it owns.
func ExampleComm_AllGather() {
	onThree(func(ctx context.Context, r *rank) error {
		return r.AllGather(ctx, r.sendAddr, r.recvAddr, 8, reduce.Int32, collective.CallOptions{})
	})
	// Output:
	// rank 0 has [10 11 20 21 22 30 31 32] <nil>
	// rank 1 has [10 11 20 21 22 30 31 32] <nil>
	// rank 2 has [10 11 20 21 22 30 31 32] <nil>
}

func ExampleComm_Broadcast() {
	onThree(func(ctx context.Context, r *rank) error {
		const root = 1
		return r.Broadcast(ctx, r.sendAddr, r.recvAddr, 8, reduce.Int32, root, collective.CallOptions{})
	})
	// Output:
	// rank 0 has [20 21 22 23 24 25 26 27] <nil>
	// rank 1 has [20 21 22 23 24 25 26 27] <nil>
	// rank 2 has [20 21 22 23 24 25 26 27] <nil>
}

func ExampleComm_Reduce() {
	onThree(func(ctx context.Context, r *rank) error {
		const root = 2
		return r.Reduce(ctx, r.sendAddr, r.recvAddr, 8, reduce.Int32, reduce.Max, root, collective.CallOptions{})
	})
	// Output:
	// rank 0 has [0 0 0 0 0 0 0 0] <nil>
	// rank 1 has [0 0 0 0 0 0 0 0] <nil>
	// rank 2 has [30 31 32 33 34 35 36 37] <nil>
}

// A call that is made often is prepared once.
func ExampleComm_Prepare() {
	onThree(func(ctx context.Context, r *rank) error {
		sum, err := r.Prepare(ctx, collective.Call{
			Op: collective.OpAllReduce, Send: r.sendAddr, Recv: r.recvAddr, Count: 8, Type: reduce.Int32, Reduction: reduce.Sum,
		})
		if err != nil {
			return err
		}
		for range 3 {
			if err := sum.Run(ctx); err != nil {
				return err
			}
			copy(r.send, r.recv)
		}
		return r.Barrier(ctx)
	})
	// Output:
	// rank 0 has [540 567 594 621 648 675 702 729] <nil>
	// rank 1 has [540 567 594 621 648 675 702 729] <nil>
	// rank 2 has [540 567 594 621 648 675 702 729] <nil>
}
