package plain_test

import (
	"context"
	"fmt"
	"sync"

	"ringcli/collective"
	"ringcli/collective/plain"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs"
	_ "ringcli/verbs/soft" // the provider of the devices
)

// The five functions that the C interface had, in its order: connect,
// reduce-scatter, all-gather, all-reduce, close. A program calls this once, on
// each node with another index; here the nodes are goroutines.
func Example() {
	servers := []string{"127.0.18.1", "127.0.18.2", "127.0.18.3"}
	node := func(index int) (result []int32, err error) {
		ctx := context.Background()
		r, err := ring.Connect(ctx, servers, index, ring.Options{Wait: verbs.WaitGosched})
		if err != nil {
			return nil, err
		}
		defer func() { _ = r.Close() }()
		c, err := collective.New(r, collective.Options{})
		if err != nil {
			return nil, err
		}
		defer func() { _ = c.Close() }()
		p := plain.New(c)

		mine := []int32{1, 2, 3, 4, 5, 6}
		chunk := make([]int32, 2) // 6 elements on 3 ranks
		if err := plain.ReduceScatter(ctx, p, mine, chunk, reduce.Sum); err != nil {
			return nil, err
		}
		whole := make([]int32, 6)
		if err := plain.AllGather(ctx, p, chunk, whole); err != nil {
			return nil, err
		}
		err = plain.AllReduce(ctx, p, whole, whole, reduce.Prod)
		return whole, err
	}

	results := make([][]int32, len(servers))
	var wg sync.WaitGroup
	for index := range servers {
		wg.Go(func() {
			var err error
			if results[index], err = node(index); err != nil {
				fmt.Println(err)
			}
		})
	}
	wg.Wait()
	for index, result := range results {
		fmt.Println("rank", index, "has", result)
	}
	// Output:
	// rank 0 has [27 216 729 1728 3375 5832]
	// rank 1 has [27 216 729 1728 3375 5832]
	// rank 2 has [27 216 729 1728 3375 5832]
}
