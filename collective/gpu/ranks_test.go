//go:build !nodl

package gpu

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"ringcli/ring"
	"ringcli/verbs/gpu"
	"ringcli/verbs/gpu/gputest"
	"ringcli/verbs/memory"
	_ "ringcli/verbs/soft"
)

// asRank makes the test binary be a rank: SCENARIO RANK SERVER...
const asRank = "RINGTEST_AS_RANK"

// scenarios are what the ranks of a test do.
var scenarios = map[string]func(ctx context.Context, r *ring.Ring, t *Team) error{
	"existing": existing, "alone": alone, "hung": hung,
}

func TestMain(m *testing.M) {
	if os.Getenv(asRank) == "" {
		os.Exit(m.Run())
	}
	if err := beRank(strings.Fields(os.Getenv(asRank))); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func beRank(words []string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	rank, err := strconv.Atoi(words[1])
	if err != nil {
		return err
	}
	r, err := ring.Connect(ctx, words[2:], rank, ring.Options{Device: "soft:lo", Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	t, err := Join(ctx, r, gpu.Place{Kind: gpu.CUDA, Index: rank % 2})
	if err != nil {
		return err
	}
	if t.apart != "" {
		return errors.Join(errors.New(t.apart), t.Close())
	}
	return scenarios[words[0]](ctx, r, t)
}

// TestRanks runs each scenario on ranks that are processes: none can open memory of its own.
func TestRanks(t *testing.T) {
	dir := gputest.Build(t, "kernels/testdata/gputest.c")
	for scenario, n := range map[string]int{"existing": 3, "alone": 3, "hung": 1} {
		t.Run(scenario, func(t *testing.T) { ranks(t, dir, scenario, n) })
	}
}

func ranks(t *testing.T, dir, scenario string, n int) {
	var servers []string
	for servers == nil {
		subnet := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(250), 1+rand.IntN(250))
		claim, err := net.Listen("tcp", subnet+"254:18600")
		if err != nil {
			continue
		}
		defer func() { _ = claim.Close() }()
		for rank := range n {
			servers = append(servers, subnet+strconv.Itoa(rank+1))
		}
	}
	all, said := make([]*exec.Cmd, n), make([]bytes.Buffer, n)
	for rank := range all {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, fmt.Sprintf("%s=%s %d %s", asRank, scenario, rank, strings.Join(servers, " ")))
		if scenario == "hung" {
			cmd.Env = append(cmd.Env, "RINGTEST_GPU_HUNG=2") // behind what Join waits for
		}
		cmd.Stdout, cmd.Stderr = &said[rank], &said[rank]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all[rank] = cmd
	}
	for rank, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Errorf("rank %d: %v\n%s", rank, err, said[rank].String())
		}
	}
}

// existing: memory that its owner has allocated before, and a part of it, is symmetric as new memory
// is. It lies elsewhere at each rank, and each reads the others'.
func existing(ctx context.Context, _ *ring.Ring, t *Team) error {
	const n = 10000
	at := 256 * (1 + t.rank) // in the allocation
	m, err := t.device.Alloc(n + 1024)
	if err != nil {
		return err
	}
	mine := m.Addr() + uint64(at)
	if err := errors.Join(t.stream.Fill(m.Addr(), 0xee, m.Len()), t.stream.Fill(mine, byte(1+t.rank), n), t.stream.Wait(ctx)); err != nil {
		return err
	}
	// Two regions of one allocation open it once.
	region, err := t.Region(ctx, mine, n)
	if err != nil {
		return err
	}
	inner, err := t.Region(ctx, mine+1000, n-2000)
	if err != nil {
		return err
	}
	if len(t.opened) != 2*(t.size-1) { // the arenas, too
		return fmt.Errorf("%d allocations of others are open, expected %d", len(t.opened), 2*(t.size-1))
	}
	host, err := t.device.AllocPinned(n)
	if err != nil {
		return err
	}
	own, err := t.device.Alloc(n)
	if err != nil {
		return err
	}
	for rank, from := range region.at {
		if err := errors.Join(t.stream.OnDevice(own.Addr(), from, n), t.stream.FromDevice(host.Addr(), own.Addr(), n), t.stream.Wait(ctx)); err != nil {
			return err
		}
		if want := bytes.Repeat([]byte{byte(1 + rank)}, n); !bytes.Equal(host.Bytes(), want) || inner.at[rank] != from+1000 {
			return fmt.Errorf("rank %d's memory has %x..., expected %x; its part begins %d bytes behind", rank, host.Bytes()[:8], want[:8], inner.at[rank]-from)
		}
	}
	// What is not the device's, or not all in one allocation, is refused on all ranks alike.
	block, err := memory.Alloc(n)
	if err != nil {
		return err
	}
	addr, length, want := block.Addr(), n, "rank 1: memory at "
	switch t.rank {
	case 0:
		addr, length = mine, n+1024
	case 2:
		addr = mine
	}
	_, refused := t.Region(ctx, addr, length)
	if lack, ok := errors.AsType[*LackError](refused); !ok || !strings.Contains(lack.Text, want) || !strings.Contains(lack.Text, "rank 0: memory of 11024 bytes") || strings.Contains(lack.Text, "rank 2") {
		return fmt.Errorf("%w: expected the words of ranks 0 and 1", cmp.Or(refused, errors.New("nothing is refused")))
	}
	return errors.Join(region.Close(ctx), inner.Close(ctx), m.Free(), own.Free(), host.Free(), block.Free(), t.Close())
}

// alone: a rank that closes begins nothing on the ring that the others would have to join.
func alone(ctx context.Context, r *ring.Ring, t *Team) error {
	if err := errors.Join(t.Release(), r.Barrier(ctx)); err != nil {
		return err
	}
	if t.rank == 1 {
		return errors.Join(r.Barrier(ctx), t.Close())
	}
	return errors.Join(t.Close(), r.Barrier(ctx))
}

// hung: of a device that does nothing any more it is said so, in the time that there is for that.
func hung(_ context.Context, _ *ring.Ring, t *Team) error {
	said := make(chan standing, 1)
	go func() { said <- t.standing() }()
	select {
	case s := <-said:
		if s.From >= 0 {
			return fmt.Errorf("%s: expected its own work", s)
		}
		return t.Close()
	case <-time.After(10 * rescueTime):
		return errors.New("a copy to the host has not come back")
	}
}
