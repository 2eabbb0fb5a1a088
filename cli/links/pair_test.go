package links

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"ringcli/ring"
	"ringcli/ring/meetings"
	"ringcli/verbs"
	_ "ringcli/verbs/soft"
)

// onPair runs a test at both ends of a pair, which are goroutines of this process.
func onPair(t *testing.T, how howTo, timeout time.Duration, test func(ctx context.Context, rank int, e *end) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	servers, errs := freshServers(t), [2]error{}
	var wg sync.WaitGroup
	for rank := range errs {
		wg.Go(func() { errs[rank] = onRank(ctx, servers, rank, how, timeout, test) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Error(err)
	}
}

func onRank(ctx context.Context, servers []string, rank int, how howTo, timeout time.Duration, test func(context.Context, int, *end) error) (err error) {
	r, err := ring.Connect(ctx, servers, rank, ring.Options{Device: "soft:lo", Wait: verbs.WaitGosched})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	m, err := meetings.Open(ctx, r, how.bytes, how.outstanding, func(ctx context.Context, own meetings.Report, problem error) ([]meetings.Report, error) {
		if problem != nil {
			return nil, problem
		}
		data, err := json.Marshal(own)
		if err != nil {
			return nil, err
		}
		parts, err := r.Gather(ctx, ring.Purpose{What: "meetings", Do: "meet"}, data)
		all := make([]meetings.Report, len(parts))
		for i := range parts {
			err = errors.Join(err, json.Unmarshal(parts[i], &all[i]))
		}
		return all, err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	x, err := m.Meet(1-rank, 0, 0, 0)
	if err != nil {
		return err
	}
	if err := r.Barrier(ctx); err != nil {
		return err
	}
	r.SetTimeout(timeout)
	if err := test(ctx, rank, newEnd(m, x, how, r.Err)); err != nil {
		return fmt.Errorf("rank %d: %w", rank, err)
	}
	r.SetTimeout(time.Minute)
	return r.Barrier(ctx)
}

// freshServers returns two addresses of a 127.x.y.0/24 that nobody uses. The address .254 stays
// bound to hold it.
func freshServers(t *testing.T) []string {
	t.Helper()
	for range 100 {
		subnet := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), 1+rand.IntN(254))
		claim, err := net.Listen("tcp", subnet+"254:18600")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		return []string{subnet + "1", subnet + "2"}
	}
	t.Fatal("no free 127.x.y.0/24")
	return nil
}

// Who is cancelled while it blocks for the other end sees it at once, not some hundred waits
// later.
func TestCancelled(t *testing.T) {
	how := howTo{bytes: 4096, small: 8, outstanding: 4, span: 20 * time.Millisecond}
	onPair(t, how, 30*time.Second, func(ctx context.Context, rank int, e *end) error {
		e.waiter.Policy = verbs.WaitBlock
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		err := e.hear(ctx, sayDone)
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took > time.Second {
			return fmt.Errorf("%v after %s: expected the end of the context after 100 ms", err, took)
		}
		return nil
	})
}
